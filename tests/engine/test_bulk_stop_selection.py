"""A bulk stop reads its candidates beside the scheduler, and stops those that match when its order is saved."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, Kind
from batchq.domain.job import Status
from batchq.engine import bulk_stops
from batchq.engine.bulk_stops import CandidateReader
from batchq.engine.messages import BulkStopRequest
from batchq.errors import StaleRead, Throttled
from tests.engine.desk import LOOKED, ONE, Desk, answer, desk_over, request, submit
from tests.support.builders import ADMIN, job
from tests.support.inline import InlineStore

WAITING = JobFilter(statuses=frozenset({Status.RUNNABLE}))
ORDER = BulkStopOrder(kind=Kind.CANCEL, reason="enough")


def message(candidates, *, final=True):
    return BulkStopRequest(
        order=ORDER,
        selection=WAITING,
        as_of=1000,
        report=lambda _: None,
        candidates=candidates,
        final=final,
        answer=answer(),
        caller=ADMIN,
    )


async def targets(desk: Desk):
    return [it.job.id for it in await desk.store.next_targets(1, 100)]


async def test_jobs_that_change_between_the_read_and_the_commit_are_examined_again():
    ended, starts, stays = (job(status=Status.RUNNABLE, millicpus=it) for it in (64_000, 1000, 64_000))
    desk = await desk_over(ended, starts, stays)
    candidates = await desk.loop.candidate_reader.candidates(WAITING)

    await desk.process(LOOKED, request(ended, on.CancelRequested(reason="mine")))
    await desk.process(message(candidates), submit(ONE, millicpus=64_000))

    assert (await desk.status(starts), await targets(desk)) == (Status.STARTING, [ONE, stays.id])


async def test_a_request_that_is_cancelled_after_it_was_sent_loses_no_change():
    starts = job(status=Status.RUNNABLE)
    desk = await desk_over(starts)
    sent = message(await desk.loop.candidate_reader.candidates(WAITING))
    sent.answer.cancel()

    await desk.process(LOOKED)
    await desk.process(sent)

    assert (await desk.status(starts), await targets(desk)) == (Status.STARTING, [])


async def test_candidates_are_read_again_when_too_many_jobs_have_changed(monkeypatch):
    monkeypatch.setattr(bulk_stops, "MAX_CHANGED", 0)
    starts = job(status=Status.RUNNABLE)
    desk = await desk_over(starts)
    first = message(await desk.loop.candidate_reader.candidates(WAITING), final=False)

    await desk.process(LOOKED)
    await desk.process(first)

    assert isinstance(first.answer.exception(), StaleRead)
    assert await desk.store.bulk_stops() == ()


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
