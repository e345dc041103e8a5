"""Bulk stops in the engine: applied in bounded batches, and no selected job starts in between."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.bulk_stop import Progress
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.engine import bulk_stops, propagation
from batchq.engine.bulk_stops import CandidateReader
from batchq.engine.mailbox import BulkStopRequest, ContinueWork
from batchq.engine.scheduling import queue_reader
from batchq.errors import StaleRead, Throttled
from batchq.ports.jobs import Changes
from tests.engine.harness import ONE, SURVEYED, TWO, LoopHarness, answer, catalog_of, harness_with, request, submit
from tests.support.builders import ADMIN, job, queue
from tests.support.inline import InlineStore

ALL = JobSelection(queues=frozenset({"default"}))


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_STOPS", 3)
    monkeypatch.setattr(propagation, "MAX_CHILDREN", 3)


def order(selection=ALL, kind=StopKind.CANCEL, as_of=1000):
    reports = []
    request = StopRequest(kind=kind, reason="enough")
    message = BulkStopRequest(
        request=request, selection=selection, as_of=as_of, report=reports.append, answer=answer(), caller=ADMIN
    )
    return message, reports


def runnable(**of):
    return job(status=Status.RUNNABLE, **of)


def started(harness):
    return {effect.tag.job_id for effect in harness.effects if isinstance(effect, do.StartContainer)}


def places(reports):
    return [None if some is None else [other_job.job_id for other_job in some] for some in reports]


async def test_a_bulk_stop_stops_a_bounded_number_of_jobs_in_each_later_unit_of_work_youngest_first():
    jobs = [runnable() for _ in range(5)]
    harness, (message, reports) = await harness_with(*jobs), order()

    await harness.process(message)
    assert (message.answer.done(), reports) == (True, [])
    await harness.process(ContinueWork())
    assert not harness.mailbox.is_empty
    await harness.process(ContinueWork())

    ids = [other_job.id for other_job in jobs[::-1]]
    assert places(reports) == [ids[:3], ids[3:], None]
    assert [await harness.status(other_job) for other_job in jobs] == [Status.FAILED] * 5
    assert not harness.loop._bulk_stops.in_progress


async def test_a_bulk_stop_of_exactly_one_batch_completes_in_the_next_unit_of_work():
    jobs = [runnable() for _ in range(3)]
    harness, (message, reports) = await harness_with(*jobs), order()

    await harness.process(message)
    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert [some and len(some) for some in reports] == [3, (), None]
    assert await harness.store.bulk_stops() == ()


async def test_a_job_placed_in_the_unit_of_work_of_the_order_is_stopped_as_an_active_job():
    jobs = [runnable(), runnable(millicpus=64_000)]
    harness, (message, reports) = await harness_with(*jobs), order(kind=StopKind.TERMINATE)
    await harness.process(SURVEYED, message)

    await harness.process(ContinueWork())

    [outcomes, _] = reports
    assert {outcome.job_id: str(outcome.outcome) for outcome in outcomes} == {
        jobs[0].id: "STOPPING",
        jobs[1].id: "TERMINATED",
    }
    assert started(harness) == {jobs[0].id}


async def test_a_unit_of_work_skips_a_bounded_number_of_selected_jobs(monkeypatch):
    monkeypatch.setattr(queue_reader, "MAX_SKIPPED", 4)
    mine = [runnable(number=number, name="mine") for number in range(0, 20, 2)]
    behind = runnable(number=20, name="not mine")
    harness = await harness_with(*mine, behind)
    await harness.process(order(JobSelection(names=frozenset({"mine"})))[0])

    await harness.process(SURVEYED)
    assert behind.id not in started(harness)
    assert not harness.mailbox.is_empty
    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert behind.id in started(harness)


async def test_two_bulk_stops_share_the_batch_of_a_unit_of_work():
    jobs = [runnable() for _ in range(4)]
    harness, (first, reported), (second, other_reported) = (
        await harness_with(*jobs),
        order(),
        order(kind=StopKind.TERMINATE),
    )
    await harness.process(first, second)

    await harness.process(ContinueWork())
    assert [[some and len(some) for some in reports] for reports in (reported, other_reported)] == [[2], [1]]
    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert [some and len(some) for some in reported] == [2, 2, (), None]
    assert {str(decision.outcome) for some in other_reported[:-1] for decision in some} == {"ALREADY_FINISHED"}


async def test_a_small_bulk_stop_does_not_wait_for_a_large_one():
    many, mine = [runnable() for _ in range(30)], runnable(queue=QueueName("other"))
    harness, (large, reported) = await harness_with(*many, mine, catalog=catalog_of(queue(), queue("other"))), order()
    small, reports = order(JobSelection(queues=frozenset({"other"})))
    await harness.process(large, small)

    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert places(reports) == [[mine.id], [], None]
    assert None not in reported


async def test_a_user_has_a_bounded_number_of_bulk_stops_in_progress(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_PER_USER", 2)
    harness = await harness_with(*[runnable() for _ in range(30)])
    ann, bob = (replace(ADMIN, user=name) for name in ("ann", "bob"))
    first, second, third, fourth = (replace(order()[0], caller=caller) for caller in (ann, ann, ann, bob))

    await harness.process(first, second)
    await harness.process(third, fourth)

    assert isinstance(third.answer.exception(), Throttled)
    assert fourth.answer.result() is None
    assert len(await harness.store.bulk_stops()) == 3


async def test_a_wait_for_a_completed_bulk_stop_ends():
    harness, (message, reports) = await harness_with(runnable()), order()
    await harness.process(message)
    await harness.store.commit(Changes(progress=(Progress(bulk_stop=1, sequence=-1, part=None, complete=True),)))

    await harness.loop.load()

    assert reports == [None]


async def test_a_selected_dependent_has_the_reason_of_the_bulk_stop():
    first = runnable()
    others = [runnable() for _ in range(3)]
    waits = job(status=Status.PENDING, depends_on=[first.id])
    harness, (message, reports) = await harness_with(first, *others, waits), order()
    await harness.process(message)

    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert {str(decision.outcome) for some in reports[:-1] for decision in some} == {"CANCELLED"}
    assert (await harness.store.jobs([waits.id]))[waits.id].status_reason == "enough"


async def test_a_bulk_stop_does_not_wait_for_arrays_submitted_later():
    harness, (message, _) = await harness_with(), order(JobSelection(children=True), as_of=0)
    await harness.process(submit(ONE, array_size=5))

    await harness.process(message)

    assert message.answer.done()


async def test_children_of_a_selected_array_do_not_start_before_it_is_stopped():
    harness, (message, _) = (
        await harness_with(*[runnable(number=number, millicpus=64_000) for number in range(3)]),
        order(),
    )
    await harness.process(submit(TWO, array_size=3))
    await harness.process(message)

    await harness.process(SURVEYED)

    assert child_id(TWO, 0) not in started(harness)


async def test_an_array_that_an_earlier_order_of_the_same_unit_of_work_has_ended_is_reported_as_finished():
    harness, (cancel, _), (terminate, reports) = await harness_with(), order(), order(kind=StopKind.TERMINATE)
    await harness.process(submit(TWO, array_size=5))
    await harness.process(ContinueWork())
    await harness.process(cancel, terminate)

    await harness.process(ContinueWork())

    [outcome] = reports[0]
    assert (outcome.job_id, str(outcome.outcome), outcome.children) == (TWO, "ALREADY_FINISHED", 0)


async def test_a_restarted_server_continues_where_it_ended():
    jobs = [runnable() for _ in range(8)]
    gone = await harness_with(*jobs)
    await gone.process(order()[0])
    await gone.process(ContinueWork())

    harness = LoopHarness(gone.store, catalog_of())
    await harness.loop.load()
    assert not harness.mailbox.is_empty
    await harness.process(SURVEYED)
    await harness.process(ContinueWork())

    assert [await harness.status(other_job) for other_job in jobs] == [Status.FAILED] * 8
    assert started(harness) == set()


WAITING = JobSelection(statuses=frozenset({Status.RUNNABLE}))


ORDER = StopRequest(kind=StopKind.CANCEL, reason="enough")


def message(candidates, *, final=True):
    return BulkStopRequest(
        request=ORDER,
        selection=WAITING,
        as_of=1000,
        report=lambda _: None,
        candidates=candidates,
        final=final,
        answer=answer(),
        caller=ADMIN,
    )


async def targets(harness: LoopHarness):
    return [target.job.id for target in await harness.store.next_targets(1, 100)]


async def test_jobs_that_change_between_the_read_and_the_commit_are_examined_again():
    ended, starts, stays = (job(status=Status.RUNNABLE, millicpus=number) for number in (64_000, 1000, 64_000))
    harness = await harness_with(ended, starts, stays)
    candidates = await harness.loop.candidate_reader.candidates(WAITING)

    await harness.process(SURVEYED, request(ended, on.CancelRequested(reason="mine")))
    await harness.process(message(candidates), submit(ONE, millicpus=64_000))

    assert (await harness.status(starts), await targets(harness)) == (Status.STARTING, [ONE, stays.id])


async def test_a_request_that_is_cancelled_after_it_was_sent_loses_no_change():
    starts = job(status=Status.RUNNABLE)
    harness = await harness_with(starts)
    sent = message(await harness.loop.candidate_reader.candidates(WAITING))
    sent.answer.cancel()

    await harness.process(SURVEYED)
    await harness.process(sent)

    assert (await harness.status(starts), await targets(harness)) == (Status.STARTING, [])


async def test_candidates_are_read_again_when_too_many_jobs_have_changed(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_CHANGED", 0)
    starts = job(status=Status.RUNNABLE)
    harness = await harness_with(starts)
    first = message(await harness.loop.candidate_reader.candidates(WAITING), final=False)

    await harness.process(SURVEYED)
    await harness.process(first)

    assert isinstance(first.answer.exception(), StaleRead)
    assert await harness.store.bulk_stops() == ()


async def test_bulk_stops_of_one_user_wait_for_each_other_and_not_for_other_users(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_WAITING", 1)
    ann, bob = (replace(ADMIN, user=name) for name in ("ann", "bob"))
    one_at_a_time = CandidateReader(InlineStore()).after_earlier_of
    entered = []

    async def enter(caller, until):
        async with one_at_a_time(caller):
            entered.append(caller.user)
            await until.wait()

    done = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for caller in (ann, ann, bob):
            tasks.create_task(enter(caller, done))
        await asyncio.sleep(0)
        assert entered == ["ann", "bob"]
        with pytest.raises(Throttled):
            await enter(ann, done)
        done.set()
    assert entered == ["ann", "bob", "ann"]
