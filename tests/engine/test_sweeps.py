"""Orders to stop many jobs in the engine: told in turns of bounded size, and none of those meant starts in between."""

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, Kind, Progress
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job import Status
from batchq.engine import arrays, bulk_stops
from batchq.engine.messages import BulkStopRequest, ContinueWork
from batchq.engine.scheduling import queue_reader
from batchq.errors import Throttled
from batchq.ports.jobs import Changes
from tests.engine.desk import LOOKED, ONE, TWO, Desk, answer, desk_over, submit
from tests.engine.turns import ground
from tests.support.builders import ADMIN, job, queue

ALL = JobFilter(queues=frozenset({"default"}))


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_STOPS", 3)
    monkeypatch.setattr(arrays, "MAX_CHILDREN", 3)


def order(selection=ALL, kind=Kind.CANCEL, as_of=1000):
    told = []
    asked = BulkStopOrder(kind=kind, reason="enough")
    message = BulkStopRequest(
        order=asked, selection=selection, as_of=as_of, report=told.append, answer=answer(), caller=ADMIN
    )
    return message, told


def runnable(**of):
    return job(status=Status.RUNNABLE, **of)


def started(desk):
    return {it.tag.job_id for it in desk.asked if isinstance(it, do.StartContainer)}


def places(told):
    return [None if some is None else [it.job_id for it in some] for some in told]


async def test_the_request_tells_nobody_and_each_unit_of_work_after_it_a_few_the_youngest_first():
    jobs = [runnable() for _ in range(5)]
    desk, (message, told) = await desk_over(*jobs), order()

    await desk.process(message)
    assert (message.answer.done(), told) == (True, [])
    await desk.process(ContinueWork())
    assert not desk.inbox.is_empty
    await desk.process(ContinueWork())

    ids = [it.id for it in jobs[::-1]]
    assert places(told) == [ids[:3], ids[3:], None]
    assert [await desk.status(it) for it in jobs] == [Status.FAILED] * 5
    assert not desk.loop._bulk_stops.busy


async def test_as_many_as_one_unit_of_work_tells_are_told_and_then_it_is_seen_that_no_more_are():
    jobs = [runnable() for _ in range(3)]
    desk, (message, told) = await desk_over(*jobs), order()

    await desk.process(message)
    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert [some and len(some) for some in told] == [3, (), None]
    assert await desk.store.bulk_stops() == ()


async def test_who_is_meant_does_not_start_and_who_is_not_does():
    jobs = [runnable(number=number) for number in range(7)]
    other = runnable(number=7, queue=QueueName("other"))
    desk = await desk_over(*jobs, other, on_ground=ground(queue(), queue("other")))
    await desk.process(order()[0])

    await desk.process(LOOKED)

    assert started(desk) == {other.id}


async def test_who_was_placed_in_the_unit_of_work_that_decides_is_meant_as_it_is_then():
    jobs = [runnable(), runnable(millicpus=64_000)]
    desk, (message, told) = await desk_over(*jobs), order(kind=Kind.TERMINATE)
    await desk.process(LOOKED, message)

    await desk.process(ContinueWork())

    [outcomes, _] = told
    assert {it.job_id: str(it.outcome) for it in outcomes} == {jobs[0].id: "STOPPING", jobs[1].id: "TERMINATED"}
    assert started(desk) == {jobs[0].id}


async def test_a_line_of_very_many_who_are_meant_is_not_looked_through_in_one_unit_of_work(monkeypatch):
    monkeypatch.setattr(queue_reader, "MAX_SKIPPED", 4)
    mine = [runnable(number=number, name="mine") for number in range(0, 20, 2)]
    behind = runnable(number=20, name="not mine")
    desk = await desk_over(*mine, behind)
    await desk.process(order(JobFilter(names=frozenset({"mine"})))[0])

    await desk.process(LOOKED)
    assert behind.id not in started(desk)
    assert not desk.inbox.is_empty
    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert behind.id in started(desk)


async def test_two_orders_share_what_one_unit_of_work_tells():
    jobs = [runnable() for _ in range(4)]
    desk, (first, heard), (second, too) = await desk_over(*jobs), order(), order(kind=Kind.TERMINATE)
    await desk.process(first, second)

    await desk.process(ContinueWork())
    assert [[some and len(some) for some in told] for told in (heard, too)] == [[2], [1]]
    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert [some and len(some) for some in heard] == [2, 2, (), None]
    assert {str(it.outcome) for some in too[:-1] for it in some} == {"ALREADY_FINISHED"}


async def test_an_order_for_few_jobs_does_not_wait_for_one_for_many():
    many, mine = [runnable() for _ in range(30)], runnable(queue=QueueName("other"))
    desk, (large, heard) = await desk_over(*many, mine, on_ground=ground(queue(), queue("other"))), order()
    small, told = order(JobFilter(queues=frozenset({"other"})))
    await desk.process(large, small)

    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert places(told) == [[mine.id], [], None]
    assert None not in heard


async def test_one_user_has_so_many_orders_under_way_and_another_his_own(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_PER_USER", 2)
    desk = await desk_over(*[runnable() for _ in range(30)])
    ann, bob = (replace(ADMIN, user=name) for name in ("ann", "bob"))
    first, second, third, fourth = (replace(order()[0], caller=caller) for caller in (ann, ann, ann, bob))

    await desk.process(first, second)
    await desk.process(third, fourth)

    assert isinstance(third.answer.exception(), Throttled)
    assert fourth.answer.result() is None
    assert len(await desk.store.bulk_stops()) == 3


async def test_who_waits_for_an_order_that_is_not_there_any_more_waits_no_longer():
    desk, (message, told) = await desk_over(runnable()), order()
    await desk.process(message)
    await desk.store.commit(Changes(progress=(Progress(bulk_stop=1, order=-1, node=None, complete=True),)))

    await desk.loop.load()

    assert told == [None]


async def test_a_dependent_that_is_meant_too_carries_the_order_s_reason():
    first = runnable()
    others = [runnable() for _ in range(3)]
    waits = job(status=Status.PENDING, depends_on=[first.id])
    desk, (message, told) = await desk_over(first, *others, waits), order()
    await desk.process(message)

    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert {str(it.outcome) for some in told[:-1] for it in some} == {"CANCELLED"}
    assert (await desk.store.jobs([waits.id]))[waits.id].status_reason == "enough"


async def test_where_children_are_looked_at_those_that_are_to_come_come_first():
    desk, (message, told) = await desk_over(), order(JobFilter(statuses=frozenset(Status)))
    await desk.process(submit(ONE, array_size=5))

    await desk.process(message)
    assert not message.answer.done()
    await desk.process(message)
    await desk.process(message)
    assert message.answer.done()
    await desk.process(ContinueWork())
    await desk.process(ContinueWork())

    assert [it for some in places(told)[:-1] for it in some] == [child_id(ONE, index) for index in (4, 3, 2, 1, 0)]


async def test_arrays_that_came_later_are_not_waited_for():
    desk, (message, _) = await desk_over(), order(JobFilter(statuses=frozenset(Status)), as_of=0)
    await desk.process(submit(ONE, array_size=5))

    await desk.process(message)

    assert message.answer.done()


async def test_the_children_of_an_array_that_is_meant_do_not_start_before_it_is_told():
    desk, (message, _) = await desk_over(*[runnable(number=number, millicpus=64_000) for number in range(3)]), order()
    await desk.process(submit(TWO, array_size=3))
    await desk.process(message)

    await desk.process(LOOKED)

    assert child_id(TWO, 0) not in started(desk)


async def test_a_restarted_server_continues_where_it_ended():
    jobs = [runnable() for _ in range(8)]
    gone = await desk_over(*jobs)
    await gone.process(order()[0])
    await gone.process(ContinueWork())

    desk = Desk(gone.store, ground())
    await desk.loop.load()
    assert not desk.inbox.is_empty
    await desk.process(LOOKED)
    await desk.process(ContinueWork())

    assert [await desk.status(it) for it in jobs] == [Status.FAILED] * 8
    assert started(desk) == set()
