"""The product's store and log archive without threads, for tests whose time is virtual.

SQLite runs its statements in memory on the event loop's thread; log files are on tmpfs where there is one. No call
yields to the event loop, so a test's order of events is the same in every run.
"""

import shutil
import sqlite3
import tempfile
import weakref
from contextlib import closing
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

from batchq.errors import Conflict, StoreFailed
from batchq.store import integrity, job_reads, statements
from batchq.store.checkpoint_files import CheckpointFiles
from batchq.store.log_files import LogFiles
from batchq.store.sqlite_store import SqliteStore
from batchq.store.statements import Begin, run_transaction

#: A folder in memory; None: this machine has none, and temporary files are on the disk.
TMPFS = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
#: Databases without rows that were used before.
_emptied: list[sqlite3.Connection] = []
MAX_EMPTIED = 8
MAX_PAGES = 1000  # of 4 KiB; a database does not become smaller

#: Any use raises sqlite3.ProgrammingError.
_CLOSED = sqlite3.connect(":memory:")
_CLOSED.close()


@cache
def _empty() -> sqlite3.Connection:
    """A database of the newest schema without rows, made once: the migrations cost more than most tests."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    statements.migrate(connection, statements.MIGRATIONS)
    return connection


def database_in_memory(source: sqlite3.Connection | None = None) -> sqlite3.Connection:
    """A copy of the database `source`; an empty one of the newest schema if it is None."""
    if source is None and _emptied:
        return _emptied.pop()
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
    (source or _empty()).backup(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    integrity.accept_invalid_utf8(connection)
    return connection


def give_back(connection: sqlite3.Connection) -> None:
    """End the use of a database in memory. The next test has it, without rows, unless its schema has changed.

    Its statements are compiled: in a new connection this takes longer than their execution.
    """
    is_usual = not connection.in_transaction and _schema_of(connection) == _schema_of_copies()
    if not is_usual or len(_emptied) == MAX_EMPTIED or _page_count(connection) > MAX_PAGES:
        connection.close()
        return
    # A table refers to earlier ones only. Without foreign keys, SQLite would compile all statements again.
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC").fetchall()
    for (table,) in tables:
        connection.execute(f"DELETE FROM {table}")
    _emptied.append(connection)


def _schema_of(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA schema_version").fetchone()[0]


@cache
def _schema_of_copies() -> int:
    """SQLite counts the changes of a schema, and a backup as one."""
    with closing(sqlite3.connect(":memory:")) as copy:
        _empty().backup(copy)
        return _schema_of(copy)


def _page_count(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA page_count").fetchone()[0]


class InlineDatabase:
    """Implements `store.database.Database` on the caller's thread.

    While `failing`, each write and each check raises StoreFailed. `connection` is for tests that damage rows.
    """

    instance = "inline"

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self.failing = False
        self.connection = connection or database_in_memory()
        self._is_own = connection is None

    async def write(self, work):
        self._check_writable()
        return self._run(partial(run_transaction, Begin.WRITING, work))

    async def read(self, work):
        """Without a transaction: nothing else runs meanwhile."""
        return self._run(work)

    browse = search = read

    async def check(self):
        self._check_writable()

    async def close(self):
        if self._is_own:
            give_back(self.connection)
        else:
            self.connection.close()
        self.connection, self._is_own = _CLOSED, False

    def _check_writable(self):
        if self.failing:
            raise StoreFailed("no space left on device")

    def _run(self, work):
        try:
            return work(self.connection)
        except sqlite3.IntegrityError as why:
            raise Conflict(str(why)) from why
        except (sqlite3.Error, ValueError, OverflowError) as why:
            raise StoreFailed(str(why)) from why


class InlineStore(SqliteStore):
    """The product's store on an InlineDatabase. While `failing`, each write raises StoreFailed."""

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        super().__init__(InlineDatabase(connection))

    @property
    def connection(self) -> sqlite3.Connection:
        return self._database.connection

    @property
    def failing(self) -> bool:
        return self._database.failing

    @failing.setter
    def failing(self, failing: bool) -> None:
        self._database.failing = failing

    def copy(self) -> "InlineStore":
        """Another store with the same content."""
        return InlineStore(database_in_memory(self.connection))

    def all_jobs(self):
        """Each job by its id, in the order of submission."""
        ids = [job_id for (job_id,) in self.connection.execute("SELECT id FROM jobs ORDER BY sequence")]
        return job_reads.find_jobs(self.connection, ids)

    def rows(self) -> dict[str, list[tuple]]:
        """The content of each table, to compare with the content at another time."""
        tables = self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {name: self.connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}


class InlineLogFiles(LogFiles):
    """The product's log files in a directory of their own. While `failing`, each write raises StoreFailed."""

    def __init__(self) -> None:
        self.failing = False
        self.directory = Path(tempfile.mkdtemp(prefix="batchq-", dir=TMPFS))
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        super().__init__(self.directory)

    async def append(self, log_id, lines):
        self._check_writable()
        return await super().append(log_id, lines)

    async def annotate(self, log_id, line):
        self._check_writable()
        await super().annotate(log_id, line)

    async def _in_thread(self, work, about):
        try:
            return work()
        except OSError as failure:
            raise StoreFailed(f"{about}: {failure}") from failure

    def _check_writable(self):
        if self.failing:
            raise StoreFailed("no space left on device")


class InlineCheckpointFiles(CheckpointFiles):
    """The product's checkpoint files on the caller's thread. While `failing`, each call raises StoreFailed."""

    failing = False

    async def _in_thread(self, threads, work, about):
        if self.failing:
            raise StoreFailed("input/output error")
        try:
            return work()
        except OSError as failure:
            raise StoreFailed(f"{about}: {failure}") from failure


def temporary_checkpoints(now, changed_at=attrgetter("st_mtime_ns"), *, of=InlineCheckpointFiles):
    """Checkpoint files in a directory of their own; by default their times are those that their writer sets."""
    root = Path(tempfile.mkdtemp(prefix="batchq-", dir=TMPFS))
    files = of(root, now=now, changed_at=changed_at)
    weakref.finalize(files, shutil.rmtree, root, ignore_errors=True)
    return files
