"""One SQLite file, asked and told through aiosqlite: a writer and two readers, each with a thread of its own.

A transaction is ONE function, run as a whole in a connection's thread. Nothing is awaited inside it, so a caller that
is cancelled leaves it neither open nor half done: it is carried out, or it never began. Threads take their functions in
turn, so transactions of two callers never mix either.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiosqlite

from batchq.errors import Conflict, StoreFailed, StoreLost, StoreRefused
from batchq.store import integrity
from batchq.store.background_check import AFTER, Rereading, rereading
from batchq.store.clean_shutdown import CleanShutdownMarker
from batchq.store.lock import DataLock, locked, refuse_copy
from batchq.store.reserve import Reserve
from batchq.store.transaction import Begin, carry_out

NAME = "batchq.db"
_BUSY_SECONDS = 5.0

T = TypeVar("T")


class Database:
    """Open, and locked. `instance` names this data for ever."""

    def __init__(
        self,
        *,
        path: Path,
        instance: str,
        writer: aiosqlite.Connection,
        reader: aiosqlite.Connection,
        browser: aiosqlite.Connection,
        beside: Rereading | None,
        reserve: Reserve,
        lock: DataLock,
        held: AsyncExitStack,
    ) -> None:
        """`beside` reads it through, where nobody did before it was opened."""
        self.instance = instance
        self._path = path
        self._file = _identity(path)
        self._writer = writer
        self._reader = reader
        self._browser = browser
        self._beside = beside
        self._reserve = reserve
        self._lock = lock
        self._held = held

    async def close(self) -> None:
        """After what was begun. The lock is let go last."""
        await self._held.aclose()

    def announce(self, url: str) -> None:
        """Note where the server answers, for another one that finds the data locked."""
        self._lock.note(self.instance, url=url)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry it out and make it durable, all or nothing. A caller cancelled meanwhile does not know which.

        On a full disk it is done with what the reserve gives up, and so `work` may be called more than once.
        """
        self._check_file()
        return await _run(self._writer, lambda it: self._reserve.saving(partial(carry_out, Begin.WRITING, work, it)))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """For what is quickly found. It sees one moment, and never waits for a write."""
        return await _run(self._reader, partial(carry_out, Begin.READING, work))

    async def browse(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """For what may take its time: `read` does not wait for it."""
        return await _run(self._browser, partial(carry_out, Begin.READING, work))

    async def check(self) -> None:
        """Raise StoreFailed if it does not answer; StoreLost if it is damaged, or it or a thread of ours is gone."""
        self._check_file()
        if self._beside is not None and self._beside.damage is not None:
            raise StoreLost(f"{self._path} is damaged: {self._beside.damage}")
        if not all(it._thread.is_alive() for it in (self._writer, self._reader, self._browser)):  # noqa: SLF001 - aiosqlite tells it nowhere
            # What is asked of a connection without its thread is never answered, and nobody would know why.
            raise StoreLost(f"a thread of {self._path} has ended")
        await self.read(lambda it: it.execute("SELECT 1").fetchone())
        if self._reserve.trouble is not None:
            await _run(self._writer, lambda _: self._reserve.make())

    @property
    def reserve_trouble(self) -> str | None:
        """How much is missing of the disk space that is reserved for saving job ends; None when nothing is."""
        return self._reserve.trouble

    def _check_file(self) -> None:
        if _identity(self._path) != self._file:
            # SQLite would go on writing, without an error, into a file that nobody will ever find again.
            raise StoreLost(f"{self._path} was removed or replaced while it was in use")


async def opened(data: Path, *, reread_after: float = AFTER, reserve: int = 0, spare: int = 0) -> Database:
    """The database of a data directory, made if there is none. Raises StoreRefused.

    A database that was closed cleanly is not checked before it is used, but so many seconds after. `reserve` bytes of
    the disk are set aside for it, while `spare` bytes stay free beside them.
    """
    path = data / NAME
    reserved = Reserve(data, size=reserve, spare=spare)
    async with AsyncExitStack() as held:
        lock = held.enter_context(locked(data))
        refuse_copy(lock, data)
        try:
            reserved.make_room_to_open()
            seal = CleanShutdownMarker(lock, path)
            whole = seal.broken()
            held.callback(seal.put)
            writer = await held.enter_async_context(_connected(path))
            instance = await _run(writer, partial(integrity.prepare, path=path, expected=lock.instance, whole=whole))
            lock.note(instance)
            seal.opened()
            await _run(writer, lambda _: reserved.make())
            reader, browser = [await held.enter_async_context(_reading(path)) for _ in range(2)]
            beside = None
            if whole:
                read = rereading(path, after=reread_after, doubted=seal.withhold)
                beside = held.enter_context(read)
        except (StoreFailed, OSError) as why:
            raise StoreRefused(f"cannot open {path}: {why}") from why
        return Database(
            path=path,
            instance=instance,
            writer=writer,
            reader=reader,
            browser=browser,
            beside=beside,
            reserve=reserved,
            lock=lock,
            held=held.pop_all(),
        )


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """Closed whatever happens: a connection left open keeps the process from ever ending."""
    try:
        connection = await aiosqlite.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
    except sqlite3.Error as why:
        raise StoreFailed(str(why)) from why
    try:
        await _run(connection, integrity.bear_damage)
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _reading(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    async with _connected(path) as connection:
        await _run(connection, integrity.only_read)
        yield connection


async def _run(connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    try:
        # aiosqlite's public methods are one statement each, and a cancellation between two leaves a transaction open.
        return await connection._execute(work, connection._conn)  # type: ignore[no-any-return, no-untyped-call] # noqa: SLF001
    except sqlite3.IntegrityError as why:
        raise Conflict(str(why)) from why
    except (sqlite3.Error, ValueError, OverflowError) as why:
        # Also a value that no column holds, a row that makes no job, a connection that is closed.
        raise StoreFailed(str(why)) from why


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as why:
        raise StoreFailed(f"{path} cannot be looked at: {why.strerror}") from why
    return found.st_dev, found.st_ino
