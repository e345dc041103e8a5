"""An array with a pending order is shown with the ends of its queued children, as they will be written."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import child_id
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import PageQuery
from tests.support.scripts import Script

LONG = Script(seconds=None, on_term=0)
TOO_LARGE = 10**6  # MiB: such a child waits for ever


@pytest.fixture
def size(world):
    """More children than one unit of work handles, if the clock is virtual."""
    return 600 if world.virtual else 6


async def array_of(world, size, **fields):
    """An array whose children are all there."""
    parent = await world.submit(LONG, array_size=size, **fields)
    await world.wait_until(parent, lambda job: job.array_state is not None and job.array_state.spawned == size)
    return parent


async def shown(world, parent, size):
    """The array and its children as they are shown, without the members that no response contains."""
    ids = [parent, *(child_id(parent, index) for index in range(size))]
    return [_compared(job) for job in await world.jobs.describe(ids, caller=world.caller)]


async def stored(world, parent, size):
    ids = [parent, *(child_id(parent, index) for index in range(size))]
    found = await world.store.jobs(ids)
    return [_compared(found[identifier]) for identifier in ids]


def _compared(job):
    return replace(job, version=0, array_state=job.array_state and replace(job.array_state, order_applied_to=0))


async def listed(world, parent, status):
    query = PageQuery(selection=JobSelection(parent=parent, statuses=frozenset({status})), limit=1000)
    return [job.status for job in await world.jobs.list(query, caller=world.caller)]


async def is_written(world, parent):
    await world.wait_for(parent, Status.FAILED)


@pytest.mark.parametrize("order", ["cancel", "terminate"])
async def test_queued_children_have_ended_when_the_order_is_answered(world, size, order):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)

    await getattr(world, order)(parent, "enough")

    at_once = await shown(world, parent, size)
    assert {(job.status, job.status_reason) for job in at_once} == {(Status.FAILED, "enough")}
    assert at_once[0].array_state.counts == ((Status.FAILED, size),)
    assert await listed(world, parent, Status.FAILED) == [Status.FAILED] * size
    assert await listed(world, parent, Status.RUNNABLE) == []
    await is_written(world, parent)
    assert await stored(world, parent, size) == at_once


async def test_running_children_continue_and_the_array_ends_with_the_last(world, size):
    parent = await array_of(world, size, millicpus=4000)
    await world.wait_for(child_id(parent, 0), Status.RUNNING)

    await world.cancel(parent, "enough")

    family, first, *others = await shown(world, parent, size)
    assert (family.status, first.status) == (Status.PENDING, Status.RUNNING)
    assert family.array_state.counts == ((Status.RUNNING, 1), (Status.FAILED, size - 1))
    assert {job.status for job in others} == {Status.FAILED}
    await world.terminate(child_id(parent, 0), "this one too")
    await world.wait_for(parent, Status.FAILED, status_reason="enough", is_cancelled=True)
    assert (await stored(world, parent, size))[2:] == others


async def test_the_shown_ends_stand_while_the_store_fails(world, size):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)
    await world.cancel(parent, "enough")
    world.store.failing = True
    at_once = await shown(world, parent, size)

    await world.sleep(2)

    assert await shown(world, parent, size) == at_once
    world.store.failing = False
    await is_written(world, parent)
    assert await stored(world, parent, size) == at_once


@pytest.mark.parametrize("order", ["cancel", "terminate"])
async def test_an_order_saved_without_an_answer_is_shown_by_the_next_server(world, size, order):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)
    await world.crash_in_commit(getattr(world, order)(parent, "enough"))

    await world.boot()

    at_once = await shown(world, parent, size)
    assert {(job.status, job.status_reason) for job in at_once} == {(Status.FAILED, "enough")}
    await is_written(world, parent)
    assert await stored(world, parent, size) == at_once


async def test_a_server_killed_while_children_get_the_order_has_shown_nothing_else(world, size):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)
    await world.terminate(parent, "enough")
    at_once = await shown(world, parent, size)

    await world.restart()

    assert await shown(world, parent, size) == at_once
    await is_written(world, parent)
    assert await stored(world, parent, size) == at_once


async def test_a_child_shown_as_ended_gets_no_further_order(world, size):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)
    last = child_id(parent, size - 1)
    await world.cancel(parent, "enough")

    await asyncio.gather(
        world.terminate(parent, "too late"), world.terminate(last, "too late"), world.force_fail(last, "too late")
    )

    assert (await world.force_fail(parent, "too late")).status is Status.FAILED
    await is_written(world, parent)
    assert {job.status_reason for job in await stored(world, parent, size)} == {"enough"}
    assert all(job.status in FINISHED and not job.is_terminated for job in await stored(world, parent, size))


async def test_a_waiting_child_that_a_later_bulk_stop_names_is_already_finished(world, size):
    parent = await array_of(world, size, memory_mib=TOO_LARGE)
    last = child_id(parent, size - 1)
    await world.cancel(parent, "enough")

    outcomes = await world.terminate_all(last, queues=["another"], reason="too late")

    assert outcomes == {last: "ALREADY_FINISHED"}
    assert (await world.wait_for(last, Status.FAILED, status_reason="enough", attempts=())).is_cancelled
