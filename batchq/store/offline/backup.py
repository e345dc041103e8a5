"""The backup, a consistent copy of the database with or without a running server, and its restore. Decision 0016.

The backup uses SQLite's backup API on a read-only connection. The files of an open database must not be opened by other
means: closing them would drop SQLite's locks.

A restore keeps the old database beside the new one, under a name with a date. If the process is killed at any point,
the data directory has either the old database or the new one.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from batchq.errors import StoreFailed, StoreRefused
from batchq.ports.jobs import Restoration
from batchq.store import history, integrity, job_writes
from batchq.store.database import NAME
from batchq.store.lock import locked_data
from batchq.store.log_files import sync
from batchq.store.offline.check import check_file, read_only_connection, report
from batchq.store.statements import Begin, run_transaction

_BUSY_TIMEOUT = 1.0  # seconds


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore."""

    #: The instance of the data from now on.
    instance: str
    instance_of_backup: str
    #: The instance of the replaced data; None if there was none.
    instance_before: str | None
    #: The path of the replaced database; None if there was none.
    kept: Path | None


def back_up(data: Path, file: Path, *, force: bool) -> None:
    """Write a backup of `data` to `file`, atomically. Raises StoreRefused; StoreFailed.

    It contains every job that was acknowledged before the call. The server is not blocked meanwhile, but cannot
    checkpoint its write-ahead log, which grows. `force`: replace an existing file.
    """
    if file.resolve().is_relative_to(data.resolve()):
        raise StoreRefused(f"{file} is inside {data}: a backup must be outside of the data directory")
    if file.exists() and not force:
        raise StoreRefused(f"{file} exists; --force replaces it")
    with temporary_file(file) as part:
        copy(data / NAME, part)
        part.replace(file)
        sync(file.parent)


def restore_backup(file: Path, data: Path, *, now: datetime, take_over: bool) -> Restored:
    """Replace the database of `data` by the backup `file`.

    In another directory than its own, the backup becomes a new instance, because another server may own the containers
    of the original one. `take_over`: the instance of the backup is kept. Raises StoreRefused while a server has the
    data, and for a damaged backup.
    """
    with locked_data(data) as lock:
        check_file(file)
        own = None if lock.is_copy else lock.instance
        with temporary_file(data / NAME) as part:
            copy(file, part)
            backup, instance = _prepare_restored(part, file, now, keeps_instance=lambda it: take_over or it == own)
            before, kept = lock.instance, _keep_replaced(data / NAME, now)
            part.replace(data / NAME)
            sync(data)
        lock.write(instance)
    return Restored(instance=instance, instance_of_backup=backup, instance_before=before, kept=kept)


def take_over(data: Path, *, now: datetime) -> str:
    """Accept a copied or moved directory as a backup of itself. Returns its instance.

    Raises StoreRefused as `restore_backup` does.
    """
    with locked_data(data) as lock:
        check_file(data / NAME)
        _, instance = _prepare_restored(data / NAME, data / NAME, now, keeps_instance=lambda _: True)
        lock.write(instance)
    return instance


def _prepare_restored(
    part: Path, file: Path, now: datetime, *, keeps_instance: Callable[[str], bool]
) -> tuple[str, str]:
    """Prepare a copy: migrate it, check every row, and mark it as restored, so that the next server uses safe mode.

    `keeps_instance`: whether an instance is kept. Returns the instance before and after.
    """
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        try:
            instance = integrity.prepare(connection, path=part, expected=None)
            after = instance if keeps_instance(instance) else integrity.new_instance(connection)
            problems = report(connection).problems
            run_transaction(Begin.WRITING, lambda it: _mark_restored(it, now), connection)
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot restore {file}: {why}") from why
    if problems:
        raise StoreRefused(f"{file} is damaged: {problems[0]}")
    return instance, after


def _mark_restored(connection: sqlite3.Connection, now: datetime) -> None:
    job_writes.put_restoration(connection, Restoration(at=now))
    history.skip_numbers(connection)


def _keep_replaced(database: Path, now: datetime) -> Path | None:
    """Give the old database a second name, because the first one is about to be replaced. Returns the second name.

    Its write-ahead log is merged into it first; if that is not possible, the files beside it are renamed too. None if
    there is no database.
    """
    kept = database.with_name(f"{NAME}.before-{now:%Y%m%dT%H%M%S%fZ}")
    exists = database.exists()
    if exists and _merge_wal(database):
        kept.hardlink_to(database)
    elif exists:
        database.replace(kept)
    for each in ("-wal", "-shm"):  # SQLite would apply them to the new database
        beside = database.with_name(database.name + each)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + each))
    return kept if exists else None


def _merge_wal(database: Path) -> bool:
    """Merge the write-ahead log into the database file. Returns False if the database is too damaged.

    Raises StoreRefused if another process has the database open, because it would confuse the files of the two.
    """
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=_BUSY_TIMEOUT)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"{database} cannot be replaced: {why}") from why
    except sqlite3.Error:
        return False
    return True


@contextmanager
def temporary_file(file: Path) -> Iterator[Path]:
    """An empty temporary file beside `file`, readable only by this user.

    The caller renames it to `file` once it is complete; otherwise it is deleted when the context is left.
    """
    if not file.parent.is_dir():
        raise StoreRefused(f"{file.parent} is not a directory")
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".part")
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
    finally:
        for each in (part, *(part.with_name(part.name + it) for it in ("-journal", "-wal", "-shm"))):
            each.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    """Copy a database into one file without a write-ahead log, and check the copy. Raises StoreRefused; StoreFailed."""
    with read_only_connection(source) as original, closing(sqlite3.connect(target, isolation_level=None)) as new:
        try:
            original.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # moves everything into the one file
            (result,) = new.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as why:
            raise StoreFailed(f"cannot copy {source}: {why}") from why
    if result != "ok":
        raise StoreFailed(f"{source} is damaged: {result}")
