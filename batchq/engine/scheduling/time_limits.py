"""AWS's jobStateTimeLimitActions: a RUNNABLE job that has been blocked too long for a reason is cancelled.

Who is blocked is a queue's head or a misfit. Heads are few and known; misfits may be many, and stay in the store: they
are looked through, a page a unit of work, when the first of them may be due.
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
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.scheduling.placement_pass import QueueSlot
from batchq.engine.supervisor import within
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

PAGE = 500
LOOK_AGAIN = 10.0  # seconds between two looks through the misfits


class Look(Struct, frozen=True, kw_only=True):
    """A look through the misfits: when it goes on, behind which order, and the first that is due of those seen."""

    at: datetime
    after: int = -1
    first_due: datetime | None = None


class Limits:
    """What a unit of work decides is staged: it holds when the unit of work is saved."""

    def __init__(
        self, *, store: JobStore, ground: CatalogView, heads: BlockedJobs, clock: Clock, ring: Callable[[], None]
    ) -> None:
        self._store = store
        self._ground = ground
        self._heads = heads
        self._clock = clock
        self._ring = ring
        self._marks: Mapping[QueueSlot, BlockedJob] | None = None
        self._heads_due: datetime | None = None
        self._look: Look | None = None
        self._staged: Look | None = None
        self._sooner = asyncio.Event()

    @property
    def due(self) -> datetime | None:
        """When the next job may have been blocked too long, None if there is none."""
        return self._heads_due if self._look is None else _first((self._heads_due, self._look.at))

    def look_through(self, now: datetime) -> None:
        """Which jobs are due is not known: after a start, or when the limits may have changed.

        A look that is due has rung: a unit of work that is not saved asks for it again each time.
        """
        has_rung = self._look is not None and self._look.at <= now
        self._look = self._staged = Look(at=now)
        self.forget()
        if not has_rung:
            self._sooner.set()

    def forget(self) -> None:
        """The limits of queues may be others."""
        self._marks = None

    async def cancel(self, unit: UnitOfWork) -> None:
        """Cancel those that are due."""
        marks = self._heads.marks
        if self._heads_due is not None and self._heads_due <= unit.now:
            ids = [it.job_id for it in marks.values() if not unit.knows(it.job_id)]
            unit.load((await self._store.jobs(ids)).values())
            for mark in marks.values():
                self._judge(unit, mark.job_id)
        self._staged = self._look
        if self._look is not None and self._look.at <= unit.now:
            self._staged = await self._go_on(unit, self._look)

    def on_committed(self, committed: Committed) -> None:
        """The blocked heads have been updated before."""
        marks, jobs = self._heads.marks, committed.jobs
        before, self._look = self.due, self._staged
        if marks is not self._marks:
            self._marks, self._heads_due = marks, self._first_of(marks)
        misfits = [job for job in jobs if job.misfit]
        if misfits:
            self._look = self._staged = _sooner(self._look, _first(map(self._due_of, misfits)))
        if self.due != before or (self._look is not None and self._look.after >= 0):
            self._sooner.set()

    def _first_of(self, marks: Mapping[QueueSlot, BlockedJob]) -> datetime | None:
        heads = [(self._ground.queues.get(place), it) for place, it in marks.items() if isinstance(place, str)]
        return _first([_due(queue, it.reason, it.since) for queue, it in heads])

    async def run(self) -> None:
        """Ring when somebody is due."""
        while True:
            self._sooner.clear()
            due = self.due
            if due is None:
                await self._sooner.wait()
                continue
            left = (due - self._clock.now()).total_seconds()
            if left <= 0:
                self._ring()
            await within(left if left > 0 else LOOK_AGAIN, self._sooner, self._clock)

    async def _go_on(self, unit: UnitOfWork, look: Look) -> Look | None:
        """A page of misfits; after the last it is known when to look again."""
        if not any(it.time_limits for it in self._ground.queues.values()):
            return None
        page = await self._store.misfits(PAGE, look.after)
        unit.load(page)
        first = _first((look.first_due, *(self._judge(unit, job.id) for job in page)))
        if len(page) == PAGE:
            return Look(at=unit.now, after=page[-1].order, first_due=first)
        return None if first is None else Look(at=max(first, unit.now + timedelta(seconds=LOOK_AGAIN)))

    def _judge(self, unit: UnitOfWork, job_id: JobId) -> datetime | None:
        """Cancel it if it is due; else when it is."""
        job = unit.get(job_id)
        due = None if job is None else self._due_of(job)
        if job is None or job.status_reason is None or due is None or due > unit.now:
            return due
        unit.step(job.id, on.BlockedTooLong(reason=status_reasons.code(job.status_reason)))
        return None

    def _due_of(self, job: Job) -> datetime | None:
        if job.status is not Status.RUNNABLE or job.blocked_at is None or job.status_reason is None:
            return None
        return _due(self._ground.queues.get(job.spec.queue), job.status_reason, job.blocked_at)


def _due(queue: JobQueue | None, reason: str, since: datetime) -> datetime | None:
    if queue is None or not queue.time_limits:
        return None
    asked = [it.most for it in queue.time_limits if status_reasons.code(it.reason) == status_reasons.code(reason)]
    return since + min(asked) if asked else None


def _sooner(look: Look | None, due: datetime | None) -> Look | None:
    """The next look, when one of these is due too."""
    if look is None or due is None:
        return look if due is None else Look(at=due)
    if look.after >= 0:
        return replace(look, first_due=_first((look.first_due, due)))
    return replace(look, at=min(look.at, due))


def _first(dues: Iterable[datetime | None]) -> datetime | None:
    return min([it for it in dues if it is not None], default=None)
