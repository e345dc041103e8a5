"""The contract of every store: arrays and their children."""

import pytest
from msgspec.structs import replace

from batchq.domain.enums import QUEUED, DependencyType, Status
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job import ArrayState, Dependency
from batchq.domain.job_selection import JobSelection
from batchq.errors import Conflict
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.ports.jobs import Changes
from tests.support.builders import cancel, child, job, job_id, stop

DEFAULT = QueueName("default")


def array(size=4, **changes):
    return job(**{"array_size": size, "status": Status.PENDING, "array_state": ArrayState(spawned=size)} | changes)


def children(of, *statuses):
    return tuple(child(of, index, status=status) for index, status in enumerate(statuses))


def indices(jobs):
    return [other_job.child.index for other_job in jobs]


@pytest.fixture
async def seven_children(store):
    """An array of the seven statuses, between two jobs of their own."""
    parent = array(7, number=10)
    seven = children(parent, *Status)
    before, after = job(number=9), job(number=18)
    await store.commit(Changes(inserted=(before, parent, after)))
    await store.commit(Changes(inserted=seven))
    return seven


# --------------------------------------------------------------------------------------------------- saving and reading


async def test_a_child_is_read_with_the_spec_of_its_array(store):
    parent = array(environment=(("A", "1"),), timeout=None)
    one = child(parent, 2, status=Status.FAILED, status_reason="so", stop_orders=(stop(),))
    await store.commit(Changes(inserted=(parent, one)))

    assert await store.jobs([one.id, parent.id]) == {one.id: one, parent.id: parent}


async def test_children_share_one_spec_in_memory(store, seven_children):
    found = (await store.list(PageQuery(selection=JobSelection(parent=job_id(10)), limit=7))).jobs

    assert len({id(other_job.spec) for other_job in found}) == 1


async def test_a_child_without_its_array_is_a_conflict(store):
    with pytest.raises(Conflict):
        await store.commit(Changes(inserted=(job(number=1), child(array(number=5), 0))))

    assert await store.last_sequence() == -1


async def test_a_child_is_spawned_once(store, seven_children):
    with pytest.raises(Conflict):
        await store.commit(Changes(inserted=(seven_children[3],)))


async def test_queries_of_the_engine_include_children(store, seven_children):
    _, pending, _, starting, running, *_ = seven_children
    misfit = replace(pending, status=Status.RUNNABLE, unschedulable=True)
    await store.commit(Changes(updated=(misfit,)))

    assert {other_job.id for other_job in await store.active()} == {starting.id, running.id}
    assert [other_job.job_id for other_job in await store.runnable(DEFAULT, 10)] == [child_id(job_id(10), 2)]
    assert [other_job.id for other_job in await store.unschedulable(10)] == [pending.id]


# ------------------------------------------------------------------------------------------------------ by their array


async def test_unfinished_children_are_listed_by_index(store, seven_children):
    assert indices(await store.children(job_id(10), 0, 100)) == [0, 1, 2, 3, 4]
    assert await store.children(job_id(10), 0, 100) == seven_children[:5]


async def test_children_are_searched_in_a_bounded_range_of_indices(store, seven_children):
    assert indices(await store.children(job_id(10), 1, 2)) == [1, 2]
    assert indices(await store.children(job_id(10), 4, 2)) == [4]
    assert await store.children(job_id(10), 5, 2) == ()
    assert await store.children(job_id(10), 7, 2) == ()
    assert await store.children(job_id(10), 0, 0) == ()


async def test_other_jobs_have_no_children(store, seven_children):
    for_none = [job_id(9), job_id(18), job_id(99), seven_children[0].id, "\ud800"]

    assert [await store.children(job_id, 0, 100) for job_id in for_none] == [()] * 5
    assert [
        (await store.list(PageQuery(selection=JobSelection(parent=other_job_id), limit=100))).jobs
        for other_job_id in for_none
    ] == [()] * 5
    assert [await store.child_runs(job_id) for job_id in for_none] == [()] * 5


async def test_a_spawning_array_has_its_existing_children(store):
    parent = array(1000, number=10)
    await store.commit(Changes(inserted=(parent, job(number=1011), child(parent, 0), child(parent, 1))))

    assert indices(await store.children(parent.id, 0, 5000)) == [0, 1]
    assert indices((await store.list(PageQuery(selection=JobSelection(parent=parent.id), limit=5000))).jobs) == [1, 0]


async def test_the_statuses_of_children_are_read_as_runs(store):
    parent = array(9, number=10)
    statuses = [Status.FAILED, *[Status.SUCCEEDED] * 3, Status.FAILED, Status.FAILED]
    gap = child(parent, 8, status=Status.FAILED)
    await store.commit(Changes(inserted=(parent, job(number=20), *children(parent, *statuses), gap)))

    assert await store.child_runs(parent.id) == (
        (Status.FAILED, 0, 1),
        (Status.SUCCEEDED, 1, 4),
        (Status.FAILED, 4, 6),
        (Status.FAILED, 8, 9),
    )


async def test_children_are_listed_by_status(store, seven_children):
    assert await listed(store, status=Status.RUNNING) == (seven_children[4],)


@pytest.mark.parametrize(
    ("status", "found"),
    [(None, [6, 5, 4, 3, 2, 1, 0]), (Status.FAILED, [6, 2, 1, 0]), (Status.RUNNING, [4]), (Status.SUCCEEDED, [5])]
    + [(status, []) for status in sorted(QUEUED)],
)
async def test_queued_children_of_an_ended_array_count_as_failed(store, seven_children, status, found):
    of = {"status": status, "stopped_arrays": frozenset({10})}

    assert indices(await listed(store, **of)) == found
    assert indices(await listed(store, limit=2, **of)) == found[:2]
    assert indices(await listed(store, before=SearchPosition(0, 16), **of)) == [index for index in found if index < 5]


async def test_pages_of_children_continue_below_their_last_index(store, seven_children):
    async def page(before):
        return indices(await listed(store, limit=3, before=before and SearchPosition(0, before)))

    assert [await page(after) for after in (None, 15, 12, 11)] == [[6, 5, 4], [3, 2, 1], [0], []]


async def listed(store, status=None, limit=100, **page):
    """The children of the array that the store lists."""
    selection = JobSelection(parent=job_id(10), statuses=None if status is None else frozenset({status}))
    return (await store.list(PageQuery(selection=selection, limit=limit, **page))).jobs


# ---------------------------------------------------------------------------------------------------- beside the others


async def test_a_queue_is_listed_without_children(store, seven_children):
    jobs = (await store.list(PageQuery(limit=100))).jobs
    running = (
        await store.list(PageQuery(selection=JobSelection(statuses=frozenset({Status.RUNNING})), limit=100))
    ).jobs
    named = (await store.list(PageQuery(selection=JobSelection(names=frozenset({"*"})), limit=100))).jobs

    assert [other_job.sequence for other_job in jobs] == [18, 10, 9]
    assert running == ()
    assert named == jobs


async def test_an_array_counts_as_one_unfinished_job(store, seven_children):
    assert await store.unfinished_in(DEFAULT) == 3


async def test_an_array_reserves_the_orders_of_all_its_children(store):
    parent = array(100, number=10, array_state=None, status=Status.SUBMITTED)

    await store.commit(Changes(inserted=(job(number=9), parent)))
    waiting = await store.last_sequence()
    await store.commit(Changes(inserted=(child(parent, 0),)))
    spawning = await store.last_sequence()
    await store.commit(Changes(inserted=(job(number=111),)))

    assert (waiting, spawning) == (110, 110)
    assert await store.last_sequence() == 111


# ------------------------------------------------------------------------------------------------------ parents at work


@pytest.mark.parametrize(
    "busy",
    [
        array(4, array_state=ArrayState()),
        array(4, array_state=ArrayState(spawned=3)),
        array(4, array_state=ArrayState(spawned=4, order_applied_to=3), stop_orders=(cancel(),)),
        array(4, array_state=ArrayState(spawned=4), stop_orders=(stop(),)),
        array(4, array_state=ArrayState(spawned=4, order_applied_to=2, failed_index=1)),
    ],
)
async def test_an_array_with_children_to_spawn_or_stop_has_work(store, busy):
    await store.commit(Changes(inserted=(job(), busy)))

    assert await store.arrays_with_work() == (busy,)


@pytest.mark.parametrize(
    "idle",
    [
        array(4, array_state=None, status=Status.SUBMITTED),
        array(4, array_state=None),
        array(4, array_state=ArrayState(spawned=4)),
        array(4, array_state=ArrayState(spawned=4, order_applied_to=4), stop_orders=(cancel(),)),
        array(4, array_state=ArrayState(spawned=2), status=Status.FAILED),
        array(4, array_state=None, status=Status.FAILED, stop_orders=(cancel(),)),
    ],
)
async def test_a_pending_or_completed_array_has_no_work(store, idle):
    await store.commit(Changes(inserted=(idle,)))

    assert await store.arrays_with_work() == ()


async def test_the_work_of_an_array_follows_its_state(store):
    parent = array(4, array_state=None, status=Status.SUBMITTED)
    await store.commit(Changes(inserted=(parent,)))

    begun = replace(parent, status=Status.PENDING, array_state=ArrayState())
    await store.commit(Changes(updated=(begun,)))
    at_work = await store.arrays_with_work()
    await store.commit(Changes(updated=(replace(begun, version=1, array_state=ArrayState(spawned=4)),)))

    assert at_work == (replace(begun, version=1),)
    assert await store.arrays_with_work() == ()


async def test_arrays_with_work_are_listed_in_order(store):
    parents = tuple(array(4, number=number, array_state=ArrayState()) for number in (30, 10, 20))
    await store.commit(Changes(inserted=parents))

    assert [other_job.sequence for other_job in await store.arrays_with_work()] == [10, 20, 30]


# -------------------------------------------------------------------------------------------------------- dependencies


async def test_a_spawned_array_is_no_dependent(store):
    first = job()
    parent = array(4, array_state=None, status=Status.SUBMITTED, depends_on=[first])
    await store.commit(Changes(inserted=(first, parent)))
    waiting = await store.dependents([first.id])

    await store.commit(Changes(updated=(replace(parent, status=Status.PENDING, array_state=ArrayState()),)))

    assert waiting == (parent,)
    assert await store.dependents([first.id]) == ()


async def test_a_child_of_an_array_waits_for_its_counterpart(store):
    first = array(4, number=10)
    second = array(4, number=20, depends_on=[Dependency(job_id=first.id, type=DependencyType.N_TO_N)])
    waiting = children(second, *[Status.PENDING] * 4)
    await store.commit(Changes(inserted=(first, second, *waiting)))

    assert await store.dependents([child_id(first.id, 2)]) == (waiting[2],)
    assert await store.dependents([child_id(first.id, 2), child_id(first.id, 0)]) == (waiting[0], waiting[2])


async def test_dependents_of_a_child_are_found_by_its_id(store):
    first = array(4)
    waiting = job(depends_on=[child_id(first.id, 3)])
    await store.commit(Changes(inserted=(first, waiting)))

    assert await store.dependents([child_id(first.id, 3)]) == (waiting,)


# ---------------------------------------------------------------------------------------------------- in a unit of work


async def test_a_unit_of_work_with_many_children_is_saved_completely(store):
    parent = array(250)
    spawned = children(parent, *[Status.PENDING] * 250)
    await store.commit(Changes(inserted=(parent,)))
    await store.commit(Changes(inserted=spawned, updated=(parent,)))

    await store.commit(Changes(updated=tuple(replace(other_job, status=Status.RUNNABLE) for other_job in spawned)))

    found = await store.children(parent.id, 0, 250)
    assert {(other_job.status, other_job.version) for other_job in found} == {(Status.RUNNABLE, 1)}
    assert indices(found) == list(range(250))


@pytest.mark.parametrize("place", [0, 125, 249])
async def test_one_conflict_among_many_updates_saves_nothing(store, place):
    parent = array(250)
    spawned = children(parent, *[Status.PENDING] * 250)
    await store.commit(Changes(inserted=(parent, *spawned)))
    moved = [replace(other_job, status=Status.RUNNABLE) for other_job in spawned]
    moved[place] = replace(moved[place], version=7)

    with pytest.raises(Conflict, match=f"job {spawned[place].id} is not at version 7"):
        await store.commit(Changes(updated=tuple(moved)))

    assert await store.children(parent.id, 0, 250) == spawned
