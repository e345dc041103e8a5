"""Arrays in the engine: children are spawned, and get orders, in bounded batches, and none starts in between."""

import pytest

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import Tag, child_id
from batchq.domain.job import Dependency, DependencyType, Status
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine import arrays
from batchq.engine.mailbox import ContinueWork, JobEvent, LeaveSafeMode, SurveyCompleted
from batchq.errors import Invalid
from batchq.ports.jobs import Changes, Restoration
from tests.engine.desk import LOOKED, ONE, TWO, answer, desk_over, submit
from tests.engine.turns import HOST
from tests.support.builders import ADMIN, NOON

CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_CHILDREN", 3)


def request(parent, event):
    return JobEvent(job_id=parent, event=event, answer=answer())


async def statuses(desk, size, parent=ONE):
    jobs = await desk.store.jobs([child_id(parent, index) for index in range(size)])
    return [jobs[child_id(parent, index)].status for index in range(size) if child_id(parent, index) in jobs]


async def parent_of(desk, parent=ONE):
    return (await desk.store.jobs([parent]))[parent]


def started(desk):
    return [it.tag.job_id for it in desk.asked if isinstance(it, do.StartContainer)]


async def test_a_stop_of_an_array_stops_its_children_in_later_units_of_work():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=7))
    assert await statuses(desk, 7) == []
    assert not desk.inbox.is_empty

    sizes = []
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())
        sizes.append(len(await statuses(desk, 7)))

    assert sizes == [3, 6, 7]


async def test_the_orders_of_children_are_reserved_when_the_array_is_submitted():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=7), submit(TWO))

    assert (await parent_of(desk, TWO)).order == (await parent_of(desk)).order + 8


async def test_a_restarted_server_continues_where_it_ended():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=7))
    await desk.process(ContinueWork())

    await desk.loop.load()
    assert desk.loop.state.next_order == 8
    await desk.process(ContinueWork())

    assert len(await statuses(desk, 7)) == 6


@pytest.mark.parametrize("order", [CANCEL, TERMINATE])
async def test_no_child_starts_after_its_array_was_stopped(order):
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=9))
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())

    await desk.process(request(ONE, order), LOOKED)
    assert set(await statuses(desk, 9)) == {Status.RUNNABLE}
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())

    assert started(desk) == []
    assert set(await statuses(desk, 9)) == {Status.FAILED}
    assert (await parent_of(desk)).status is Status.FAILED


async def test_an_order_during_spawning_applies_to_children_spawned_later():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=9))
    await desk.process(ContinueWork())

    await desk.process(request(ONE, CANCEL), LOOKED)
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())

    assert started(desk) == []
    assert await statuses(desk, 9) == [Status.FAILED] * 9
    assert (await parent_of(desk)).status_reason == "enough"


async def test_an_order_interrupted_by_a_crash_is_completed():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=9))
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())
    await desk.process(request(ONE, TERMINATE))
    await desk.process(ContinueWork())
    assert (await statuses(desk, 9)).count(Status.FAILED) == 3

    await desk.loop.load()
    await desk.process(LOOKED)
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())

    assert started(desk) == []
    assert await statuses(desk, 9) == [Status.FAILED] * 9


async def test_a_failure_in_a_sequential_array_ends_the_remaining_children_in_the_next_unit_of_work():
    desk = await desk_over()
    sequential = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
    await desk.process(submit(ONE, array_size=9, depends_on=[sequential]), LOOKED)
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())
    assert started(desk) == [child_id(ONE, 0)]

    await desk.process(JobEvent(job_id=child_id(ONE, 0), event=on.StartFailed(attempt=1, reason="no image")))
    assert (await parent_of(desk)).array_state.failed_index == 0
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())

    assert await statuses(desk, 9) == [Status.FAILED] * 9


async def test_a_request_about_an_unspawned_child_is_answered_when_it_is_spawned():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=7))
    last = request(child_id(ONE, 6), CANCEL)

    await desk.process(last)
    assert not last.answer.done()
    for message in await desk.inbox.take(10):
        await desk.process(message)
    while not last.answer.done():
        await desk.process(*await desk.inbox.take(10))

    assert (await statuses(desk, 7))[6] is Status.FAILED
    assert len(await statuses(desk, 7)) == 7


async def test_a_request_about_a_child_outside_the_array_is_answered_at_once():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=7))
    beyond = request(child_id(ONE, 7), CANCEL)

    await desk.process(beyond)

    assert beyond.answer.result() is None


async def test_two_arrays_share_the_limit_of_a_unit_of_work_oldest_first():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=4), submit(TWO, array_size=4))

    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert (len(await statuses(desk, 4)), len(await statuses(desk, 4, TWO))) == (4, 2)


async def test_safe_mode_attaches_the_container_of_an_unspawned_child():
    desk = await desk_over()
    await desk.process(LOOKED, submit(ONE, array_size=3))
    await desk.store.commit(Changes(restoration=Restoration(at=NOON)))
    await desk.loop.load()
    tag = Tag(job_id=child_id(ONE, 2), attempt=1)
    runs = SurveyCompleted(containers=(SurveyedContainer(tag=tag, running=True),), expected=frozenset(), capacity=HOST)
    await desk.process(runs)
    early, late = (
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
    )

    await desk.process(early, ContinueWork())
    await desk.process(runs)
    await desk.process(late)

    with pytest.raises(Invalid, match="still spawning children"):
        await early.answer
    assert late.answer.done()
    assert (await desk.store.jobs([tag.job_id]))[tag.job_id].status is Status.STARTING
    assert do.StartContainer(tag=tag) in desk.asked
    assert do.CleanUpContainer(tag=tag) not in desk.asked
