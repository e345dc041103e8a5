"""The SQLite store: implements the storage ports on one database, durable through crashes and power failures."""

import sqlite3
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import audit_record_of_change
from batchq.domain.catalog import ConsumableResource, ConsumableUpdate, JobDefinition
from batchq.domain.webhooks import Webhook
from batchq.ports.catalog import CatalogResource, R
from batchq.ports.webhooks import StoredWebhook
from batchq.store import activity as activity_rows
from batchq.store import (
    audit,
    catalog,
    clock_shift,
    costs,
    integrity,
    job_reads,
    job_search,
    job_writes,
    lists,
    quarantine,
    retention,
)
from batchq.store import bulk_stops as stop_rows
from batchq.store import groups as group_rows
from batchq.store import history as history_rows
from batchq.store import webhooks as webhook_rows
from batchq.store.database import Database, open_database
from batchq.store.quarantine import RunsTransaction, Work, with_repair

P = ParamSpec("P")
T = TypeVar("T")

#: A function that runs inside one transaction, and the method of the store that runs it.
Transaction = Callable[Concatenate[sqlite3.Connection, P], T]
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _read(function: Transaction[P, T]) -> Method[P, T]:
    """A short read."""
    return _method(function, lambda database: database.read)


def _browse(function: Transaction[P, T]) -> Method[P, T]:
    """A read that may take longer."""
    return _method(function, lambda database: database.browse)


def _search(function: Transaction[P, T]) -> Method[P, T]:
    """A read that is interrupted after too many steps."""
    return _method(function, lambda database: database.search)


def _method(function: Transaction[P, T], runs: Callable[[Database], RunsTransaction]) -> Method[P, T]:
    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        database = self._database
        return await with_repair(
            runs(database), lambda connection: function(connection, *args, **kwargs), write=database.write
        )

    return method


def _write(function: Transaction[P, T]) -> Method[P, T]:
    """A durable write. It decodes no jobs, so it finds none to be quarantined."""

    def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._database.write(lambda connection: function(connection, *args, **kwargs))

    return method


class SqliteStore:
    """JobStore, CatalogStore, RetentionStore, WebhookStore and AuditStore on SQLite.

    Each method runs the function beside its name in one transaction; the ports document it. If the function finds
    unreadable jobs, they are quarantined and it is called again.
    """

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

    secret = _write(integrity.secret)
    quarantined_values = _read(quarantine.quarantined_count)

    # ---------------------------------------------------------------------------------------------------------- jobs

    commit = _write(job_writes.commit_changes)
    jobs = _read(job_reads.find_jobs)
    reruns = _browse(job_reads.reruns)
    newest_of_lines = _browse(job_reads.newest_of_lines)
    groups = _read(group_rows.find_groups)
    newest_groups = _browse(group_rows.newest_groups)
    waiting_members = _read(group_rows.waiting_members)
    active = _read(job_reads.active)
    runnable = _read(job_reads.runnable_candidates)
    runnable_in_share = _read(job_reads.runnable_in_share)
    waiting_shares = _read(job_reads.waiting_shares)
    unschedulable = _read(job_reads.unschedulable)
    dependents = _read(job_reads.dependents)
    job_facts = _read(job_reads.job_facts)
    ended_dependencies = _read(job_reads.ended_dependencies)
    unfinished_counts = _read(job_reads.unfinished_counts)
    oldest_runnable = _browse(job_reads.oldest_runnable)
    waiting_for_others = _read(job_reads.waiting_for_others)
    arrays_with_work = _read(job_reads.arrays_with_work)
    children = _read(job_reads.children)
    places = _search(job_reads.places)
    placed_jobs = _search(lists.placed_jobs)
    queued = _read(job_reads.queued)
    shares = _read(job_reads.shares)
    used_up = _read(job_reads.used_up)
    clock_anchor = _read(clock_shift.clock_anchor)
    anchor_clock = _write(clock_shift.put_anchor)
    restoration = _read(job_reads.restoration)
    engine_id = _read(job_reads.engine_id)
    last_survey = _read(job_reads.last_survey)
    submissions = _read(job_reads.submissions)
    last_sequence = _read(job_reads.last_sequence)
    list = _browse(job_search.search_page)
    search = _search(job_search.search_page)
    counts = _search(job_search.count_each)
    list_facts = _search(job_search.list_facts)
    overview_facts = _search(job_reads.overview_facts)
    oldest_visible_runnable = _search(job_reads.oldest_visible_runnable)
    child_runs = _browse(lists.child_runs)
    list_needing = _browse(lists.list_jobs_requiring)
    unfinished_in = _browse(lists.count_unfinished)
    damaged = _read(quarantine.unfinished_jobs)
    prune = _write(retention.prune)
    deleted_log_ids = _read(retention.deleted_log_ids)
    mark_deleted = _write(retention.mark_deleted)
    prune_shares = _write(retention.prune_shares)
    merge_spending = _write(costs.merge_days)
    target_ranges = _read(stop_rows.target_ranges)
    next_targets = _read(stop_rows.next_targets)
    candidates = _browse(stop_rows.candidates)
    preview = _browse(stop_rows.preview)
    bulk_stops = _read(stop_rows.unfinished)
    budgets = _read(costs.budgets)
    spending_totals = _read(costs.totals)
    spending = _search(costs.spending_page)
    activity_events = _browse(activity_rows.activity_events)
    record_activity = _write(activity_rows.record)
    activity = _browse(activity_rows.activity)
    environment_activity = _browse(activity_rows.environments)
    feed = _browse(history_rows.feed)
    feed_ends = _read(history_rows.feed_ends)
    history = _read(history_rows.of_job)
    stream = _read(lists.find_stream)
    streams = _browse(lists.streams_by_name)
    newest_streams = _browse(lists.newest_streams)

    # ------------------------------------------------------------------------------------------------------- catalog

    async def resources(self, kind: type[R]) -> tuple[R, ...]:
        return await self._database.read(lambda value: catalog.resources(value, kind))

    async def put_resource(self, resource: CatalogResource, *, caller: Caller | None) -> None:
        about = f"{catalog.AUDIT_NAMES[type(resource)]}/{resource.name}"
        await self._change(about, caller, lambda connection: catalog.put_resource(connection, resource))

    async def drop_resource(self, kind: type[CatalogResource], name: str, *, caller: Caller | None) -> None:
        about = f"{catalog.AUDIT_NAMES[kind]}/{name}"
        await self._change(about, caller, lambda connection: catalog.drop_resource(connection, kind, name))

    async def update_consumable(
        self,
        resource: ConsumableResource,
        update: ConsumableUpdate,
        *,
        forget_before: datetime | None,
        caller: Caller | None,
    ) -> None:
        work = partial(catalog.update_consumable, resource=resource, update=update, forget_before=forget_before)
        await self._change(f"consumable-resource/{resource.name}", caller, work)

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        about = f"job-definition/{definition.ref.name}"
        return await self._change(about, caller, lambda connection: catalog.add_definition(connection, definition))

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        about = f"job-definition/{definition.ref}"
        await self._change(about, caller, lambda connection: catalog.put_definition(connection, definition))

    async def _change(self, about: str, caller: Caller | None, work: Work[T]) -> T:
        """Write the change and the caller's audit record in one transaction."""
        done = audit_record_of_change(about, caller)
        return await self._database.write(
            work if done is None else lambda connection: audit.insert_with(connection, done, work)
        )

    consumable_update = _read(catalog.consumable_update)
    definition = _read(catalog.definition)
    newest_active = _read(catalog.newest_active)
    definition_owner = _read(catalog.definition_owner)
    definitions = _browse(catalog.definitions)
    flag = _read(catalog.flag)
    set_flag = _write(catalog.set_flag)

    # --------------------------------------------------------------------------------------------------------- webhooks

    webhooks = _read(webhook_rows.all_webhooks)
    save_delivery_progress = _write(webhook_rows.save_progress)

    async def put_webhook(self, stored: StoredWebhook, *, caller: Caller | None) -> None:
        about = f"webhook/{stored.webhook.name}"
        await self._change(about, caller, lambda connection: webhook_rows.put_webhook(connection, stored))

    async def delete_webhook(self, webhook: Webhook, *, caller: Caller | None) -> None:
        about = f"webhook/{webhook.name}"
        await self._change(about, caller, lambda connection: webhook_rows.drop_webhook(connection, webhook.id))

    # -------------------------------------------------------------------------------------------------------- audit log

    audit_records = _browse(audit.newest_records)
    ingest_audit_records = _write(audit.ingest)
    prune_audit_records = _write(audit.delete_old)
