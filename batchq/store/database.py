"""The SQLite database, accessed through aiosqlite: a writer and three readers, each with its own thread.

A transaction is ONE function that runs as a whole in a connection's thread. Nothing is awaited inside, so the
cancellation of a caller cannot leave a transaction open: it runs completely, or it never begins. Each thread runs its
functions one after the other, so transactions of two callers never mix. Decision 0006. Users take turns at the threads
of the readers, so that many reads of one user delay a read of another one by two reads. Decision 0032.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from batchq.errors import Conflict, StoreFailed, StoreLost, StoreRefused
from batchq.store import integrity
from batchq.store.integrity import CHECK_DELAY, BackgroundCheck, CleanShutdownMarker, background_check
from batchq.store.lock import DataLock, locked_data, refuse_copy
from batchq.store.replaced import remove_interrupted_restore
from batchq.store.reserve import Reserve
from batchq.store.statements import Begin, run_transaction
from batchq.system.turns import UserTurns

NAME = "batchq.db"
_BUSY_SECONDS = 5.0
MAX_SEARCH_STEPS = 5_000_000  # instructions of SQLite's virtual machine for one transaction of a search
_STEPS_BETWEEN_CALLS = 10_000
#: KiB of the page cache for searches. The longest scan, of 50,000 rows, takes 12.6 ms of CPU; with the default 15.0 ms.
_SEARCH_CACHE = "PRAGMA cache_size = -8192"

T = TypeVar("T")


class StepLimit:
    """A progress handler that interrupts a transaction after MAX_SEARCH_STEPS; it counts anew after that."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self) -> bool:
        self._calls += 1
        if self._calls * _STEPS_BETWEEN_CALLS < MAX_SEARCH_STEPS:
            return False
        self._calls = 0
        return True

    def applied_to(self, work: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
        """`work` with a full allowance of steps."""

        def limited(connection: sqlite3.Connection) -> T:
            self._calls = 0
            return work(connection)

        return limited


class ReadThread:
    """A read-only connection, and the turns of users at its thread."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self._turns = UserTurns()
        #: Of turns whose caller was cancelled.
        self._endings: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction, in the turn of the user. The turn ends when the thread is free."""
        await self._turns.take()
        try:
            outcome = await _run(self.connection, partial(run_transaction, Begin.READING, work))
        except asyncio.CancelledError:  # the thread still runs `work`
            ending = asyncio.create_task(self._end_turn(), name="end of a cancelled read")
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            raise
        except BaseException:
            self._turns.release()
            raise
        self._turns.release()
        return outcome

    async def _end_turn(self) -> None:
        with suppress(StoreFailed):  # the database was closed meanwhile
            await _run(self.connection, lambda _: None)
        self._turns.release()


class Database:
    """An open, locked database."""

    def __init__(
        self,
        *,
        path: Path,
        instance: str,
        writer: aiosqlite.Connection,
        readers: Sequence[aiosqlite.Connection],
        step_limit: StepLimit,
        check: BackgroundCheck | None,
        reserve: Reserve,
        lock: DataLock,
        exit_stack: AsyncExitStack,
    ) -> None:
        """`readers`: three read-only connections: for short reads, for lists, and for searches.

        `step_limit`: the progress handler of the third one. `check`: the background check; None if the database was
        checked before it was opened.
        """
        #: The permanent name of this data: eight hexadecimal digits.
        self.instance = instance
        self._path = path
        self._file = _identity(path)
        self._writer = writer
        self._reader, self._browser, self._searcher = map(ReadThread, readers)
        self._step_limit = step_limit
        self._background_check = check
        self._reserve = reserve
        self._lock = lock
        self._exit_stack = exit_stack

    async def close(self) -> None:
        """Close the connections after all transactions that have begun. The lock is released last."""
        await self._exit_stack.aclose()

    def size(self) -> int:
        """The bytes of the database and its write-ahead log; a missing file counts as 0."""
        return sum(path.stat().st_size for path in (self._path, Path(f"{self._path}-wal")) if path.exists())

    def announce(self, url: str) -> None:
        """Note the URL where the server listens, for the error of another server that finds the data locked."""
        self._lock.write(self.instance, url=url)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> Coroutine[Any, Any, T]:
        """Run `work` in a durable transaction. If the caller is cancelled meanwhile, the outcome is unknown.

        On a full disk, pieces of the reserve are released and the transaction is repeated, so `work` may be called
        more than once.
        """
        self._check_file()
        transaction = partial(run_transaction, Begin.WRITING, work)
        return _run(self._writer, partial(self._reserve.retry_when_full, transaction))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a short read in a transaction: it sees one snapshot and never waits for a write."""
        return await self._reader.run(work)

    async def browse(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a read that may take long, on a connection of its own, so that `read` does not wait for it."""
        return await self._browser.run(work)

    async def search(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `browse`, on a third connection. A statement is interrupted when `work` has taken MAX_SEARCH_STEPS."""
        return await self._searcher.run(self._step_limit.applied_to(work))

    async def check(self) -> None:
        """Raises StoreFailed if the database does not respond; StoreLost if its file or one of its threads is lost.

        StoreLost is also raised if the background check has found damage.
        """
        self._check_file()
        if self._background_check is not None and self._background_check.damage is not None:
            raise StoreLost(f"{self._path} is damaged: {self._background_check.damage}")
        readers = (self._reader, self._browser, self._searcher)
        connections = (self._writer, *(reader.connection for reader in readers))
        if not all(connection._thread.is_alive() for connection in connections):  # noqa: SLF001 - aiosqlite does not expose it
            # A call on a connection without its thread would never return.
            raise StoreLost(f"a thread of {self._path} has ended")
        await self.read(lambda connection: connection.execute("SELECT 1").fetchone())
        if self._reserve.trouble is not None:
            await _run(self._writer, lambda _: self._reserve.allocate())

    @property
    def reserve_trouble(self) -> str | None:
        """The text for /healthz if reserved disk space is missing; else None."""
        return self._reserve.trouble

    def _check_file(self) -> None:
        if _identity(self._path) != self._file:
            # SQLite would continue, without an error, to write into the deleted file.
            raise StoreLost(f"{self._path} was removed or replaced while in use")


async def open_database(data: Path, *, delay: float = CHECK_DELAY, reserve: int = 0, min_free: int = 0) -> Database:
    """Open the database of a data directory, or create it. Raises StoreRefused.

    After a clean shutdown the integrity check runs in the background, `delay` seconds later. `reserve` bytes of
    disk space are reserved, if `min_free` bytes remain free besides.
    """
    path, reserved = data / NAME, Reserve(data, size=reserve, min_free=min_free)
    async with AsyncExitStack() as exit_stack:
        lock = exit_stack.enter_context(locked_data(data))
        refuse_copy(lock, data)
        try:
            remove_interrupted_restore(path)
            reserved.release_for_open()
            marker = CleanShutdownMarker(lock, path)
            was_clean = marker.remove()
            exit_stack.callback(marker.write)
            writer = await exit_stack.enter_async_context(_connect(path))
            prepare = partial(integrity.prepare, path=path, expected=lock.instance, skip_check=was_clean)
            instance = await _run(writer, prepare)
            lock.write(instance)
            marker.record_open()
            await _run(writer, lambda _: reserved.allocate())
            readers = [await exit_stack.enter_async_context(_connect(path, read_only=True)) for _ in range(3)]
            step_limit = await _prepare_searches(readers[-1])
            later = background_check(path, delay, on_failure=marker.withhold) if was_clean else nullcontext()
            check = exit_stack.enter_context(later)
        except (StoreFailed, OSError) as why:
            raise StoreRefused(f"cannot open {path}: {why}") from why
        return Database(
            path=path,
            instance=instance,
            writer=writer,
            readers=readers,
            step_limit=step_limit,
            check=check,
            reserve=reserved,
            lock=lock,
            exit_stack=exit_stack.pop_all(),
        )


@asynccontextmanager
async def _connect(path: Path, *, read_only: bool = False) -> AsyncIterator[aiosqlite.Connection]:
    """A connection that is always closed: the thread of an open connection would keep the process from exiting."""
    try:
        connection = await aiosqlite.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
    except sqlite3.Error as why:
        raise StoreFailed(str(why)) from why
    try:
        await _run(connection, integrity.accept_invalid_utf8)
        if read_only:
            await _run(connection, lambda connection: connection.execute("PRAGMA query_only = ON"))
        yield connection
    finally:
        await connection.close()


async def _prepare_searches(connection: aiosqlite.Connection) -> StepLimit:
    await _run(connection, lambda connection: connection.execute(_SEARCH_CACHE))
    step_limit = StepLimit()
    await connection.set_progress_handler(step_limit, _STEPS_BETWEEN_CALLS)
    return step_limit


async def _run(connection: aiosqlite.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    try:
        # aiosqlite's public methods are one statement each, and a cancellation between two leaves a transaction open.
        return await connection._execute(work, connection._conn)  # type: ignore[no-any-return, no-untyped-call] # noqa: SLF001
    except sqlite3.IntegrityError as why:
        raise Conflict(str(why)) from why
    except (sqlite3.Error, ValueError, OverflowError) as why:
        # Also a value out of a column's range, a row that is not a valid job, and a closed connection.
        raise StoreFailed(str(why)) from why


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as why:
        raise StoreFailed(f"{path} cannot be examined: {why.strerror}") from why
    return found.st_dev, found.st_ino
