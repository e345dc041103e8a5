"""The ports of the store for jobs, bulk stops, the overview and retention, with their queries and values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.access.audit import AuditRecord
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.bulk_stop import BulkStop, Candidates, Preview, Progress, StopTarget, Target
from batchq.domain.cost import Spending
from batchq.domain.enums import Status
from batchq.domain.groups import Group
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName, SubmissionKey, Tag
from batchq.domain.job import Job
from batchq.domain.job_counts import JobGroup
from batchq.domain.job_selection import JobSelection
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.catalog import NeedQuery
from batchq.ports.clock import ClockStore
from batchq.ports.costs import CostStore
from batchq.ports.groups import GroupStore
from batchq.ports.history import HistoryEntry, HistoryStore
from batchq.ports.job_search import JobSearch
from batchq.ports.logs import LogStream
from batchq.ports.queue import QueueStore


class WaitingQuery(NamedTuple):
    """Which RUNNABLE jobs of a queue to consider: those of a user, of an account, or all."""

    queue: QueueName
    user: UserName | None = None
    account: AccountName | None = None


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs of one job definition with the same reason."""

    definition: DefinitionRef
    #: The container's reason, the exit code in words, or the status reason.
    reason: str
    count: int


class Failures(Struct, frozen=True, kw_only=True):
    """The jobs of a period that failed by themselves. An array counts once, and its children do not count."""

    count: int
    #: Whether there are more than were counted.
    more: bool
    #: The largest first.
    groups: tuple[FailureGroup, ...]


class JobFactsQuery(Struct, frozen=True, kw_only=True):
    """A query for the facts of one job beside its record."""

    job_id: JobId
    #: The jobs whose repetitions are read.
    repeated: Sequence[JobId]
    #: How many of the jobs that wait for this one are read at most; 0: none.
    dependents: int


class JobFacts(Struct, frozen=True, kw_only=True):
    """The facts that a JobFactsQuery asks for."""

    #: Oldest first.
    history: tuple[HistoryEntry, ...]
    #: As of `JobStore.reruns`.
    reruns: Mapping[JobId, JobId]
    #: As of `JobStore.dependents`.
    dependents: tuple[Job, ...]


class OverviewFacts(Struct, frozen=True, kw_only=True):
    """What the overview reads of the store."""

    failures: Failures
    #: As of `OverviewStore.oldest_visible_runnable`.
    oldest_runnable: Mapping[QueueName, datetime]


class OverviewStore(Protocol):
    """Bounded reads for the overview. Every method may raise StoreFailed."""

    async def overview_facts(
        self, since: datetime, queries: Collection[WaitingQuery], *, visibility: Visibility | None
    ) -> OverviewFacts:
        """The failures since `since`, the last ones first, as far as they can be read in bounded time.

        And what `oldest_visible_runnable` returns for `queries`: a second transaction would cost more than its read.
        """

    async def oldest_visible_runnable(self, queries: Collection[WaitingQuery]) -> Mapping[QueueName, datetime]:
        """Since when the first RUNNABLE job of each queue has been RUNNABLE, of the jobs that any query considers.

        The first in the order of submission; queues without one are omitted. A query for a user does not consider
        children of arrays.
        """


class BulkStopStore(Protocol):
    """Reads of bulk stops. They are created and advanced by `JobStore.commit`. Every method may raise StoreFailed."""

    async def bulk_stops(self) -> tuple[BulkStop, ...]:
        """The bulk stops that are not complete, oldest first."""

    async def target_ranges(self, number: int) -> Sequence[tuple[int, int]]:
        """The `Job.sequence` of all targets of the bulk stop `number` that are not stopped yet, and of their children.

        The result is disjoint intervals. Each is (first, last), both included; adjacent intervals are merged.
        """

    async def next_targets(self, number: int, limit: int) -> tuple[StopTarget, ...]:
        """The next targets of the bulk stop `number`: at most `limit`, by sequence and node, highest first."""

    async def candidates(self, selection: JobSelection) -> tuple[Target, ...]:
        """The jobs that `selection` matches now, ascending, for `Changes.candidates`. Does not wait for commits."""

    async def preview(
        self, selection: JobSelection, limit: int, after: tuple[int, int | None] | None = None
    ) -> tuple[Preview, ...]:
        """The jobs that `selection` matches now, by sequence and node: the first `limit` after `after`. Read-only."""


#: The creation time and the name of a log stream: the sort key of a list by age.
Age = tuple[datetime, str]


class Restoration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the last restore from a backup. Decision 0016."""

    #: The time of the restore, until an operator ends safe mode with `leave-safe-mode`; None outside safe mode.
    at: datetime | None = None
    #: Containers without a known job at the time of `leave-safe-mode`, which are left alone.
    spared: frozenset[Tag] = frozenset()
    #: Containers without a known job at the time of `leave-safe-mode --purge`, which are removed.
    purged: frozenset[Tag] = frozenset()


class SurveyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last stored survey of the container engine: until when active attempts with prices ran. Decision 0064."""

    #: When the survey began.
    began_at: datetime
    #: By job with prices whose active attempt had no running container: when the last earlier survey began in which
    #: one ran; None: no earlier survey is known.
    unseen: Mapping[JobId, datetime | None] = field(default_factory=dict)

    def seen_at(self, job_id: JobId) -> datetime | None:
        """When the last survey began that can have seen a container of the job run; None: no such survey is known."""
        return self.unseen.get(job_id, self.began_at)


class Finished(NamedTuple):
    """The sort key of finished jobs, oldest first."""

    #: When the job ended, in microseconds since the epoch.
    at: int
    #: `Job.sequence`.
    sequence: int


class Pruned(Struct, frozen=True, kw_only=True):
    """The result of one call of `RetentionStore.prune`."""

    #: How many jobs were deleted.
    jobs: int
    #: Where the next call continues; None if no job is left that is old enough.
    after: Finished | None


class Changes(Struct, frozen=True, kw_only=True):
    """All changes of one unit of work, which `JobStore.commit` saves in one transaction."""

    #: New jobs.
    inserted: tuple[Job, ...] = ()
    #: Changed jobs. `version` is that of the row as it was read; the store writes `version + 1`.
    updated: tuple[Job, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    #: Idempotency keys, each with the job that the request created and the time of the request.
    submissions: tuple[tuple[SubmissionKey, JobId, datetime], ...] = ()
    #: Each replaces the stored usage of its share.
    shares: tuple[tuple[ShareKey, ShareUse], ...] = ()
    #: Units used up of NON_REPLENISHABLE resources; each replaces the stored number.
    used_up: tuple[tuple[ConsumableName, int], ...] = ()
    streams: tuple[LogStream, ...] = ()
    #: Replaces the stored value; None: no change.
    restoration: Restoration | None = None
    #: The container engine that attempts run on, if it has changed; None: no change.
    engine_id: str | None = None
    #: The last survey of the container engine, to be stored; None: no change.
    survey: SurveyRecord | None = None
    #: New bulk stops. The store selects their targets last, so that the selection sees all other changes.
    bulk_stops: tuple[tuple[BulkStop, JobSelection], ...] = ()
    #: Targets that were selected in advance, by the number of the bulk stop: only changed jobs are matched again.
    candidates: tuple[tuple[int, Candidates], ...] = ()
    #: Progress of earlier bulk stops.
    progress: tuple[Progress, ...] = ()
    #: What attempts that ended cost. It is added to the stored spending of the same day and group.
    spending: tuple[Spending, ...] = ()
    #: Budgets to be stored, by key; None: the budget is deleted.
    budgets: tuple[tuple[BudgetKey, Budget | None], ...] = ()
    #: The groups whose jobs changed.
    groups: tuple[Group, ...] = ()
    #: The audit records of the requests that caused these changes.
    audit_records: tuple[AuditRecord, ...] = ()
    #: Submissions older than this may be deleted; None: none is deleted.
    delete_submissions_before: datetime | None = None


class ChildRun(NamedTuple):
    """Children of an array with successive indices and one status."""

    status: Status
    #: The index of the first child.
    first: int
    #: The index after the last one.
    end: int


def joined_runs(runs: Iterable[ChildRun]) -> tuple[ChildRun, ...]:
    """The runs, with adjacent runs of the same status joined."""
    joined: list[ChildRun] = []
    for run in runs:
        if joined and joined[-1].status is run.status and joined[-1].end == run.first:
            joined[-1] = joined[-1]._replace(end=run.end)
        else:
            joined.append(run)
    return tuple(joined)


class StatusChanged(NamedTuple):
    """A saved change of a job's status."""

    #: None for a new job.
    before: Status | None
    job: Job


class JobStore(
    ClockStore, CostStore, QueueStore, BulkStopStore, GroupStore, HistoryStore, JobSearch, OverviewStore, Protocol
):
    """Durable storage of jobs. The only writer is the engine's loop. Reads see every commit that has returned.

    Every method raises StoreFailed if the database reports an error; a failed commit has changed nothing.
    """

    async def commit(self, changes: Changes) -> int | None:
        """Save all changes in one durable transaction. Raises Conflict if a job's stored version is another.

        Returns the number of the first history entry that was saved, or None if none was. The numbers of the others
        follow in the order of `changes.history`; an entry of a deleted job is not saved and takes no number.
        """

    async def jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None = None) -> Mapping[JobId, Job]:
        """The jobs with these ids; missing ids are omitted. Jobs of owners outside `visibility` are treated as missing.

        The number of ids is not limited.
        """

    async def reruns(self, ids: Sequence[JobId]) -> Mapping[JobId, JobId]:
        """The newest job that repeats each of these; ids of jobs that were not submitted again are omitted."""

    async def newest_of_lines(self, ids: Sequence[JobId]) -> Mapping[JobId, JobId]:
        """The newest job of the line of each of these: of the jobs that repeat one another, directly or not.

        Ids of jobs that neither exist nor are repeated are omitted.
        """

    async def active(self) -> tuple[Job, ...]:
        """Every job that is STARTING or RUNNING."""

    async def dependents(self, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None) -> tuple[Job, ...]:
        """SUBMITTED and PENDING jobs that depend on one of these, by `sequence`: the first `limit` above `after`.

        `limit` None: all of them.
        """

    async def job_facts(self, query: JobFactsQuery) -> JobFacts:
        """The facts of a job, read in one transaction: a transaction costs more than each of the reads."""

    async def ended_dependencies(self) -> tuple[JobId, ...]:
        """Finished jobs, and arrays in any status, that waiting jobs depend on."""

    async def unfinished_counts(self) -> Mapping[JobGroup, int]:
        """The numbers of unfinished jobs; groups without jobs are omitted."""

    async def waiting_for_others(self) -> int:
        """The number of dependencies of waiting jobs: a job counts once for each job that it depends on."""

    async def arrays_with_work(self) -> tuple[Job, ...]:
        """Array parents that have children to spawn, or an order to pass on to their children."""

    async def children(self, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
        """The unfinished children of an array among the `limit` indices from `first` on, by index."""

    async def shares(self) -> Mapping[ShareKey, ShareUse]:
        """The usage of every share that is stored."""

    async def used_up(self) -> Mapping[ConsumableName, int]:
        """How much of each NON_REPLENISHABLE resource jobs have used up."""

    async def restoration(self) -> Restoration:
        """The state of the last restore; an empty value if the data was never restored."""

    async def engine_id(self) -> str | None:
        """The container engine that the unfinished attempts run on; None before the first attempt."""

    async def last_survey(self) -> SurveyRecord | None:
        """The last stored survey of the container engine; None: no survey is stored."""

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        """The job that each of these requests created; unknown keys are omitted."""

    async def last_sequence(self) -> int:
        """The highest `sequence` in use; -1 before the first job. An array takes the sequences of all its children."""

    async def child_runs(self, parent: JobId) -> tuple[ChildRun, ...]:
        """The stored statuses of an array's children, by index; empty if the job is not an array."""

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        """The jobs that require a consumable resource and match `query`, newest first."""

    async def unfinished_in(self, queue: QueueName) -> int:
        """The number of jobs of a queue that are neither SUCCEEDED nor FAILED."""

    async def check(self) -> None:
        """Raises StoreFailed if the store does not respond; StoreLost if it never will again."""

    async def damaged(self) -> tuple[JobId, ...]:
        """Unfinished jobs with an unreadable record: their values are what could be recovered of it. Decision 0015."""

    async def stream(self, name: str) -> LogStream | None:
        """The log stream of this name; None if there is none."""

    async def streams(
        self, *, prefix: str = "", after: str = "", limit: int = 50, visibility: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        """The first `limit` log streams whose names begin with `prefix` and sort after `after`, by name, ascending."""

    async def newest_streams(
        self, *, limit: int = 50, before: Age | None = None, visibility: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        """The first `limit` log streams after `before`, by creation time, then by name, both descending."""


class RetentionStore(Protocol):
    """Deletion of old rows. Each call is one small transaction, and raises StoreFailed if it cannot be committed."""

    async def prune(
        self, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
    ) -> Pruned:
        """Delete about `limit` jobs that ended before `before`, oldest first, beginning after `after`.

        All rows of a job are deleted with it, its log streams included. The children of an array are deleted with it,
        before its own row. Three kinds of jobs are never deleted: those in `keep`, dependencies of unfinished jobs,
        and the newest job of all.
        """

    async def deleted_log_ids(self, limit: int, *, after: str = "") -> tuple[str, ...]:
        """Log ids of deleted jobs whose files may still exist; each is listed until `mark_deleted`."""

    async def mark_deleted(self, log_ids: Sequence[str]) -> None:
        """Remove these log ids from the list: their files have been deleted."""

    async def prune_shares(self, before: datetime, *, after: ShareKey | None = None, limit: int) -> ShareKey | None:
        """Delete the usage of shares without active jobs that last changed before `before`.

        Examines `limit` shares after `after`. Returns where the next call continues; None at the end.
        """

    async def merge_spending(self, before: date, *, limit: int) -> int:
        """Add the spending of days before `before` to that of the first day of their month; about `limit` rows.

        Returns the number of rows that were merged; 0 when there are no more.
        """
