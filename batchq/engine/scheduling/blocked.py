"""Marks the blocked head of each queue: since when it has been blocked, and why.

For each account at a limit, the first job of a queue that is passed over because of it is marked too.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.engine.scheduling.placement_pass import Head, QueueSlot
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.unit_of_work import Committed, UnitOfWork

NOTICEABLE = timedelta(minutes=1)  # an expected start that is earlier by less than this is not written


class BlockedJob(Struct, frozen=True, kw_only=True):
    """The mark of a blocked job, as written to the job."""

    job_id: JobId
    #: The status reason.
    reason: str
    since: datetime
    #: The latest time at which the job starts; None: not known.
    promise: datetime | None = None


class BlockedJobs:
    """Remembers the marks, so that they are neither read nor written again. Empty after a restart."""

    def __init__(self) -> None:
        #: As last saved.
        self.marks: Mapping[QueueSlot, BlockedJob] = {}
        self._staged: Mapping[QueueSlot, BlockedJob] = {}

    def begin(self) -> None:
        """Begin a unit of work: without a call of `mark`, the marks stay as last saved."""
        self._staged = self.marks

    def on_committed(self, committed: Committed) -> None:
        self.marks = valid_marks(self._staged, committed.unit)

    async def mark(
        self,
        unit: UnitOfWork,
        queue_cache: QueueCache,
        heads: Mapping[QueueSlot, Head],
        promises: Mapping[JobId, datetime],
    ) -> Mapping[QueueSlot, BlockedJob]:
        """Mark the heads, and remove the marks of jobs that are no longer heads.

        Returns the new marks, staged until the commit.
        """
        changed = {
            slot: head for slot, head in heads.items() if not self._is_written(slot, head, promises.get(head.job_id))
        }
        stale = [it.job_id for slot, it in self.marks.items() if slot not in heads or heads[slot].job_id != it.job_id]
        await queue_cache.load_into(unit, [*stale, *(head.job_id for head in changed.values())])
        for job_id in stale:
            if _is_marked(unit.get(job_id)):
                unit.step(job_id, on.FoundSchedulable())
        marked = {
            slot: _mark(unit, head, promises.get(head.job_id))
            for slot, head in changed.items()
            if _is_runnable(unit.get(head.job_id))
        }
        self._staged = {slot: self.marks[slot] for slot in heads if slot not in changed} | marked
        return self._staged

    def _is_written(self, slot: QueueSlot, head: Head, promise: datetime | None) -> bool:
        mark = self.marks.get(slot)
        if mark is None or (mark.job_id, mark.reason) != (head.job_id, head.reason):
            return False
        return not _is_earlier(promise, mark.promise)


async def read_promises(
    unit: UnitOfWork, queue_cache: QueueCache, heads: Collection[JobId]
) -> Mapping[JobId, datetime]:
    """The stored latest start times of these jobs: needed after a restart of the server."""
    await queue_cache.load_into(unit, heads)
    stored = {it: job.promised_start for it in heads if (job := unit.get(it)) is not None}
    return {it: promise for it, promise in stored.items() if promise is not None}


def valid_marks(marks: Mapping[QueueSlot, BlockedJob], unit: UnitOfWork) -> Mapping[QueueSlot, BlockedJob]:
    """The marks without those of jobs that the unit of work has changed so that they are no longer blocked."""
    invalid = {slot for slot, it in marks.items() if (job := unit.get(it.job_id)) is not None and not _is_marked(job)}
    return {slot: it for slot, it in marks.items() if slot not in invalid} if invalid else marks


def _is_runnable(job: Job | None) -> bool:
    """Whether the job is RUNNABLE. A job whose record is damaged failed when it was loaded."""
    return job is not None and job.status is Status.RUNNABLE


def _is_earlier(promise: datetime | None, written: datetime | None) -> bool:
    """Whether the start time is earlier by at least NOTICEABLE, or is new."""
    return promise is not None and (written is None or written - promise >= NOTICEABLE)


def _mark(unit: UnitOfWork, head: Head, promise: datetime | None) -> BlockedJob:
    job = unit.get(head.job_id)
    assert job is not None, f"{head.job_id} is a head and is not loaded"
    if job.status_reason != head.reason or job.blocked_at is None or _is_earlier(promise, job.promised_start):
        unit.step(head.job_id, on.FoundBlocked(reason=head.reason, promise=promise))
        job = unit.get(head.job_id)
    assert job is not None
    assert job.blocked_at is not None, f"{head.job_id} is blocked and has no `blocked_at`"
    return BlockedJob(job_id=head.job_id, reason=head.reason, since=job.blocked_at, promise=job.promised_start)


def _is_marked(job: Job | None) -> bool:
    return job is not None and _is_runnable(job) and not job.unschedulable and job.blocked_at is not None
