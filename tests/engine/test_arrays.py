"""Arrays in the engine: children are spawned, and get orders, in bounded batches, and none starts in between."""

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import DependencyType, Status
from batchq.domain.ids import Tag, child_id
from batchq.domain.job import Dependency
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine import propagation
from batchq.engine.mailbox import ContinueWork, JobEvent, LeaveSafeMode
from batchq.errors import Invalid, StateChanged
from batchq.ports.jobs import Changes, Restoration
from tests.engine.harness import ONE, SURVEYED, TWO, answer, harness_with, submit
from tests.support.builders import ADMIN, NOON

CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(propagation, "MAX_CHILDREN", 3)


def request(parent, event):
    return JobEvent(job_id=parent, event=event, answer=answer())


async def statuses(harness, size, parent=ONE):
    jobs = await harness.store.jobs([child_id(parent, index) for index in range(size)])
    return [jobs[child_id(parent, index)].status for index in range(size) if child_id(parent, index) in jobs]


async def parent_of(harness, parent=ONE):
    return (await harness.store.jobs([parent]))[parent]


def started(harness):
    return [effect.tag.job_id for effect in harness.effects if isinstance(effect, do.StartContainer)]


async def test_the_orders_of_children_are_reserved_when_the_array_is_submitted():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=7), submit(TWO))

    assert (await parent_of(harness, TWO)).sequence == (await parent_of(harness)).sequence + 8


async def test_an_order_interrupted_by_a_crash_is_completed():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=9))
    while harness.loop.arrays.unfinished:
        await harness.process(ContinueWork())
    await harness.process(request(ONE, TERMINATE))
    await harness.process(ContinueWork())
    assert (await statuses(harness, 9)).count(Status.FAILED) == 3

    await harness.loop.load()
    await harness.process(SURVEYED)
    while harness.loop.arrays.unfinished:
        await harness.process(ContinueWork())

    assert started(harness) == []
    assert await statuses(harness, 9) == [Status.FAILED] * 9


async def test_a_request_about_an_unspawned_child_is_answered_when_it_is_spawned():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=7))
    last = request(child_id(ONE, 6), CANCEL)

    await harness.process(last)
    assert not last.answer.done()
    for message in await harness.mailbox.take(10):
        await harness.process(message)
    while not last.answer.done():
        await harness.process(*await harness.mailbox.take(10))

    assert (await statuses(harness, 7))[6] is Status.FAILED
    assert len(await statuses(harness, 7)) == 7


async def test_a_request_about_a_child_outside_the_array_is_answered_at_once():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=7))
    beyond = request(child_id(ONE, 7), CANCEL)

    await harness.process(beyond)

    assert beyond.answer.result() is None


async def test_two_arrays_share_the_limit_of_a_unit_of_work_oldest_first():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=4), submit(TWO, array_size=4))

    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert (len(await statuses(harness, 4)), len(await statuses(harness, 4, TWO))) == (4, 2)


async def test_safe_mode_attaches_the_container_of_an_unspawned_child():
    harness = await harness_with()
    await harness.process(SURVEYED, submit(ONE, array_size=3))
    await harness.store.commit(Changes(restoration=Restoration(at=NOON)))
    await harness.loop.load()
    tag = Tag(job_id=child_id(ONE, 2), attempt=1)
    runs = replace(SURVEYED, containers=(SurveyedContainer(tag=tag, running=True),))
    await harness.process(runs)
    early, late = (
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
    )

    await harness.process(early, ContinueWork())
    await harness.process(runs)
    await harness.process(late)

    with pytest.raises(Invalid, match="still to spawn or to hold"):
        await early.answer
    assert late.answer.done()
    assert (await harness.store.jobs([tag.job_id]))[tag.job_id].status is Status.STARTING
    assert do.StartContainer(tag=tag) in harness.effects
    assert do.CleanUpContainer(tag=tag) not in harness.effects


SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
FAILS = on.StartFailed(attempt=1, reason="no image")


async def sequential_of(size):
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=size, depends_on=[SEQUENTIAL]), SURVEYED)
    await at_rest(harness)
    return harness


async def at_rest(harness):
    while harness.loop.arrays.unfinished:
        await harness.process(ContinueWork())


def child_event(index, event):
    return JobEvent(job_id=child_id(ONE, index), event=event)


async def ends(harness, size):
    ids = [child_id(ONE, index) for index in range(size)]
    jobs = await harness.store.jobs(ids)
    return [(jobs[identifier].status, jobs[identifier].status_reason) for identifier in ids]


async def test_the_failure_of_a_later_child_does_not_hide_an_earlier_failure():
    harness = await sequential_of(4)
    await harness.process(child_event(3, on.TerminateRequested(reason="not this one")))
    await at_rest(harness)

    await harness.process(child_event(0, FAILS))
    await at_rest(harness)

    assert await ends(harness, 4) == [
        (Status.FAILED, status_reasons.NOT_STARTED),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 0))),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 0))),
        (Status.FAILED, "not this one"),
    ]


@pytest.mark.fault("CO08")
async def test_an_earlier_child_starts_although_a_later_one_was_cancelled():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=6, depends_on=[SEQUENTIAL]))
    await at_rest(harness)

    await harness.process(SURVEYED, child_event(1, on.CancelRequested(reason="not this one")))

    assert harness.loop.arrays.unfinished
    assert [effect.tag.job_id for effect in harness.effects] == [child_id(ONE, 0)]


async def test_an_order_reaches_the_children_before_a_failure():
    harness = await sequential_of(5)
    await harness.process(
        child_event(3, on.TerminateRequested(reason="this one first")),
        JobEvent(job_id=ONE, event=on.TerminateRequested(reason="all of it")),
    )
    await at_rest(harness)

    jobs = await harness.store.jobs([child_id(ONE, index) for index in range(5)])
    assert [job.stop.reason for job in jobs.values()] == ["all of it"] * 3 + ["this one first", "all of it"]


async def test_children_spawned_after_an_order_get_the_order_and_no_failure():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=5, depends_on=[SEQUENTIAL]))
    await harness.process(ContinueWork())

    await harness.process(JobEvent(job_id=ONE, event=on.CancelRequested(reason="enough")), SURVEYED)
    await at_rest(harness)

    assert await ends(harness, 5) == [(Status.FAILED, "enough")] * 5


@pytest.mark.parametrize("order", [on.CancelRequested(reason="enough"), on.TerminateRequested(reason="enough")])
async def test_an_order_for_a_failed_array_reaches_the_children_before_the_failure(order):
    harness = await sequential_of(5)
    await harness.process(child_event(3, on.TerminateRequested(reason="this one first")))
    await at_rest(harness)

    await harness.process(JobEvent(job_id=ONE, event=order))
    await at_rest(harness)

    assert (await ends(harness, 5))[1:] == [
        (Status.FAILED, "enough"),
        (Status.FAILED, "enough"),
        (Status.FAILED, "this one first"),
        (Status.FAILED, status_reasons.dependency_failed(child_id(ONE, 3))),
    ]


async def test_an_order_for_a_child_that_is_not_spawned_applies_only_in_the_expected_state():
    harness = await harness_with()
    await harness.process(submit(TWO), submit(ONE, array_size=3, depends_on=[Dependency(job_id=TWO)]))
    child = child_id(ONE, 1)
    orders = [
        JobEvent(job_id=child, event=TERMINATE, answer=answer(), expected=name) for name in ("RUNNING.1", "PENDING.0")
    ]

    await harness.process(orders[0])
    assert (await parent_of(harness)).child_orders == ()
    with pytest.raises(StateChanged):
        await orders[0].answer

    await harness.process(orders[1])
    assert [order.indices for order in (await parent_of(harness)).child_orders] == [(1,)]
