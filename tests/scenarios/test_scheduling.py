"""Which job starts first when capacity is short, which may pass, and what a waiting job shows."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.catalog import ShareWeight
from batchq.domain.enums import State, Status
from batchq.domain.ids import QueueName
from batchq.errors import Invalid
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.scripts import FOR_EVER, LASTING, Script

LONG = Script(seconds=FOR_EVER)
SHORT = Script(seconds=0.5)
WHOLE = 4000  # all of the environment
FOR_VCPUS = status_reasons.no_room("vCPUs of compute environment local")


@pytest.fixture
async def shared(world):
    """The queue named shared, whose shares take turns: blue gets twice what others get."""
    fair = builders.policy(shares=(ShareWeight(identifier="blue", weight=0.5),))
    await world.catalog.scheduling_policies.create(fair, caller=ADMIN)
    await world.queue("shared", policy=fair.name)


async def started(world, *jobs):
    """Whether they have."""
    found = await world.store.jobs(jobs)
    return [found[job].status not in {Status.SUBMITTED, Status.PENDING, Status.RUNNABLE} for job in jobs]


# ---------------------------------------------------------------------------------------------------------- the blocked


@pytest.mark.fault("SP27")
async def test_jobs_of_a_disabled_queue_run_and_it_cannot_be_deleted(world):
    runs = await world.submit(LASTING, millicpus=4000)
    waits = await world.submit(Script(seconds=0), millicpus=4000)
    await world.wait_for(runs, Status.RUNNING)

    await world.catalog.job_queues.update(
        QueueName("default"), lambda value: replace(value, state=State.DISABLED), caller=ADMIN
    )

    with pytest.raises(Invalid, match="disabled and accepts no jobs"):
        await world.submit()
    with pytest.raises(Invalid, match="holds 2 unfinished jobs"):
        await world.catalog.job_queues.delete(QueueName("default"), caller=ADMIN)
    await world.finish(runs)
    assert len((await world.wait_for(runs, Status.SUCCEEDED)).attempts) == 1
    await world.wait_for(waits, Status.SUCCEEDED)


async def test_a_queue_is_not_deleted_while_a_job_of_it_is_being_saved(world):
    queue, deletions = QueueName("default"), []

    async def delete_queue(changes):
        if changes.inserted:
            await world.catalog.job_queues.update(
                queue, lambda value: replace(value, state=State.DISABLED), caller=ADMIN
            )
            deletions.append(asyncio.create_task(world.catalog.job_queues.delete(queue, caller=ADMIN)))
            await world.sleep(0.1)  # as far as the deletion comes before the commit

    world.store.before_commit = delete_queue
    job = await world.start(LASTING)

    with pytest.raises(Invalid, match="holds 1 unfinished job"):
        await deletions[0]
    await world.finish(job)


async def test_the_head_of_a_queue_shows_what_it_waits_for(world):
    await world.start(LONG, millicpus=WHOLE)

    head = await world.submit(millicpus=1000)

    await world.wait_for(head, Status.RUNNABLE, status_reason=FOR_VCPUS)


async def test_the_time_since_which_a_head_waits_survives_a_restart(world):
    await world.start(LONG, millicpus=WHOLE)
    head = await world.submit(millicpus=1000)
    since = (await world.wait_for(head, Status.RUNNABLE, status_reason=FOR_VCPUS)).blocked_at

    await world.restart()
    await world.wait_until_idle()

    await world.wait_for(head, Status.RUNNABLE, status_reason=FOR_VCPUS, blocked_at=since)


# ------------------------------------------------------------------------------------------------------------- backfill


async def test_a_small_job_does_not_pass_a_waiting_head(world):
    await world.start(LONG, millicpus=2000)
    head = await world.submit(millicpus=WHOLE)

    small = await world.submit(SHORT, millicpus=1000)
    await world.wait_until_idle()

    assert await started(world, head, small) == [False, False]


async def test_a_job_that_ends_before_the_head_can_start_is_backfilled(world):
    first = await world.start(LONG, millicpus=2000, limit=7200)
    head = await world.submit(millicpus=WHOLE)

    small = await world.submit(SHORT, millicpus=1000, limit=600)

    await world.wait_for(small, Status.SUCCEEDED)
    await world.wait_for(head, Status.RUNNABLE)
    await world.terminate(first)
    await world.wait_for(head, Status.SUCCEEDED)


# ----------------------------------------------------------------------------------------------------------- fair share


async def test_shares_alternate_whichever_submitted_first(world, shared):
    first = await world.start(LONG, queue="shared", share="red", millicpus=WHOLE)
    reds = [await world.submit(LONG, queue="shared", share="red", millicpus=2000) for _ in range(2)]
    blue = await world.submit(LONG, queue="shared", share="blue", millicpus=2000)

    await world.terminate(first)

    await world.wait_for(blue, Status.RUNNING)
    await world.wait_for(reds[0], Status.RUNNING)
    assert await started(world, reds[1]) == [False]


async def test_within_a_share_the_higher_priority_starts_first(world, shared):
    first = await world.start(LONG, queue="shared", share="red", millicpus=WHOLE)
    usual = await world.submit(queue="shared", share="red", millicpus=WHOLE)
    urgent = await world.submit(LONG, queue="shared", share="red", millicpus=WHOLE, priority=9)

    await world.terminate(first)

    await world.wait_for(urgent, Status.RUNNING)
    assert await started(world, usual) == [False]


async def test_the_usage_of_a_share_counts_after_a_restart(world, shared):
    first = await world.start(LONG, queue="shared", share="red", millicpus=WHOLE)
    await world.sleep(2)
    old = await world.submit(queue="shared", share="red", millicpus=WHOLE)
    new = await world.submit(LONG, queue="shared", share="violet", millicpus=WHOLE)

    await world.restart()
    await world.terminate(first)

    await world.wait_for(new, Status.RUNNING)
    assert await started(world, old) == [False]


async def test_the_snapshot_has_the_order_of_the_starts(world, shared):
    await world.start(LONG, queue="shared", share="red", millicpus=WHOLE)
    reds = [await world.submit(SHORT, queue="shared", share="red", millicpus=WHOLE) for _ in range(2)]
    blue = await world.submit(SHORT, queue="shared", share="blue", millicpus=WHOLE)

    snapshot = await world.jobs.snapshot("shared", caller=ADMIN)

    assert [job_id for job_id, _ in snapshot.jobs] == [blue, *reds]
    assert (snapshot.millicpus, snapshot.shares, snapshot.active_shares) == (WHOLE, (("red", WHOLE),), 2)
