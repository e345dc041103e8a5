"""AWS's jobStateTimeLimitActions: cancels RUNNABLE jobs that have been blocked too long for a given reason.

A blocked job is the head of a queue or an unschedulable job. Heads are few and kept in memory. There may be
many unschedulable jobs, so they stay in the store and are scanned, a page a unit of work, when the first may be due.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import JobQueue
from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.engine.scheduling.blocked import BlockedJob, BlockedJobs
from batchq.engine.scheduling.placement_pass import QueueSlot
from batchq.engine.supervisor import wait_at_most
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.catalog import CatalogView
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

PAGE = 500
SCAN_INTERVAL = 10.0  # seconds between two scans of the unschedulable jobs


class UnschedulableScan(Struct, frozen=True, kw_only=True):
    """A scan of the unschedulable jobs."""

    #: When the scan begins or continues.
    at: datetime
    #: The order after which it continues; -1 for the first page.
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

    async def cancel(self, unit: UnitOfWork) -> None:
        """Cancel the jobs that are due."""
        marks = self._heads.marks
        if self._heads_due is not None and self._heads_due <= unit.now:
            ids = [it.job_id for it in marks.values() if not unit.has_loaded(it.job_id)]
            unit.load((await self._store.jobs(ids)).values())
            for mark in marks.values():
                self._cancel_if_due(unit, mark.job_id)
        self._staged = self._scan
        if self._scan is not None and self._scan.at <= unit.now:
            self._staged = await self._scan_page(unit, self._scan)

    def on_committed(self, committed: Committed) -> None:
        """Update the due times. The blocked heads must have been updated before."""
        marks, jobs = self._heads.marks, committed.jobs
        before, self._scan = self.due, self._staged
        if marks is not self._marks:
            self._marks, self._heads_due = marks, self._first_of(marks)
        unschedulable = [job for job in jobs if job.unschedulable]
        if unschedulable:
            self._scan = self._staged = _with_due(self._scan, _earliest(map(self._due_of, unschedulable)))
        if self.due != before or (self._scan is not None and self._scan.after >= 0):
            self._due_changed.set()

    def _first_of(self, marks: Mapping[QueueSlot, BlockedJob]) -> datetime | None:
        heads = [(self._catalog.queues.get(place), it) for place, it in marks.items() if isinstance(place, str)]
        return _earliest([_due_time(queue, it.reason, it.since) for queue, it in heads])

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
        if not any(it.time_limits for it in self._catalog.queues.values()):
            return None
        page = await self._store.unschedulable(PAGE, scan.after)
        unit.load(page)
        first = _earliest((scan.first_due, *(self._cancel_if_due(unit, job.id) for job in page)))
        if len(page) == PAGE:
            return UnschedulableScan(at=unit.now, after=page[-1].order, first_due=first)
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
    limits = [it.most for it in queue.time_limits if status_reasons.code(it.reason) == status_reasons.code(reason)]
    return since + min(limits) if limits else None


def _with_due(scan: UnschedulableScan | None, due: datetime | None) -> UnschedulableScan | None:
    """The scan, changed so that it also covers `due`."""
    if scan is None or due is None:
        return scan if due is None else UnschedulableScan(at=due)
    if scan.after >= 0:
        return replace(scan, first_due=_earliest((scan.first_due, due)))
    return replace(scan, at=min(scan.at, due))


def _earliest(dues: Iterable[datetime | None]) -> datetime | None:
    return min([it for it in dues if it is not None], default=None)
