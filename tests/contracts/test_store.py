"""The contract of every store: jobs."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_values import Hold
from batchq.errors import Conflict, StoreFailed
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.store.job_writes import MAX_SUBMISSIONS_DELETED
from tests.support.builders import NOON, attempt, cancel, job, job_id, log_stream, moment, stop, submission


def saved(before):
    """A job as it is read after its update was committed."""
    return replace(before, version=before.version + 1)


async def update(store, **changes):
    await store.commit(Changes(**changes))


# --------------------------------------------------------------------------------------------------- saving and reading


async def test_a_new_store_is_empty(store):
    assert await store.last_sequence() == -1
    assert await store.jobs([job_id(1)]) == {}
    assert await store.active() == ()
    assert await store.history(job_id(1)) == ()
    assert await store.unfinished_in(QueueName("default")) == 0


async def test_a_job_is_read_as_saved(store):
    full = job(
        status=Status.RUNNING,
        status_reason="because",
        attempts=(attempt(exit_code=1, started_at=NOON, stopped_at=NOON, reason="no", status_reason="Exited"),),
        stop_orders=(cancel("never mind", user="cora"), stop(signalled_at=NOON)),
        started_at=NOON + timedelta(microseconds=1),
        tags=(("colour", "red"), ("empty", "")),
        timeout=timedelta(seconds=60.5),
        environment=(("A", "b=c"), ("É", "☃\0")),
        depends_on=[job_id(10**6)],
    )

    await update(store, inserted=(full,))

    assert await store.jobs([full.id]) == {full.id: full}


async def test_existing_jobs_are_found_among_many_ids(store):
    some = tuple(job() for _ in range(10))
    await update(store, inserted=some)

    found = await store.jobs(
        [*(job_id(10**6 + number) for number in range(40_000)), *(other_job.id for other_job in some)]
    )

    assert found == {other_job.id: other_job for other_job in some}


async def test_an_update_increments_the_version(store):
    before = job()
    await update(store, inserted=(before,))

    await update(store, updated=(replace(before, status=Status.RUNNABLE, tags=(("a", "b"),)),))

    assert await store.jobs([before.id]) == {
        before.id: saved(replace(before, status=Status.RUNNABLE, tags=(("a", "b"),)))
    }


async def test_jobs_inserted_and_updated_together_are_read_as_saved(store):
    stays, moves = job(number=1, status=Status.RUNNABLE), job(number=2, status=Status.RUNNABLE)
    unfit, fit = job(number=3, status=Status.RUNNABLE), job(number=4, status=Status.RUNNABLE, unschedulable=True)
    await update(store, inserted=(stays, moves, unfit, fit))
    left = (
        replace(stays, status_reason="blocked"),
        replace(moves, status=Status.STARTING),
        replace(unfit, unschedulable=True),
        replace(fit, unschedulable=False),
    )

    await update(store, updated=left, history=(moment(left[1]),))

    assert await store.jobs([other_job.id for other_job in left]) == {
        other_job.id: saved(other_job) for other_job in left
    }
    assert [other_job.sequence for other_job in await store.runnable(QueueName("default"), 9)] == [1, 4]
    assert [other_job.sequence for other_job in await store.unschedulable(9)] == [3]
    assert [other_job.sequence for other_job in await store.active()] == [2]


async def test_a_held_job_is_no_candidate_and_still_counts_as_queued(store):
    hold = Hold(reason="not yet", held_at=NOON)
    free, held = job(number=1, status=Status.RUNNABLE), job(number=2, status=Status.RUNNABLE, hold=hold)
    waits, runs = job(number=3, status=Status.PENDING, hold=hold), job(number=4, status=Status.RUNNING, hold=hold)
    await update(store, inserted=(free, held, waits, runs))
    queued = await store.queued()

    assert [other_job.sequence for other_job in await store.runnable(QueueName("default"), 9)] == [1]
    assert [other_job.sequence for other_job in await store.unschedulable(9)] == []
    assert [
        other_job.sequence
        for other_job in (await store.search(PageQuery(selection=JobSelection(held=True), limit=9))).jobs
    ] == [
        3,
        2,
    ]
    await update(store, updated=(replace(held, hold=None), replace(free, hold=hold)))
    assert [other_job.sequence for other_job in await store.runnable(QueueName("default"), 9)] == [2]
    assert await store.queued() == queued == {"root": 3}


async def test_the_last_order_is_the_highest(store):
    await update(store, inserted=(job(number=7), job(number=3)))

    assert await store.last_sequence() == 7


async def test_concurrent_commits_are_all_saved(store):
    many = [job() for _ in range(50)]

    await asyncio.gather(*(update(store, inserted=(job,)) for job in many))

    assert await store.jobs([other_job.id for other_job in many]) == {other_job.id: other_job for other_job in many}


# ------------------------------------------------------------------------------------------------ all of it, or nothing


async def test_a_version_conflict_saves_nothing_of_its_commit(store):
    known, other, new = job(), job(), job()
    await update(store, inserted=(known, other))

    with pytest.raises(Conflict):
        await update(
            store,
            inserted=(new,),
            updated=(replace(other, status=Status.RUNNABLE), replace(known, version=5)),
            history=(moment(new),),
            submissions=((submission(), new.id, NOON),),
        )

    assert await store.jobs([known.id, other.id, new.id]) == {known.id: known, other.id: other}
    assert await store.history(new.id) == ()
    assert await store.submissions([submission()]) == {}


async def test_an_update_of_an_unknown_job_is_a_conflict(store):
    with pytest.raises(Conflict):
        await update(store, updated=(job(),))


async def test_an_id_is_unique(store):
    first = job()
    await update(store, inserted=(first,))

    with pytest.raises(Conflict):
        await update(store, inserted=(job(), replace(first, sequence=10**6)))

    assert await store.jobs([first.id]) == {first.id: first}
    assert await store.last_sequence() == first.sequence


async def test_an_order_is_unique(store):
    first = job()
    await update(store, inserted=(first,))

    with pytest.raises(Conflict):
        await update(store, inserted=(replace(first, id=job_id(10**6)),))

    assert await store.jobs([job_id(10**6)]) == {}


async def test_a_failed_commit_does_not_affect_the_next(store):
    known = job()
    await update(store, inserted=(known,))
    with pytest.raises(StoreFailed):
        await update(store, updated=(replace(known, version=9),))

    await update(store, updated=(replace(known, status=Status.PENDING),))

    assert await store.jobs([known.id]) == {known.id: saved(replace(known, status=Status.PENDING))}


# ------------------------------------------------------------------------------------------------ queries of the engine


async def test_active_jobs_are_starting_or_running(store):
    every = {status: job(status=status) for status in Status}
    await update(store, inserted=tuple(every.values()))

    assert set(await store.active()) == {every[Status.STARTING], every[Status.RUNNING]}


async def test_unschedulable_jobs_of_all_queues_are_listed_in_order(store):
    inserted = (
        job(number=3, status=Status.RUNNABLE, unschedulable=True, queue=QueueName("other")),
        job(number=1, status=Status.RUNNABLE, unschedulable=True),
        job(number=2, status=Status.RUNNABLE),
        job(number=4, status=Status.FAILED, unschedulable=True),
        job(number=5, status=Status.RUNNABLE, unschedulable=True),
    )
    await update(store, inserted=inserted)

    assert [other_job.sequence for other_job in await store.unschedulable(2)] == [1, 3]
    assert [other_job.sequence for other_job in await store.unschedulable(2, after=3)] == [5]


async def test_dependents_are_jobs_that_still_wait(store):
    first, second = job(), job()
    on_first, on_both = job(depends_on=[first]), job(depends_on=[first, second], status=Status.PENDING)
    on_second, done = job(depends_on=[second]), job(depends_on=[first], status=Status.FAILED)
    await update(store, inserted=(first, second, on_first, on_both, on_second, done))

    assert await store.waiting_for_others() == 4
    assert set(await store.dependents([first.id])) == {on_first, on_both}
    assert set(await store.dependents([first.id, second.id, job_id(10**6)])) == {on_first, on_both, on_second}


async def test_a_decided_job_is_no_dependent(store):
    first = job()
    waiting = job(depends_on=[first, first])
    await update(store, inserted=(first, waiting))

    await update(store, updated=(replace(waiting, status=Status.RUNNABLE),))

    assert await store.dependents([first.id]) == ()
    assert await store.waiting_for_others() == 0


# ---------------------------------------------------------------------------------------------------- what else is kept


async def test_the_history_of_a_job_is_oldest_first(store):
    first, other = job(), job()
    await update(store, inserted=(first, other), history=(moment(first), moment(other)))
    running = moment(first, status=Status.RUNNING, at=NOON + timedelta(seconds=1), attempt=1, reason="started")
    failed = moment(first, status=Status.FAILED, at=NOON + timedelta(seconds=1))

    await update(store, history=(running, failed))

    assert await store.history(first.id) == (moment(first), running, failed)


async def test_a_submission_is_found_by_its_whole_key(store):
    known = job()
    await update(store, inserted=(known,), submissions=((submission(), known.id, NOON),))
    others = [submission(principal="x"), submission(invocation_id="x"), submission(body_sha256="x")]

    assert await store.submissions([submission(), *others]) == {submission(): known.id}


async def test_old_submissions_are_deleted(store):
    known = job()
    old, new = submission(), submission(invocation_id="later")
    later = NOON + timedelta(days=1)
    await update(store, inserted=(known,), submissions=((old, known.id, NOON), (new, known.id, later)))

    await update(store, delete_submissions_before=later)

    assert await store.submissions([old, new]) == {new: known.id}


async def test_a_deleted_submission_key_can_be_reused_in_the_same_commit(store):
    first, again = job(), job()
    later = NOON + timedelta(days=1)
    await update(store, inserted=(first,), submissions=((submission(), first.id, NOON),))

    await update(
        store, inserted=(again,), submissions=((submission(), again.id, later),), delete_submissions_before=later
    )

    assert await store.submissions([submission()]) == {submission(): again.id}


async def test_an_expired_submission_key_can_be_reused_before_its_deletion(store):
    first, again = job(), job()
    later = NOON + timedelta(days=1)
    keys = [submission(invocation_id=f"{number:04}") for number in range(MAX_SUBMISSIONS_DELETED + 1)]
    await update(store, inserted=(first,), submissions=tuple((key, first.id, NOON) for key in keys))

    anew = tuple((key, again.id, later) for key in (keys[0], keys[-1]))
    await update(store, inserted=(again,), submissions=anew, delete_submissions_before=later)

    assert await store.submissions([keys[0], keys[-1]]) == {keys[0]: again.id, keys[-1]: again.id}


async def test_an_unexpired_submission_key_is_never_replaced(store):
    first, again = job(), job()
    await update(store, inserted=(first,), submissions=((submission(), first.id, NOON),))

    with pytest.raises(Conflict):
        await update(
            store, inserted=(again,), submissions=((submission(), again.id, NOON),), delete_submissions_before=NOON
        )

    assert await store.submissions([submission()]) == {submission(): first.id}


async def test_a_stream_is_found_by_its_name(store):
    stream = log_stream(job(status=Status.STARTING))
    await update(store, streams=(stream,))

    assert await store.stream(stream.name) == stream
    assert await store.stream("no-such") is None


async def test_a_stream_saved_twice_is_unchanged(store):
    stream = log_stream(job(status=Status.STARTING))
    await update(store, streams=(stream,))

    await update(store, streams=(replace(stream, created_at=NOON + timedelta(days=1)),))

    assert await store.stream(stream.name) == stream


async def test_streams_are_listed_by_name_from_a_prefix(store):
    of = job(status=Status.STARTING)
    names = ["a%/2", "a%/1", "a_/1", "b/1", "a%/3", "A%/4"]
    await update(store, streams=tuple(log_stream(of, name=name) for name in names))

    assert [stream.name for stream in await store.streams(prefix="a%")] == ["a%/1", "a%/2", "a%/3"]
    assert [stream.name for stream in await store.streams(prefix="a%", after="a%/1", limit=1)] == ["a%/2"]
    assert [stream.name for stream in await store.streams(limit=2)] == ["A%/4", "a%/1"]


async def test_the_newest_streams_are_first(store):
    of = job(status=Status.STARTING)
    ages = {"middle": 2, "old": 1, "new": 3}
    streams = tuple(log_stream(of, name=name, created_at=NOON + timedelta(days=day)) for name, day in ages.items())
    await update(store, streams=streams)

    assert [stream.name for stream in await store.newest_streams()] == ["new", "middle", "old"]
    assert [stream.name for stream in await store.newest_streams(limit=1, before=(streams[2].created_at, "new"))] == [
        "middle"
    ]


# ------------------------------------------------------------------------------------------------------ invalid queries


async def test_values_that_no_database_can_store_are_not_found(store):
    known = job()
    await update(store, inserted=(known,))

    assert await store.jobs(["\ud800", "a\0b", known.id]) == {known.id: known}
    assert await store.history("\ud800") == ()
    assert await store.stream("\ud800") is None
    assert await store.streams(prefix="\ud800", after="\ud800") == ()
    assert await store.submissions([submission(invocation_id="\ud800")]) == {}
    assert await store.runnable("\ud800", 10) == ()
    assert await store.dependents(["\ud800"]) == ()


async def test_numbers_beyond_64_bits_are_handled(store):
    huge = job(status=Status.RUNNABLE, memory_mib=2**80, attempts=(attempt(exit_code=2**70),))

    await update(store, inserted=(huge,))

    assert await store.jobs([huge.id]) == {huge.id: huge}
    assert await store.runnable(QueueName("default"), 10, after=2**70) == ()
    (candidate,) = await store.runnable(QueueName("default"), 10)
    assert candidate.resources.memory_mib >= 2**63 - 1


async def test_a_job_with_invalid_unicode_is_saved(store):
    broken = job(status=Status.FAILED, status_reason="\ud800 is half a character", tags=(("a", "\udfff"),))

    await update(store, inserted=(broken, other := job()))

    found = await store.jobs([broken.id, other.id])
    assert found[broken.id].status_reason.endswith(" is half a character")
    assert found[other.id] == other


async def test_each_job_that_repeats_another_has_the_newest_of_all_that_repeat_one_another(store):
    first, other = job(), job()
    again = job(rerun_of=first.id)
    later = job(rerun_of=first.id)
    newest = job(rerun_of=again.id)
    await store.commit(Changes(inserted=(first, other, again, later, newest)))

    found = await store.newest_of_lines([first.id, other.id, again.id, later.id, job_id(10**6)])

    assert found == {first.id: newest.id, other.id: other.id, again.id: newest.id, later.id: newest.id}
