"""Jobs that are blocked, since when and why, and AWS's jobStateTimeLimitActions, which cancel them.

A blocked job is the head of a queue or an unschedulable job. Heads are few and kept in memory; for each account at a
limit, the first job of a queue that is passed over because of it is one too. There may be many unschedulable jobs, so
they stay in the store and are scanned, a page a unit of work, when the first may be due.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import JobQueue
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.engine.scheduling.placement_pass import Head, QueueSlot
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.supervisor import wait_at_most
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.catalog import CatalogView
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

NOTICEABLE = timedelta(minutes=1)  # an expected start that is earlier by less than this is not written
SCAN_PAGE = 500
SCAN_INTERVAL = 10.0  # seconds between two scans of the unschedulable jobs


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
        #: As the present unit of work leaves them: without a call of `mark`, as last saved.
        self.staged: Mapping[QueueSlot, BlockedJob] = {}

    def on_committed(self, committed: Committed) -> None:
        self.marks = valid_marks(self.staged, committed.unit) if self.staged else self.staged

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
        if not heads and not self.marks:
            return self.marks
        changed = {
            slot: head for slot, head in heads.items() if not self._is_written(slot, head, promises.get(head.job_id))
        }
        stale = [
            job.job_id for slot, job in self.marks.items() if slot not in heads or heads[slot].job_id != job.job_id
        ]
        await queue_cache.load_into(unit, [*stale, *(head.job_id for head in changed.values())])
        for job_id in stale:
            if _is_marked(unit.get(job_id)):
                unit.step(job_id, on.FoundSchedulable())
        marked = {
            slot: _mark(unit, head, promises.get(head.job_id))
            for slot, head in changed.items()
            if _is_runnable(unit.get(head.job_id))
        }
        self.staged = {slot: self.marks[slot] for slot in heads if slot not in changed} | marked
        return self.staged

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
    stored = {job_id: job.promised_start for job_id in heads if (job := unit.get(job_id)) is not None}
    return {job_id: promise for job_id, promise in stored.items() if promise is not None}


def valid_marks(marks: Mapping[QueueSlot, BlockedJob], unit: UnitOfWork) -> Mapping[QueueSlot, BlockedJob]:
    """The marks without those of jobs that the unit of work has changed so that they are no longer blocked."""
    invalid = {
        slot for slot, mark in marks.items() if (job := unit.get(mark.job_id)) is not None and not _is_marked(job)
    }
    return {slot: job for slot, job in marks.items() if slot not in invalid} if invalid else marks


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


class UnschedulableScan(Struct, frozen=True, kw_only=True):
    """A scan of the unschedulable jobs."""

    #: When the scan begins or continues.
    at: datetime
    #: The `Job.sequence` after which the scan continues; -1 for the first page.
    after: int = -1
    #: The earliest due time of the jobs read so far; None: none of them is subject to a limit.
    first_due: datetime | None = None


class TimeLimits:
    """Cancels jobs that exceed a time limit. The decisions of a unit of work are staged until it is saved."""

    def __init__(
        self,
        *,
        store: JobStore,
        catalog: CatalogView,
        heads: BlockedJobs,
        clock: Clock,
        request_unit: Callable[[], None],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._heads = heads
        self._clock = clock
        #: Called when a unit of work is needed because a job is due.
        self._request_unit = request_unit
        #: The marks from which `_heads_due` was computed; None: compute it again.
        self._marks: Mapping[QueueSlot, BlockedJob] | None = None
        #: The earliest due time of a blocked head; None: none.
        self._heads_due: datetime | None = None
        #: The next scan, as last saved; None: no scan is needed.
        self._scan: UnschedulableScan | None = None
        self._staged: UnschedulableScan | None = None
        #: Set when `due` may have changed.
        self._due_changed = asyncio.Event()

    @property
    def due(self) -> datetime | None:
        """When the next job may have been blocked too long; None: no job is subject to a limit."""
        return self._heads_due if self._scan is None else _earliest((self._heads_due, self._scan.at))

    def schedule_scan(self, now: datetime) -> None:
        """Schedule a scan now: after a start, or when the limits may have changed.

        If a scan is due already, `run` has requested a unit of work, and requests it again if the unit is not saved.
        """
        is_requested = self._scan is not None and self._scan.at <= now
        self._scan = self._staged = UnschedulableScan(at=now)
        self.reset_due()
        if not is_requested:
            self._due_changed.set()

    def reset_due(self) -> None:
        """Compute the due times of the heads again: the limits of queues may have changed."""
        self._marks = None

    async def cancel(self, unit: UnitOfWork, *, recheck_due: bool) -> None:
        """Cancel the jobs that are due. `recheck_due`: unschedulable jobs are not cancelled yet."""
        marks = self._heads.marks
        if self._heads_due is not None and self._heads_due <= unit.now:
            unknown = unit.not_loaded(job.job_id for job in marks.values())
            unit.load((await self._store.jobs(sorted(unknown))).values())
            for mark in marks.values():
                self._cancel_if_due(unit, mark.job_id)
        self._staged = self._scan
        if self._scan is not None and self._scan.at <= unit.now and not recheck_due:
            self._staged = await self._scan_page(unit, self._scan)

    def on_committed(self, committed: Committed) -> None:
        """Update the due times. The blocked heads must have been updated before."""
        marks = self._heads.marks
        unschedulable = [job for _, job in committed.runnable if job.unschedulable] if committed.runnable else []
        if marks is self._marks and self._scan is None and self._staged is None and not unschedulable:
            return
        before, self._scan = self.due, self._staged
        if marks is not self._marks:
            self._marks, self._heads_due = marks, self._first_of(marks)
        if unschedulable:
            self._scan = self._staged = _with_due(self._scan, _earliest(map(self._due_of, unschedulable)))
        if self.due != before or (self._scan is not None and self._scan.after >= 0):
            self._due_changed.set()

    def _first_of(self, marks: Mapping[QueueSlot, BlockedJob]) -> datetime | None:
        heads = [(self._catalog.queues.get(place), job) for place, job in marks.items() if isinstance(place, str)]
        return _earliest([_due_time(queue, job.reason, job.since) for queue, job in heads])

    async def run(self) -> None:
        """Request a unit of work whenever a job is due."""
        while True:
            self._due_changed.clear()
            due = self.due
            if due is None:
                await self._due_changed.wait()
                continue
            left = (due - self._clock.now()).total_seconds()
            if left <= 0:
                self._request_unit()
            await wait_at_most(left if left > 0 else SCAN_INTERVAL, self._due_changed, self._clock)

    async def _scan_page(self, unit: UnitOfWork, scan: UnschedulableScan) -> UnschedulableScan | None:
        """Scan a page of unschedulable jobs. Returns the next page or scan, None if none is needed."""
        if not any(queue.time_limits for queue in self._catalog.queues.values()):
            return None
        page = await self._store.unschedulable(SCAN_PAGE, scan.after)
        unit.load(page)
        first = _earliest((scan.first_due, *(self._cancel_if_due(unit, job.id) for job in page)))
        if len(page) == SCAN_PAGE:
            return UnschedulableScan(at=unit.now, after=page[-1].sequence, first_due=first)
        return None if first is None else UnschedulableScan(at=max(first, unit.now + timedelta(seconds=SCAN_INTERVAL)))

    def _cancel_if_due(self, unit: UnitOfWork, job_id: JobId) -> datetime | None:
        """Cancel the job if it is due; returns the due time otherwise, None without a limit."""
        job = unit.get(job_id)
        due = None if job is None else self._due_of(job)
        if job is None or job.status_reason is None or due is None or due > unit.now:
            return due
        unit.step(job.id, on.BlockedTooLong(reason=status_reasons.code(job.status_reason)))
        return None

    def _due_of(self, job: Job) -> datetime | None:
        if job.status is not Status.RUNNABLE or job.blocked_at is None or job.status_reason is None:
            return None
        return _due_time(self._catalog.queues.get(job.spec.queue), job.status_reason, job.blocked_at)


def _due_time(queue: JobQueue | None, reason: str, since: datetime) -> datetime | None:
    if queue is None or not queue.time_limits:
        return None
    limits = [
        limit.most for limit in queue.time_limits if status_reasons.code(limit.reason) == status_reasons.code(reason)
    ]
    return since + min(limits) if limits else None


def _with_due(scan: UnschedulableScan | None, due: datetime | None) -> UnschedulableScan | None:
    """The scan, changed so that it also covers `due`."""
    if scan is None or due is None:
        return scan if due is None else UnschedulableScan(at=due)
    if scan.after >= 0:
        return replace(scan, first_due=_earliest((scan.first_due, due)))
    return replace(scan, at=min(scan.at, due))


def _earliest(dues: Iterable[datetime | None]) -> datetime | None:
    return min([moment for moment in dues if moment is not None], default=None)
