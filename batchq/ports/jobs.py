"""The store of jobs: its port, its queries and its values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Visibility
from batchq.domain.access.audit import AuditRecord
from batchq.domain.bulk_stop import Candidates, Progress, Selection, Sweep
from batchq.domain.ids import ConsumableName, JobId, QueueName, Tag
from batchq.domain.job import Job, Status
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.bulk_stops import SweepStore
from batchq.ports.catalog import NeedQuery
from batchq.ports.clock import ClockStore
from batchq.ports.logs import LogStream
from batchq.ports.queue import WaitingStore


class Moment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a job's history: when it came into a status, and what was said of it then."""

    job_id: JobId
    at: datetime
    status: Status
    reason: str | None
    attempt: int | None


class SubmissionKey(Struct, frozen=True, kw_only=True):
    """By this a repeated SubmitJob is known: the client's own mark on the call, who called, and what was asked."""

    principal: str
    invocation_id: str
    body_sha256: str


Age = tuple[datetime, str]

"""When a log stream was created, and its name: in this order streams are listed by age."""


class Restoration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of the last time the data was replaced by a backup.

    `at` is there until an operator says that the engine's containers are as they should be. `spared` are those that
    nobody knew when he said so, and that he did not have cleared away; `purged` those that he did.
    """

    at: datetime | None = None
    spared: frozenset[Tag] = frozenset()
    purged: frozenset[Tag] = frozenset()


class Finished(NamedTuple):
    """Where a finished job stands among them all, the oldest first: when it ended, in microseconds, and its order."""

    at: int
    order: int


class Pruned(Struct, frozen=True, kw_only=True):
    """How many jobs were forgotten, and behind which to go on; None when nothing that is old enough is left."""

    jobs: int
    after: Finished | None


class Changes(Struct, frozen=True, kw_only=True):
    """All that one unit of work saves, in one transaction.

    `inserted` are new jobs, `updated` known ones: each `version` is that of the row as it was read; the store writes
    `version + 1`. `submissions` are remembered with `at`; those older than `forget_before` may be forgotten. `shares`
    and `used_up` replace what was kept of that share, and of that NON_REPLENISHABLE resource; `restoration` all of it.
    Which jobs a new one of `sweeps` means is decided here, by all else that is saved; `progress` is of those before.
    `candidates`, by the number of a sweep, spare the store to look for jobs that have not changed since they were read.
    `acts` are those by which all this was asked for.
    """

    inserted: tuple[Job, ...] = ()
    updated: tuple[Job, ...] = ()
    history: tuple[Moment, ...] = ()
    submissions: tuple[tuple[SubmissionKey, JobId, datetime], ...] = ()
    shares: tuple[tuple[ShareKey, ShareUse], ...] = ()
    used_up: tuple[tuple[ConsumableName, int], ...] = ()
    streams: tuple[LogStream, ...] = ()
    restoration: Restoration | None = None
    #: The container engine that attempts are on, if it is another than before.
    engine_id: str | None = None
    sweeps: tuple[tuple[Sweep, Selection], ...] = ()
    candidates: tuple[tuple[int, Candidates], ...] = ()
    progress: tuple[Progress, ...] = ()
    acts: tuple[AuditRecord, ...] = ()
    forget_before: datetime | None = None

    @property
    def empty(self) -> bool:
        rows = (self.inserted, self.updated, self.history, self.submissions, self.streams, self.shares, self.used_up)
        kept = (self.restoration, self.engine_id)
        return not any(rows) and not any(it is not None for it in kept) and not self.sweeps and not self.progress


class ChildQuery(Struct, frozen=True, kw_only=True):
    """The children of an array, highest index first. None is every status; `before` the `order` to go on below.

    Where they are `over`, those that wait count as FAILED.
    """

    parent: JobId
    status: Status | None = None
    limit: int
    before: int | None = None
    over: bool = False


class Filter(StrEnum):
    """ListJobs' filters; SHARE_IDENTIFIER alone goes together with a status."""

    JOB_NAME = "JOB_NAME"
    JOB_DEFINITION = "JOB_DEFINITION"
    BEFORE_CREATED_AT = "BEFORE_CREATED_AT"
    AFTER_CREATED_AT = "AFTER_CREATED_AT"
    SHARE_IDENTIFIER = "SHARE_IDENTIFIER"


class JobQuery(Struct, frozen=True, kw_only=True):
    """Jobs of one queue, newest first (by `order`, descending).

    JOB_NAME: case-insensitive, a trailing `*` is any rest. JOB_DEFINITION: case-sensitive; `name` (all revisions),
    `name*`, or `name:revision`. BEFORE/AFTER_CREATED_AT: milliseconds since the epoch as text, exclusive. Several
    values are alternatives. `status` None is every status. `before` is the `order` to go on below. Of jobs outside a
    `reach` nothing is told. Jobs of the orders `over` that are PENDING count as FAILED.
    """

    queue: QueueName
    status: Status | None = None
    filter: Filter | None = None
    values: tuple[str, ...] = ()
    limit: int
    before: int | None = None
    reach: Visibility | None = None
    over: frozenset[int] = frozenset()


class StatusChanged(Struct, frozen=True, kw_only=True):
    """A saved change of a job's status."""

    before: Status | None
    job: Job


class JobStore(ClockStore, WaitingStore, SweepStore, Protocol):
    """Jobs, durable. One writer: the engine's loop. Reads see every commit that has returned.

    Every method raises StoreFailed when the database does not do it; a failed commit has changed nothing.
    """

    async def commit(self, changes: Changes) -> None:
        """Save all of it or nothing, durably. Raises Conflict when a job is not at the version it names."""

    async def jobs(self, ids: Sequence[JobId], *, reach: Visibility | None = None) -> Mapping[JobId, Job]:
        """Those of them that exist, however many are asked for. What is outside a reach is as if it did not."""

    async def active(self) -> tuple[Job, ...]:
        """Every job that is STARTING or RUNNING."""

    async def dependents(self, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None) -> tuple[Job, ...]:
        """SUBMITTED and PENDING jobs that depend on one of these, by order, the first `limit` behind `after`."""

    async def ended_dependencies(self) -> tuple[JobId, ...]:
        """Jobs that others wait for and that have ended, and arrays that others wait for."""

    async def waiting_for_others(self) -> int:
        """How many times one of those waits for a job: once for each that it names."""

    async def parents_at_work(self) -> tuple[Job, ...]:
        """Array parents that have children to spawn, or to tell of an order."""

    async def children(self, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
        """The children of an array that are not finished, by index, from `first` on, among the next `limit` indices."""

    async def shares(self) -> Mapping[ShareKey, ShareUse]:
        """What is kept of each share that ever had a job."""

    async def used_up(self) -> Mapping[ConsumableName, int]:
        """How much of each NON_REPLENISHABLE resource jobs have used up."""

    async def restoration(self) -> Restoration:
        """What is kept of it; nothing where the data is no backup's."""

    async def engine_id(self) -> str | None:
        """The container engine that the unfinished attempts are on, None before the first."""

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        """Those of them that are remembered."""

    async def last_order(self) -> int:
        """The highest `order` given so far, -1 before the first; an array has taken those of all its children."""

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        """Jobs of a queue: no children of arrays among them."""

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]: ...

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]: ...

    async def unfinished_in(self, queue: QueueName) -> int:
        """How many jobs of a queue are not SUCCEEDED or FAILED."""

    async def check(self) -> None:
        """Raise StoreFailed if it does not answer; StoreLost if it never will again."""

    async def damaged(self) -> tuple[JobId, ...]:
        """Jobs that are not over and whose record could not be read: what is told of them is what was left of it."""

    async def history(self, job_id: JobId) -> tuple[Moment, ...]:
        """The job's walk through the statuses, oldest first."""

    async def stream(self, name: str) -> LogStream | None: ...

    async def streams(
        self, *, prefix: str = "", after: str = "", limit: int = 50, reach: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        """Log streams by name, ascending, whose names begin with `prefix` and come after `after`."""

    async def newest_streams(
        self, *, limit: int = 50, before: Age | None = None, reach: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        """Log streams, the last created first, and those of one moment by name, the last first; behind `before`."""
