"""The real SQL, run inline in a database in memory: it outlives servers. Commits fail, and servers die around them."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from functools import cache, partial

from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import ComputeEnvironment, ConsumableResource
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.clock_shift import ClockShift
from batchq.errors import Conflict, StoreFailed
from batchq.ports.clock import ClockAnchor
from batchq.ports.jobs import Changes
from batchq.store import bulk_stops, catalog, clock_shift, job_reads, migrations
from batchq.store.sqlite_store import SqliteStore
from batchq.store.transaction import Begin, carry_out
from tests.simulation.dice import Dice, Spoilt
from tests.simulation.life import Life
from tests.simulation.oracles import Witness
from tests.support.builders import NOON


def nothing():
    """There is nobody to tell."""


@cache
def _blank() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrations.migrate(connection, migrations.STEPS)
    return connection.serialize()


def disk() -> sqlite3.Connection:
    """What stays when servers go."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_blank())
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


class Inline:
    """What `store.database.Database` is, for one server's life and without threads.

    A write fails before it began, or in the middle of its transaction. There is none that was committed and whose
    caller was told it failed: SQLite says so only of what it has rolled back. The caller may be dead, though.
    """

    instance = "simulated"

    def __init__(self, connection: sqlite3.Connection, *, life: Life, dice: Dice) -> None:
        self._connection = connection
        self._life = life
        self._dice = dice

    async def write(self, work, *, then: Callable[[], None] = nothing, changes: Changes | None = None):
        await asyncio.sleep(self._dice.store.choice([0, 0, 0.002, 0.02]))
        await self._life.point("before", "a commit", changes)
        done = self._run(partial(self._whole, partial(self._perhaps, work)))
        then()
        await self._life.point("after", "a commit", changes)
        await asyncio.sleep(0)
        await self._life.point("after", "a commit", changes)
        return done

    async def read(self, work):
        await asyncio.sleep(0)
        await self._life.point("before", "a read")
        if self._dice.store.random() < self._dice.luck.unread:
            raise StoreFailed("disk I/O error")
        return self._run(work)

    browse = read

    def look(self, work):
        """A read of the simulation itself: no fault befalls it."""
        return self._run(work)

    async def check(self):
        """It is never gone."""

    def _perhaps(self, work, connection):
        spoilt = self._dice.spoils()
        if spoilt is Spoilt.FULL:
            raise sqlite3.OperationalError(spoilt)
        done = work(connection)
        if spoilt is Spoilt.CROSSED:
            raise sqlite3.IntegrityError(spoilt)
        if spoilt is not None:
            raise sqlite3.OperationalError(spoilt)
        return done

    def _whole(self, work, connection):
        return carry_out(Begin.WRITING, work, connection)

    def _run(self, work):
        """A read needs no transaction: it is not interrupted here."""
        try:
            return work(self._connection)
        except sqlite3.IntegrityError as why:
            raise Conflict(str(why)) from why
        except (sqlite3.Error, ValueError, OverflowError) as why:
            raise StoreFailed(str(why)) from why


class WatchedStore(SqliteStore):
    """The witness is told of what is durable in the moment it is, before anybody else can know.

    `look` is called before each commit.
    """

    def __init__(self, database: Inline, witness: Witness) -> None:
        super().__init__(database)
        self._witness = witness
        self.look: Callable[[], None] = nothing

    async def commit(self, changes: Changes) -> None:
        self.look()
        await self._database.write(
            lambda it: bulk_stops.commit(it, changes), then=lambda: self._witness.committed(changes), changes=changes
        )

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        skew, ids = anchor.booted_at - NOON, list(self._witness.jobs)
        await self._database.write(
            lambda it: clock_shift.put(it, anchor, shift),
            then=lambda: self._witness.shifted(skew, self.stored(ids)),
        )

    def stored(self, ids: list[JobId]) -> Mapping[JobId, Job]:
        """As a read, for the oracles: it fails never and takes no time."""
        return self._database.look(lambda it: job_reads.find(it, ids, None))

    async def damaged(self) -> tuple[JobId, ...]:
        """No row is damaged here; not to ask keeps the worlds of the seeds as they were."""
        return ()

    async def put_environment(self, environment: ComputeEnvironment, *, caller: Caller | None) -> None:
        await self._database.write(
            lambda it: catalog.put_environment(it, environment), then=lambda: self._witness.ledger.resized(environment)
        )

    async def put_consumable(self, resource: ConsumableResource, *, caller: Caller | None) -> None:
        await self._database.write(
            lambda it: catalog.put_consumable(it, resource), then=lambda: self._witness.ledger.stocked(resource)
        )
