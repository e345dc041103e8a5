"""The product's store on a database in memory that outlives servers. Commits fail, or are followed by a crash."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial

from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.deadlines import ClockShift
from batchq.errors import StoreFailed
from batchq.ports.catalog import CatalogResource
from batchq.ports.clock import ClockAnchor
from batchq.ports.jobs import Changes
from batchq.store import catalog, clock_shift, job_reads, job_writes
from batchq.store.sqlite_store import SqliteStore
from batchq.store.statements import Begin, run_transaction
from tests.simulation.choices import Choices, TransactionFault
from tests.simulation.invariants import Invariants
from tests.simulation.lifetime import Lifetime
from tests.support.builders import NOON
from tests.support.inline import InlineDatabase


def nothing():
    """Do nothing."""


class FaultyDatabase(InlineDatabase):
    """The database of one server, from its start to its death.

    A write fails before it began, or within its transaction. A committed write is never reported as failed, because
    SQLite reports only what it has rolled back; but the server may be killed before it gets the reply.
    """

    instance = "simulated"

    def __init__(self, connection: sqlite3.Connection, *, lifetime: Lifetime, choices: Choices) -> None:
        super().__init__(connection)
        self._lifetime = lifetime
        self._choices = choices

    async def write(self, work, *, then: Callable[[], None] = nothing, changes: Changes | None = None):
        await asyncio.sleep(self._choices.store.choice([0, 0, 0.002, 0.02]))
        await self._lifetime.fault_point("before", "a commit", changes)
        done = self._run(partial(run_transaction, Begin.WRITING, partial(self._may_fail, work)))
        then()
        await self._lifetime.fault_point("after", "a commit", changes)
        await asyncio.sleep(0)
        await self._lifetime.fault_point("after", "a commit", changes)
        return done

    async def read(self, work):
        await asyncio.sleep(0)
        await self._lifetime.fault_point("before", "a read")
        if self._choices.store.random() < self._choices.luck.failed_reads:
            raise StoreFailed("disk I/O error")
        return self._run(work)

    browse = read

    def inspect(self, work):
        """A read by the simulation itself, without faults."""
        return self._run(work)

    def _may_fail(self, work, connection):
        transaction_fault = self._choices.transaction_fault()
        if transaction_fault is TransactionFault.FULL:
            raise sqlite3.OperationalError(transaction_fault)
        done = work(connection)
        if transaction_fault is TransactionFault.CONFLICT:
            raise sqlite3.IntegrityError(transaction_fault)
        if transaction_fault is not None:
            raise sqlite3.OperationalError(transaction_fault)
        return done


class ObservedStore(SqliteStore):
    """Passes each commit to the invariants before any other task runs. `before_commit` is called before each commit."""

    def __init__(self, database: FaultyDatabase, invariants: Invariants) -> None:
        super().__init__(database)
        self._invariants = invariants
        self.before_commit: Callable[[], None] = nothing

    async def commit(self, changes: Changes) -> int | None:
        self.before_commit()
        first_number = await self._database.write(
            lambda value: job_writes.commit_changes(value, changes),
            then=lambda: self._committed(changes),
            changes=changes,
        )
        self._invariants.history.check_numbers(first_number, changes)
        return first_number

    def _committed(self, changes: Changes) -> None:
        self._invariants.committed(changes)
        self._database.inspect(lambda connection: self._invariants.rows.written(connection, changes))

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        skew, ids = anchor.booted_at - NOON, list(self._invariants.jobs)
        await self._database.write(
            lambda value: clock_shift.put_anchor(value, anchor, shift),
            then=lambda: self._invariants.shifted(skew, self.stored(ids)),
        )

    def stored(self, ids: list[JobId]) -> Mapping[JobId, Job]:
        """The stored jobs, for the invariants: without faults or delay."""
        return self._database.inspect(lambda value: job_reads.find_jobs(value, ids))

    async def damaged(self) -> tuple[JobId, ...]:
        """No row is damaged in a simulation."""
        return ()

    async def put_resource(self, resource: CatalogResource, *, caller: Caller | None) -> None:
        await self._database.write(
            lambda value: catalog.put_resource(value, resource),
            then=lambda: self._invariants.catalog_changed(resource.name, resource),
        )

    async def drop_resource(self, kind: type[CatalogResource], name: str, *, caller: Caller | None) -> None:
        await self._database.write(
            lambda value: catalog.drop_resource(value, kind, name),
            then=lambda: self._invariants.catalog_changed(name, None),
        )
