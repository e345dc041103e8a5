"""The integrity of the database: checks before it is used, and the clean-shutdown marker that postpones the slow one.

After a clean shutdown, SQLite's integrity check is skipped at the next start, and runs in the background while the
database is in use. Decision 0028.
"""

import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from batchq import __version__
from batchq.errors import StoreRefused
from batchq.store import statements
from batchq.store.lock import DataLock
from batchq.store.log_files import sync

log = logging.getLogger(__name__)

CHECK_DELAY = 10.0  # seconds after a start, when its peak of work is over
_STOP_TIMEOUT = 2.0  # seconds to wait for the thread of the background check, which polls its end
_PROGRESS_INTERVAL = 10_000  # instructions of SQLite's virtual machine between two polls
_TICK, _MAX_TICKS = 0.001, 50  # seconds; the clocks of file systems advance at least every 4 ms


# ------------------------------------------------------------------------------------------------------ before the use


def prepare(
    connection: sqlite3.Connection,
    *,
    path: Path,
    expected: str | None,
    skip_check: bool = False,
    keep_earlier: bool = True,
) -> str:
    """Validate the database, migrate it to the newest schema, and return its instance. Raises StoreRefused.

    A refused database is not changed. `skip_check`: the last shutdown was clean, so the integrity check is skipped.
    `keep_earlier`: a copy of a database with an earlier schema is kept beside it.
    """
    require_intact(connection, path, expected, skip_check=skip_check)
    path.chmod(0o600)
    _checkpoint(connection, path)
    _configure(connection, path)
    if keep_earlier and 0 < (schema := statements.schema_version(connection)) < statements.newest_schema():
        _keep_copy(connection, path, schema)
    statements.migrate(connection, statements.MIGRATIONS)
    connection.execute("INSERT OR REPLACE INTO metadata (name, value) VALUES ('version', ?)", (__version__,))
    return _get_or_create(connection, "instance", secrets.token_hex(4))


def copy_path(path: Path, schema: int) -> Path:
    """The file that keeps a database as it was before the upgrade from this version of the schema."""
    return path.with_name(f"{path.name}.schema-{schema}")


def _keep_copy(connection: sqlite3.Connection, path: Path, schema: int) -> None:
    """Copy the database before its upgrade. Raises StoreRefused if the copy cannot be written."""
    copy = copy_path(path, schema)
    new = copy.with_name(f"{copy.name}.new")
    try:
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        connection.execute("VACUUM INTO ?", (str(new),))
        with new.open("rb+") as written:  # not the database: a copy that SQLite has closed
            os.fsync(written.fileno())
        new.replace(copy)
        sync(copy.parent)
    except (OSError, sqlite3.Error) as why:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise StoreRefused(f"{path} cannot be copied to {copy} before its upgrade: {why}") from why
    log.info("%s is a copy of the database before its upgrade; the older batchq can restore this file", copy)


def require_intact(
    connection: sqlite3.Connection, path: Path, expected: str | None, *, skip_check: bool = False
) -> None:
    """Raises StoreRefused unless this is an undamaged database of batchq with a known schema.

    `expected`: the instance that the directory should have; None: the database may be new. `skip_check`: skip the
    integrity check.
    """
    try:
        new = _is_new(connection)
        damage = None if skip_check else quick_check(connection)
    except sqlite3.DatabaseError as why:
        if isinstance(why, sqlite3.OperationalError):
            raise StoreRefused(f"cannot open {path}: {why}") from why
        raise StoreRefused(f"{path} is damaged, or not a database: {why}") from why
    if new and expected is not None:
        raise StoreRefused(
            f"{path} is missing or empty, but {path.parent} contained the data of instance {expected}: "
            f"restore the file, or remove batchq.lock to start with an empty database"
        )
    if not new and statements.application_id(connection) != statements.APPLICATION_ID:
        raise StoreRefused(f"{path} is the database of another program")
    if statements.schema_version(connection) > statements.newest_schema():
        raise StoreRefused(
            f"{path} was written by a newer batchq{_writer(connection)}: use that version, or a backup from before it"
            f" ({copy_path(path, statements.newest_schema()).name} is one, if it exists)"
        )
    if damage is not None:
        raise StoreRefused(f"{path} is damaged: {damage}")


def quick_check(connection: sqlite3.Connection) -> str | None:
    """The first error that SQLite's quick check finds; None if there is none. Reads the whole database."""
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if result == "ok" else str(result)


def accept_invalid_utf8(connection: sqlite3.Connection) -> None:
    """Let sqlite3 return texts with invalid UTF-8 instead of raising, so that the row of a damaged value is known."""
    connection.text_factory = _decode


def new_instance(connection: sqlite3.Connection) -> str:
    """Give the data a new instance. Containers of the old instance no longer belong to it."""
    instance = secrets.token_hex(4)
    connection.execute("UPDATE metadata SET value = ? WHERE name = 'instance'", (instance,))
    return instance


def secret(connection: sqlite3.Connection) -> bytes:
    """32 random bytes, chosen at the first call and never sent to a client."""
    return bytes.fromhex(_get_or_create(connection, "secret", secrets.token_hex(32)))


def _writer(connection: sqlite3.Connection) -> str:
    """The version of batchq that last opened the database, after a space; empty if it is not known."""
    with suppress(sqlite3.DatabaseError):
        row = connection.execute("SELECT value FROM metadata WHERE name = 'version'").fetchone()
        return "" if row is None else f" {row[0]}"
    return ""


def _decode(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def _is_new(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return tables == 0 and statements.application_id(connection) == 0


def _configure(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreRefused(f"{path} is on a file system that does not support SQLite's write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _checkpoint(connection: sqlite3.Connection, path: Path) -> None:
    """Checkpoint the write-ahead log, so that everything that recovery read from it is durable before it is used."""
    try:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"cannot checkpoint {path}: {why}") from why
    if busy:
        log.warning("%s: checkpoint postponed: another program is reading the database", path)


def _get_or_create(connection: sqlite3.Connection, name: str, value: str) -> str:
    """The stored value of `name`; at the first call, `value` is stored."""
    connection.execute("INSERT OR IGNORE INTO metadata (name, value) VALUES (?, ?)", (name, value))
    (stored,) = connection.execute("SELECT value FROM metadata WHERE name = ?", (name,)).fetchone()
    return str(stored)


# ----------------------------------------------------------------------------------------------- after a clean shutdown


class CleanShutdownMarker:
    """The marker in the lock file. It is absent while the database is open, and after an unclean shutdown.

    It has the inode, size and times of the database file. If they are unchanged, the file has not been written since
    the shutdown.
    """

    def __init__(self, lock: DataLock, path: Path) -> None:
        self._lock = lock
        self._path = path
        self._inode: int | None = None

    def remove(self) -> bool:
        """Remove the marker. Returns whether there was one and the database file is unchanged since."""
        valid = self._lock.marker is not None and self._lock.marker == self._fingerprint()
        if self._lock.instance is not None:
            self._lock.write(self._lock.instance)
        return valid

    def record_open(self) -> None:
        """Record that the database was opened and is undamaged."""
        self._inode = self._path.stat().st_ino

    def withhold(self) -> None:
        """Write no marker at the shutdown: the database is damaged, or its integrity is unknown."""
        self._inode = None

    def write(self) -> None:
        """Write the marker, after the database was closed, if its file is still the one that was opened.

        If that fails, the next start runs the integrity check first.
        """
        with suppress(OSError):
            if self._lock.instance is not None and self._inode is not None and self._clock_advances():
                self._lock.write(self._lock.instance, self._fingerprint())

    def _fingerprint(self) -> str | None:
        """The inode, size and times of the file, which any change of it changes too.

        None if the file does not exist, or a write-ahead log is beside it.
        """
        if self._path.with_name(f"{self._path.name}-wal").exists():
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def _clock_advances(self) -> bool:
        """Wait until the file system's clock has advanced since the last change.

        A change in the same tick of that clock would not change the file's times. Returns False if the file was
        replaced, or the clock did not advance in time.
        """
        for _ in range(_MAX_TICKS):
            status = self._path.stat()
            if status.st_ino != self._inode or self._lock.touch() > status.st_ctime_ns:
                return status.st_ino == self._inode
            time.sleep(_TICK)
        return False


class BackgroundCheck:
    """Runs the integrity check in its own thread, through its own connection."""

    def __init__(self, path: Path, *, delay: float, on_failure: Callable[[], None]) -> None:
        """`delay`: in seconds. `on_failure` is called if damage is found, or if the check fails."""
        #: The first error found; None before that.
        self.damage: str | None = None
        self._path = path
        self._delay = delay
        self._on_failure = on_failure
        self._stopped = Event()

    def run(self) -> None:
        if self._stopped.wait(self._delay):
            return
        try:
            self.damage = self._check()
        except sqlite3.OperationalError as why:
            if self._stopped.is_set():
                return
            log.warning("%s: integrity check failed, and is repeated at the next start: %s", self._path, why)
            self._on_failure()
        except sqlite3.DatabaseError as why:
            self.damage = str(why)
        if self.damage is not None:
            self._on_failure()

    def stop(self) -> None:
        self._stopped.set()

    def _check(self) -> str | None:
        uri = f"{self._path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.set_progress_handler(self._stopped.is_set, _PROGRESS_INTERVAL)
            return quick_check(connection)


@contextmanager
def background_check(path: Path, delay: float, *, on_failure: Callable[[], None]) -> Iterator[BackgroundCheck]:
    """Run the check `delay` seconds later; it is stopped, complete or not, when the context is left."""
    check = BackgroundCheck(path, delay=delay, on_failure=on_failure)
    thread = Thread(target=check.run, name="integrity-check", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        check.stop()
        thread.join(_STOP_TIMEOUT)
