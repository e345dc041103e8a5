"""SEQUENTIAL arrays in the engine: whichever child fails first, every child after it gets the failure, or the order."""

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import child_id
from batchq.domain.job import Dependency, DependencyType, Status
from batchq.engine import arrays
from batchq.engine.mailbox import ContinueWork, JobEvent
from tests.engine.desk import LOOKED, ONE, desk_over, submit

SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
FAILS = on.StartFailed(attempt=1, reason="no image")


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_CHILDREN", 2)


async def sequential_of(size):
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=size, depends_on=[SEQUENTIAL]), LOOKED)
    await at_rest(desk)
    return desk


async def at_rest(desk):
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())


def told(index, event):
    return JobEvent(job_id=child_id(ONE, index), event=event)


async def ends(desk, size):
    ids = [child_id(ONE, index) for index in range(size)]
    jobs = await desk.store.jobs(ids)
    return [(jobs[it].status, jobs[it].status_reason) for it in ids]


async def test_the_failure_of_a_later_child_does_not_hide_an_earlier_failure():
    desk = await sequential_of(4)
    await desk.process(told(3, on.TerminateRequested(reason="not this one")))
    await at_rest(desk)

    await desk.process(told(0, FAILS))
    await at_rest(desk)

    assert await ends(desk, 4) == [
        (Status.FAILED, status_reasons.NOT_STARTED),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 0))),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 0))),
        (Status.FAILED, "not this one"),
    ]


@pytest.mark.fault("CO08")
async def test_an_earlier_child_starts_although_a_later_one_was_cancelled():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=6, depends_on=[SEQUENTIAL]))
    await at_rest(desk)

    await desk.process(LOOKED, told(1, on.CancelRequested(reason="not this one")))

    assert desk.loop._arrays.busy
    assert [it.tag.job_id for it in desk.asked] == [child_id(ONE, 0)]


async def test_an_order_reaches_the_children_before_a_failure():
    desk = await sequential_of(5)
    await desk.process(
        told(3, on.TerminateRequested(reason="this one first")),
        JobEvent(job_id=ONE, event=on.TerminateRequested(reason="all of it")),
    )
    await at_rest(desk)

    jobs = await desk.store.jobs([child_id(ONE, index) for index in range(5)])
    assert [it.stop.reason for it in jobs.values()] == ["all of it"] * 3 + ["this one first", "all of it"]


async def test_children_spawned_after_an_order_get_the_order_and_no_failure():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=5, depends_on=[SEQUENTIAL]))
    await desk.process(ContinueWork())

    await desk.process(JobEvent(job_id=ONE, event=on.CancelRequested(reason="enough")), LOOKED)
    await at_rest(desk)

    assert await ends(desk, 5) == [(Status.FAILED, "enough")] * 5


@pytest.mark.parametrize("order", [on.CancelRequested(reason="enough"), on.TerminateRequested(reason="enough")])
async def test_an_order_for_a_failed_array_reaches_the_children_before_the_failure(order):
    desk = await sequential_of(5)
    await desk.process(told(3, on.TerminateRequested(reason="this one first")))
    await at_rest(desk)

    await desk.process(JobEvent(job_id=ONE, event=order))
    await at_rest(desk)

    assert (await ends(desk, 5))[1:] == [
        (Status.FAILED, "enough"),
        (Status.FAILED, "enough"),
        (Status.FAILED, "this one first"),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 3))),
    ]


async def test_a_failure_in_an_array_of_independent_children_affects_no_other_child():
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=5, millicpus=4000), LOOKED)
    await at_rest(desk)

    await desk.process(told(0, FAILS))

    parent = (await desk.store.jobs([ONE]))[ONE]
    assert (parent.array_state.failed_index, desk.loop._arrays.busy) == (None, False)
    assert [status for status, _ in await ends(desk, 5)].count(Status.FAILED) == 1
