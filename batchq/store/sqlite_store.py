"""The SQLite store: implements the storage ports on one database, durable through crashes and power failures."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from batchq.domain.access.accounts import AccountName, Caller, Owner, Visibility
from batchq.domain.access.audit import AuditQuery, PendingAudit, StoredAudit, audit_record_of_change
from batchq.domain.budgets import Budget
from batchq.domain.bulk_stop import BulkStop, JobFilter, Preview, StopTarget, Target
from batchq.domain.catalog import ConsumableResource, ConsumableUpdate, JobDefinition
from batchq.domain.explanation.facts import Place
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.job_counts import JobGroup
from batchq.domain.lifecycle.clock_shift import ClockShift
from batchq.domain.scheduling.capacity import Candidate
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.catalog import CatalogResource, NeedQuery, R
from batchq.ports.clock import ClockAnchor
from batchq.ports.costs import SpendingKey, SpendingPage, SpendingQuery
from batchq.ports.history import FeedEnds, FeedFilter, FeedPage, HistoryEntry
from batchq.ports.job_search import JobPage, JobSearchQuery
from batchq.ports.jobs import (
    Age,
    Changes,
    ChildQuery,
    ChildRun,
    Failures,
    Finished,
    JobQuery,
    Pruned,
    Restoration,
    SubmissionKey,
    WaitingQuery,
)
from batchq.ports.logs import LogStream
from batchq.ports.queue import NONE, Names, Rank, WaitingJob
from batchq.store import (
    audit,
    bulk_stops,
    catalog,
    clock_shift,
    costs,
    history,
    integrity,
    job_reads,
    job_search,
    lists,
    quarantine,
    retention,
)
from batchq.store.database import Database, open_database
from batchq.store.quarantine import Work, with_repair

T = TypeVar("T")


class SqliteStore:
    """JobStore, CatalogStore, RetentionStore and AuditStore on SQLite."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: The permanent name of this data: eight hexadecimal digits.
        self.instance = database.instance

    @classmethod
    async def open(cls, data: Path, *, reserve: int = 0, min_free: int = 0) -> "SqliteStore":
        """Open the store of a data directory, or create it; it is locked until it is closed. Raises StoreRefused.

        `reserve` bytes of disk space are reserved for its writes, if `min_free` bytes remain free besides.
        """
        return cls(await open_database(data, reserve=reserve, min_free=min_free))

    async def close(self) -> None:
        """Close the store after all transactions that have begun."""
        await self._database.close()

    def announce(self, url: str) -> None:
        """Note the URL where the server listens, for the error of another server that finds the data locked."""
        self._database.announce(url)

    async def secret(self) -> bytes:
        """32 permanent random bytes of this data, which protect page tokens against forgery."""
        return await self._database.write(integrity.secret)

    async def check(self) -> None:
        """Raises StoreFailed if the database does not respond; StoreLost if its file was removed or replaced."""
        await self._database.check()

    @property
    def reserve_trouble(self) -> str | None:
        """The text for /healthz if reserved disk space is missing; else None."""
        return self._database.reserve_trouble

    def size(self) -> int:
        """The bytes of the database and its write-ahead log."""
        return self._database.size()

    async def quarantined_values(self) -> int:
        """The number of quarantined column values."""
        return await self._database.read(quarantine.quarantined_count)

    # ---------------------------------------------------------------------------------------------------------- jobs

    async def commit(self, changes: Changes) -> int | None:
        return await self._database.write(lambda it: bulk_stops.commit_with_bulk_stops(it, changes))

    async def jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None = None) -> Mapping[JobId, Job]:
        return await self._read(lambda it: job_reads.find_jobs(it, ids, visibility))

    async def active(self) -> tuple[Job, ...]:
        return await self._read(job_reads.active)

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, excluding: Names = NONE
    ) -> tuple[Candidate, ...]:
        return await self._read(lambda it: job_reads.runnable_candidates(it, queue, limit, after, excluding))

    async def runnable_in_share(
        self, queue: QueueName, share: str, limit: int, after: Rank | None = None, *, excluding: Names = NONE
    ) -> tuple[Candidate, ...]:
        key = ShareKey(queue, share)
        return await self._read(lambda it: job_reads.runnable_in_share(it, key, limit, after, excluding))

    async def waiting_shares(self, queue: QueueName) -> tuple[str, ...]:
        return await self._read(lambda it: job_reads.waiting_shares(it, queue))

    async def unschedulable(self, limit: int, after: int = -1) -> tuple[Job, ...]:
        return await self._read(lambda it: job_reads.unschedulable(it, limit, after))

    async def dependents(self, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None) -> tuple[Job, ...]:
        return await self._read(lambda it: job_reads.dependents(it, ids, after, limit))

    async def ended_dependencies(self) -> tuple[JobId, ...]:
        return await self._read(job_reads.ended_dependencies)

    async def unfinished_counts(self) -> Mapping[JobGroup, int]:
        return await self._read(job_reads.unfinished_counts)

    async def oldest_runnable(self, queues: Collection[QueueName]) -> Mapping[QueueName, datetime]:
        """Since when the first RUNNABLE job of each queue has been RUNNABLE; queues without one are omitted."""
        return await self._browse(lambda it: job_reads.oldest_runnable(it, queues))

    async def waiting_for_others(self) -> int:
        return await self._read(job_reads.waiting_for_others)

    async def arrays_with_work(self) -> tuple[Job, ...]:
        return await self._read(job_reads.arrays_with_work)

    async def children(self, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
        return await self._read(lambda it: job_reads.children(it, parent, first, limit))

    async def places(self, jobs: Sequence[WaitingJob]) -> Mapping[JobId, Place]:
        return await self._search(lambda it: job_reads.places(it, jobs))

    async def queued(self) -> Mapping[AccountName, int]:
        return await self._read(job_reads.queued)

    async def shares(self) -> Mapping[ShareKey, ShareUse]:
        return await self._read(job_reads.shares)

    async def used_up(self) -> Mapping[ConsumableName, int]:
        return await self._read(job_reads.used_up)

    async def clock_anchor(self) -> ClockAnchor | None:
        return await self._database.read(clock_shift.anchor)

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        await self._database.write(lambda it: clock_shift.put_anchor(it, anchor, shift))

    async def restoration(self) -> Restoration:
        return await self._database.read(job_reads.restoration)

    async def engine_id(self) -> str | None:
        return await self._database.read(job_reads.engine_id)

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        return await self._read(lambda it: job_reads.submissions(it, keys))

    async def last_order(self) -> int:
        return await self._read(job_reads.last_order)

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        return await self._browse(lambda it: lists.read_job_page(it, query))

    async def search(self, query: JobSearchQuery) -> JobPage:
        return await self._search(lambda it: job_search.search_page(it, query))

    async def failures(self, since: datetime, *, visibility: Visibility | None) -> Failures:
        return await self._search(lambda it: job_reads.failures(it, since, visibility))

    async def oldest_visible_runnable(self, queries: Collection[WaitingQuery]) -> Mapping[QueueName, datetime]:
        return await self._search(lambda it: job_reads.oldest_visible_runnable(it, queries))

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        return await self._browse(lambda it: lists.list_children(it, query))

    async def child_runs(self, parent: JobId) -> tuple[ChildRun, ...]:
        return await self._browse(lambda it: lists.child_runs(it, parent))

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        return await self._browse(lambda it: lists.list_jobs_requiring(it, query))

    async def unfinished_in(self, queue: QueueName) -> int:
        return await self._browse(lambda it: lists.count_unfinished(it, queue))

    async def damaged(self) -> tuple[JobId, ...]:
        return await self._read(quarantine.unfinished_jobs)

    async def prune(
        self, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
    ) -> Pruned:
        write = self._database.write
        return await with_repair(write, lambda it: retention.prune(it, before, keep, after, limit), write=write)

    async def deleted_log_ids(self, limit: int) -> tuple[str, ...]:
        return await self._database.read(lambda it: retention.deleted_log_ids(it, limit))

    async def mark_deleted(self, log_ids: Sequence[str]) -> None:
        await self._database.write(lambda it: retention.mark_deleted(it, log_ids))

    async def prune_shares(self, before: datetime, *, after: ShareKey | None = None, limit: int) -> ShareKey | None:
        return await self._database.write(lambda it: retention.prune_shares(it, before, after, limit))

    async def merge_spending(self, before: date, *, limit: int) -> int:
        return await self._database.write(lambda it: costs.merge_days(it, before, limit))

    async def bulk_stops(self) -> tuple[BulkStop, ...]:
        return await self._read(bulk_stops.unfinished)

    async def target_ranges(self, number: int) -> Sequence[tuple[int, int]]:
        return await self._read(lambda it: bulk_stops.target_ranges(it, number))

    async def next_targets(self, number: int, limit: int) -> tuple[StopTarget, ...]:
        return await self._read(lambda it: bulk_stops.next_targets(it, number, limit))

    async def candidates(self, selection: JobFilter) -> tuple[Target, ...]:
        return await self._browse(lambda it: bulk_stops.candidates(it, selection))

    async def preview(
        self, selection: JobFilter, limit: int, after: tuple[int, int | None] | None = None
    ) -> tuple[Preview, ...]:
        return await self._browse(lambda it: bulk_stops.preview(it, selection, limit, after))

    async def budgets(self) -> tuple[Budget, ...]:
        return await self._read(costs.budgets)

    async def spending_totals(self, since: date | None) -> Sequence[tuple[SpendingKey, Decimal]]:
        return await self._read(lambda it: costs.totals(it, since))

    async def spending(self, query: SpendingQuery) -> SpendingPage:
        return await self._search(lambda it: costs.spending_page(it, query))

    async def history(self, job_id: JobId) -> tuple[HistoryEntry, ...]:
        return await self._read(lambda it: history.of_job(it, job_id))

    async def feed(self, after: int, wanted: FeedFilter, *, limit: int, scan: int) -> FeedPage:
        return await self._browse(lambda it: history.feed(it, after, wanted, limit, scan))

    async def feed_ends(self) -> FeedEnds:
        return await self._read(history.feed_ends)

    async def stream(self, name: str) -> LogStream | None:
        return await self._read(lambda it: lists.find_stream(it, name))

    async def streams(
        self, *, prefix: str = "", after: str = "", limit: int = 50, visibility: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        return await self._browse(lambda it: lists.streams_by_name(it, prefix, after, limit, visibility))

    async def newest_streams(
        self, *, limit: int = 50, before: Age | None = None, visibility: Visibility | None = None
    ) -> tuple[LogStream, ...]:
        return await self._browse(lambda it: lists.newest_streams(it, limit, before, visibility))

    # ------------------------------------------------------------------------------------------------------- catalog

    async def resources(self, kind: type[R]) -> tuple[R, ...]:
        return await self._read(lambda it: catalog.resources(it, kind))

    async def put_resource(self, resource: CatalogResource, *, caller: Caller | None) -> None:
        about = f"{catalog.AUDIT_NAMES[type(resource)]}/{resource.name}"
        await self._change(about, caller, lambda it: catalog.put_resource(it, resource))

    async def drop_resource(self, kind: type[CatalogResource], name: str, *, caller: Caller | None) -> None:
        about = f"{catalog.AUDIT_NAMES[kind]}/{name}"
        await self._change(about, caller, lambda it: catalog.drop_resource(it, kind, name))

    async def update_consumable(
        self, resource: ConsumableResource, update: ConsumableUpdate, *, forget_before: datetime, caller: Caller | None
    ) -> None:
        await self._change(
            f"consumable-resource/{resource.name}",
            caller,
            lambda it: catalog.update_consumable(it, resource, update, forget_before=forget_before),
        )

    async def consumable_update(self, name: ConsumableName, token: str) -> ConsumableUpdate | None:
        return await self._read(lambda it: catalog.consumable_update(it, name, token))

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        about = f"job-definition/{definition.ref.name}"
        return await self._change(about, caller, lambda it: catalog.add_definition(it, definition))

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        await self._change(
            f"job-definition/{definition.ref}", caller, lambda it: catalog.put_definition(it, definition)
        )

    async def definition(self, ref: DefinitionRef) -> JobDefinition | None:
        return await self._read(lambda it: catalog.definition(it, ref))

    async def newest_active(self, name: str) -> JobDefinition | None:
        return await self._read(lambda it: catalog.newest_active(it, name))

    async def definition_owner(self, name: str) -> Owner | None:
        return await self._read(lambda it: catalog.definition_owner(it, name))

    async def definitions(
        self,
        *,
        name: str | None,
        status: str | None,
        limit: int,
        after: DefinitionRef | None,
        visibility: Visibility | None = None,
    ) -> tuple[JobDefinition, ...]:
        return await self._browse(
            lambda it: catalog.definitions(
                it, name=name, status=status, limit=limit, after=after, visibility=visibility
            )
        )

    async def flag(self, name: str) -> bool:
        return await self._read(lambda it: catalog.flag(it, name))

    async def set_flag(self, name: str) -> None:
        await self._database.write(lambda it: catalog.set_flag(it, name))

    # -------------------------------------------------------------------------------------------------------- audit log

    async def audit_records(self, query: AuditQuery) -> tuple[StoredAudit, ...]:
        return await self._browse(lambda it: audit.newest_records(it, query))

    async def ingest_audit_records(self, noted: Sequence[PendingAudit]) -> None:
        await self._database.write(lambda it: audit.ingest(it, noted))

    async def prune_audit_records(self, before: datetime, *, limit: int) -> int:
        return await self._database.write(lambda it: audit.delete_old(it, before, limit))

    # ----------------------------------------------------------------------------------------------------- transactions

    async def _change(self, about: str, caller: Caller | None, work: Work[T]) -> T:
        """Write the change and the caller's audit record in one transaction."""
        done = audit_record_of_change(about, caller)
        return await self._database.write(work if done is None else lambda it: audit.insert_with(it, done, work))

    async def _read(self, work: Work[T]) -> T:
        return await with_repair(self._database.read, work, write=self._database.write)

    async def _search(self, work: Work[T]) -> T:
        return await with_repair(self._database.search, work, write=self._database.write)

    async def _browse(self, work: Work[T]) -> T:
        return await with_repair(self._database.browse, work, write=self._database.write)
