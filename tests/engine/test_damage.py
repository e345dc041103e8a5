"""Jobs whose rows cannot be read fail, their dependents follow, and no other job is affected."""

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.domain.job import Dependency
from batchq.domain.lifecycle.reconcile import SurveyedContainer, tags_under_way
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.engine.mailbox import TimerFired, UpdateTags
from batchq.ports.jobs import Changes
from batchq.store import rows
from batchq.store.sqlite_store import SqliteStore
from tests.domain.lives import exited, pending, runnable, running, starting, succeeded
from tests.domain.part_lives import task_job
from tests.engine.harness import (
    SURVEYED,
    LoopHarness,
    answer,
    catalog_of,
    event_message,
    new_unit,
    submit,
    unit_with,
)
from tests.support.builders import ADMIN, environment, job_id, policy, queue, task_container
from tests.support.inline import InlineDatabase

pytestmark = pytest.mark.fault("LC06")

ALL = environment().max_millicpus

DAMAGES = {
    "is cut short": '{"id":"00000000',
    "is empty": "",
    "is a list": "[1, 2]",
    "has members of another kind": '{"id":5,"sequence":"x","created_at":[]}',
    "is not UTF-8": b'{"id":"\xff\xfe',
    "is without an id": '{"created_at":"2026-11-21T12:00:00Z"}',
}


@pytest.fixture
async def database():
    database = InlineDatabase()
    yield database
    await database.close()


def damage(database, job, column="state", what="{"):
    table = "job_specs" if column == "spec" else "jobs"
    value = f"CAST(x'{what.hex()}' AS TEXT)" if isinstance(what, bytes) else f"'{what}'"
    database.connection.execute(f"UPDATE {table} SET {column} = {value} WHERE sequence = {job.sequence}")


async def harness_with(database, *jobs, catalog=None):
    """A harness whose store has these jobs, before it has read any of them."""
    store = SqliteStore(database)
    await store.commit(Changes(inserted=jobs))
    return LoopHarness(store, catalog or catalog_of())


async def check_damaged(harness):
    """Fire the timer of each damaged job, as the periodic check does."""
    await harness.process(*(TimerFired(job_id=other_job_id) for other_job_id in await harness.store.damaged()))


async def process_mailbox(harness, *, units):
    """Process messages until the mailbox is empty, in at most so many units of work."""
    for _ in range(units):
        if not harness.mailbox.is_empty:
            await harness.process(*await harness.mailbox.take(99))


async def end_of(harness, job):
    now = (await harness.store.jobs([job.id]))[job.id]
    return now.status, now.status_reason


LOST = (Status.FAILED, status_reasons.UNREADABLE)


@pytest.mark.parametrize("column", ["state", "spec"])
@pytest.mark.parametrize("what", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("life", [pending, runnable, starting, running])
async def test_a_damaged_job_in_any_state_fails_and_other_jobs_run(database, life, what, column):
    bad, good = life(), runnable()
    harness = await harness_with(database, bad, good)
    damage(database, bad, column, what)
    await harness.loop.load()
    await harness.store.jobs([bad.id])

    await check_damaged(harness)
    await harness.process(SURVEYED)

    assert await end_of(harness, bad) == LOST
    assert await harness.status(good) is Status.STARTING
    assert await harness.store.damaged() == ()
    assert bad.id not in harness.loop.state.active


async def test_a_damaged_job_fails_although_it_is_cached(database):
    holds, bad = running(millicpus=ALL), runnable()
    harness = await harness_with(database, holds, bad)
    await harness.loop.load()
    await harness.process(SURVEYED)
    assert bad.id in harness.loop.scheduler.queue_cache.cached_jobs
    damage(database, bad)
    await harness.store.jobs([bad.id])

    await check_damaged(harness)

    assert await end_of(harness, bad) == LOST


async def test_a_head_that_lost_its_id_does_not_cause_endless_units_of_work(database):
    holds, bad = running(millicpus=ALL), runnable(millicpus=ALL)
    harness = await harness_with(database, holds, bad)
    await harness.loop.load()
    await harness.process(SURVEYED)
    harness.loop.scheduler.queue_cache.invalidate(bad.id)
    lost = job_id(7_000_000)
    damage(database, bad, "id", lost)

    await harness.process(event_message(holds, exited(0)))
    await process_mailbox(harness, units=9)

    assert await end_of(harness, replace(bad, id=lost)) == LOST
    assert harness.mailbox.is_empty


async def test_a_damaged_head_does_not_block_its_queue(database):
    holds, bad, behind = running(millicpus=ALL), runnable(millicpus=2000), runnable(millicpus=ALL)
    harness = await harness_with(database, holds, bad, behind)
    damage(database, bad)
    await harness.loop.load()

    await harness.process(SURVEYED)
    await harness.process(SURVEYED, event_message(holds, exited(0)))

    assert await end_of(harness, bad) == LOST
    assert await harness.status(behind) is Status.STARTING


async def test_a_dependent_is_found_although_a_damaged_job_seems_to_wait_again(database):
    first = running()
    bad, waits = runnable(depends_on=(Dependency(job_id=first.id),)), pending(depends_on=(Dependency(job_id=first.id),))
    harness = await harness_with(database, first, bad, waits)
    damage(database, bad, "status", "nonsense")
    await harness.loop.load()
    await harness.store.jobs([bad.id])

    await check_damaged(harness)
    await harness.process(SURVEYED, event_message(first, exited(0)))

    assert await end_of(harness, bad) == LOST
    assert await harness.status(waits) is Status.STARTING


UNSCHEDULABLE = {"unschedulable": True, "status_reason": status_reasons.TOO_LARGE}


@pytest.mark.parametrize(
    ("jobs", "column"),
    [
        ([running(millicpus=2000), runnable(millicpus=ALL), runnable(millicpus=ALL - 2000)], "state"),
        ([runnable(), runnable()], "consumable_requirements"),
        ([runnable(**UNSCHEDULABLE), runnable(**UNSCHEDULABLE)], "state"),
    ],
    ids=["a head with reserved capacity", "a job with damaged scheduling columns", "an unschedulable job"],
)
async def test_the_job_behind_a_damaged_job_starts_at_once(database, jobs, column):
    *_, bad, behind = jobs
    harness = await harness_with(database, *jobs)
    damage(database, bad, column)
    await harness.loop.load()

    await harness.process(SURVEYED)
    started = await harness.status(behind)
    await check_damaged(harness)

    assert started is Status.STARTING
    assert await end_of(harness, bad) == LOST


async def test_the_damaged_record_is_kept_unchanged(database):
    bad = runnable()
    harness = await harness_with(database, bad)
    damage(database, bad, "state", b'{"id":"\xff')
    damage(database, bad, "spec", "no spec")

    await harness.store.jobs([bad.id])

    kept = database.connection.execute(
        "SELECT sequence, column_name, raw FROM quarantine ORDER BY column_name"
    ).fetchall()
    assert kept == [(bad.sequence, "spec", b"no spec"), (bad.sequence, "state", b'{"id":"\xff')]
    assert await harness.store.quarantined_values() == 2


async def test_readable_columns_of_a_damaged_job_are_kept(database):
    bad = running(attempts=3, tags=(("a", "b"),))
    harness = await harness_with(database, bad)
    database.connection.execute("""UPDATE jobs SET state = replace(state, '"created_at":', '"created_at":[],"x":')""")
    await harness.loop.load()

    await check_damaged(harness)

    left = (await harness.store.jobs([bad.id]))[bad.id]
    assert (left.status, left.spec, left.tags) == (Status.FAILED, bad.spec, bad.tags)


async def test_a_damaged_finished_job_keeps_the_status_of_its_columns(database):
    done, waits = succeeded(), pending(depends_on=[job_id(5)])
    harness = await harness_with(database, done, waits)
    damage(database, done)
    await harness.loop.load()

    await harness.process(SURVEYED)

    assert (await end_of(harness, done)) == (Status.SUCCEEDED, status_reasons.UNREADABLE)
    assert await harness.store.damaged() == ()


async def test_a_damaged_finished_job_holds_no_resources(database):
    done = succeeded()
    harness = await harness_with(database, done)
    lives = running()
    result = rows.state_row(replace(lives, id=done.id, sequence=done.sequence), version=0)["state"]
    database.connection.execute("UPDATE jobs SET state = ? WHERE sequence = ?", (result, done.sequence))
    await harness.loop.load()

    await harness.process(
        UpdateTags(job_id=done.id, change=lambda job: replace(job, tags=(("a", "b"),)), answer=answer(), caller=ADMIN)
    )

    assert await harness.status(done) is Status.SUCCEEDED
    assert harness.loop.state.active == {}


async def test_a_job_in_memory_is_not_affected_by_its_damaged_row(database):
    job = running()
    harness = await harness_with(database, job)
    await harness.loop.load()
    damage(database, job)
    await harness.store.jobs([job.id])

    await check_damaged(harness)
    await harness.process(event_message(job, exited(0)))

    assert await harness.status(job) is Status.SUCCEEDED


def test_a_damaged_job_loaded_twice_fails_once():
    bad = replace(runnable(), status_reason=status_reasons.UNREADABLE)
    unit = unit_with(bad)

    unit.load([bad])

    result = unit.committed(None).transitions
    assert [(transition.before, transition.job.status) for transition in result] == [(Status.RUNNABLE, Status.FAILED)]


def test_memory_takes_precedence_over_a_damaged_row():
    good = running()
    unit = new_unit(good)

    unit.load([replace(good, status_reason=status_reasons.UNREADABLE)])

    assert unit.get(good.id) is good


async def test_dependents_of_a_damaged_job_fail(database):
    bad = runnable()
    waits = pending(depends_on=[bad.id])
    after = pending(depends_on=[waits.id])
    harness = await harness_with(database, bad, waits, after)
    damage(database, bad)
    await harness.loop.load()

    await harness.process(SURVEYED)

    assert await end_of(harness, bad) == LOST
    assert await end_of(harness, waits) == (Status.FAILED, status_reasons.dependency_failed(bad.id))
    assert await end_of(harness, after) == (Status.FAILED, status_reasons.dependency_failed(waits.id))


async def test_the_container_of_a_damaged_job_is_removed_and_its_capacity_is_free(database):
    bad, good = running(millicpus=ALL), runnable(millicpus=ALL)
    harness = await harness_with(database, bad, good)
    database.connection.execute(f"UPDATE jobs SET state = rtrim(state, '}}') WHERE sequence = {bad.sequence}")
    await harness.loop.load()

    await check_damaged(harness)
    await harness.process(replace(SURVEYED, containers=(SurveyedContainer(tag=bad.tag, running=True),)))

    assert do.CleanUpContainer(tag=bad.tag) in harness.effects
    assert await harness.status(good) is Status.STARTING


async def test_a_container_missing_from_the_damaged_row_is_found_by_a_survey(database):
    bad = running()
    harness = await harness_with(database, bad)
    damage(database, bad)
    await harness.loop.load()

    await check_damaged(harness)
    await harness.process(replace(SURVEYED, containers=(SurveyedContainer(tag=bad.tag, running=True),)))

    assert harness.effects == [do.CleanUpContainer(tag=bad.tag)]


async def test_all_containers_of_a_damaged_multi_container_job_are_removed(database):
    bad = task_job(task_container("a"), task_container("b"))
    harness = await harness_with(database, bad)
    damage(database, bad, "spec")
    await harness.loop.load()

    await check_damaged(harness)

    assert harness.effects == [do.CleanUpContainer(tag=tag) for tag in tags_under_way(bad)]
    assert await end_of(harness, bad) == LOST


@pytest.mark.parametrize("column", ["state", "spec"])
async def test_a_damaged_job_leaves_the_usage_of_its_share(database, column):
    fair = catalog_of(queue("fair", policy="fair"), policies=[policy()])
    harness = await harness_with(database, catalog=fair)
    await harness.loop.load()
    await harness.process(SURVEYED, submit(job_id(10**6), queue="fair", share_identifier="red"))
    (bad,) = harness.loop.state.active.values()
    damage(database, bad, column)
    await harness.store.jobs([bad.id])
    await harness.loop.load()

    await check_damaged(harness)

    use = (await harness.store.shares())[ShareKey("fair", "red")]
    assert (use.active, use.millicpus) == (0, 0)


async def spawned(database, size=3):
    """An array whose children all run."""
    harness = await harness_with(database)
    await harness.loop.load()
    array = job_id(10**6)
    await harness.process(SURVEYED, submit(array, array_size=size))
    await through(harness)
    return harness, (await harness.store.jobs([array]))[array]


async def through(harness):
    """Process units of work until the mailbox is empty."""
    for _ in range(20):
        if harness.mailbox.is_empty:
            return
        await harness.process(*await harness.mailbox.take(100))


async def children(harness, array):
    return (await harness.store.jobs([child_id(array.id, index) for index in range(3)])).values()


@pytest.mark.parametrize("column", ["state", "spec"])
async def test_the_children_of_a_damaged_array_fail(database, column):
    harness, array = await spawned(database)
    damage(database, array, column)
    await harness.loop.load()
    await harness.store.jobs([array.id])

    await check_damaged(harness)
    await through(harness)
    started = [event_message(job, exited(0)) for job in harness.loop.state.active.values()]
    await harness.process(*started)
    await through(harness)

    assert await end_of(harness, array) == LOST
    assert {child.status for child in await children(harness, array)} == {Status.FAILED}
    assert harness.loop.state.active == {}


@pytest.mark.parametrize("damage", ["state = '{'", "status = 'PENDINH'"])
async def test_an_array_damaged_while_it_spawns_ends_with_its_children(database, damage):
    harness = await harness_with(database)
    await harness.loop.load()
    array = job_id(10**6)
    await harness.process(SURVEYED, submit(array, array_size=300))
    await harness.process(*await harness.mailbox.take(10))
    database.connection.execute(f"UPDATE jobs SET {damage} WHERE id = '{array}'")
    await harness.loop.load()
    await harness.store.jobs([array])

    await check_damaged(harness)
    await through(harness)
    await harness.process(*(event_message(job, exited(0)) for job in harness.loop.state.active.values()))
    await through(harness)

    over = (await harness.store.jobs([array]))[array]
    assert (over.status, over.status_reason) == LOST
    assert harness.loop.state.active == {}


async def test_a_damaged_child_counts_as_failed(database):
    harness, array = await spawned(database)
    bad, *others = await children(harness, array)
    damage(database, bad)
    await harness.loop.load()

    await check_damaged(harness)
    await harness.process(*(event_message(job, exited(0)) for job in others if job.status is Status.STARTING))
    await through(harness)

    assert await end_of(harness, bad) == LOST
    assert await end_of(harness, array) == (Status.FAILED, status_reasons.CHILD_FAILED)
    assert [child.status for child in await children(harness, array)] == [
        Status.FAILED,
        Status.SUCCEEDED,
        Status.SUCCEEDED,
    ]
