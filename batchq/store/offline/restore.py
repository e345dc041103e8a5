"""The restore of a backup. Decision 0016.

The old database stays beside the new one, under a name with a date. If the process is killed at any point, the data
directory has either the old database or the new one.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from batchq.errors import StoreRefused
from batchq.ports.jobs import Restoration
from batchq.store import integrity, job_writes
from batchq.store.database import NAME
from batchq.store.lock import locked
from batchq.store.log_files import sync
from batchq.store.offline.backup import copy, part_beside
from batchq.store.offline.check import check, report
from batchq.store.transaction import Begin, carry_out

_BUSY_SECONDS = 1.0


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore."""

    #: The instance of the data from now on.
    instance: str
    instance_of_backup: str
    #: The instance of the replaced data; None if there was none.
    instance_before: str | None
    #: The path of the replaced database; None if there was none.
    kept: Path | None


def restore(file: Path, data: Path, *, now: datetime, take_over: bool) -> Restored:
    """Replace the database of `data` by the backup `file`.

    In another directory than its own, the backup becomes a new instance, because another server may own the containers
    of the original one. `take_over`: the instance of the backup is kept. Raises StoreRefused while a server has the
    data, and for a damaged backup.
    """
    with locked(data) as lock:
        check(file)
        own = None if lock.copied else lock.instance
        with part_beside(data / NAME) as part:
            copy(file, part)
            backup, instance = _made_ready(part, file, now, remains=lambda it: take_over or it == own)
            before, kept = lock.instance, _keep(data / NAME, now)
            part.replace(data / NAME)
            sync(data)
        lock.note(instance)
    return Restored(instance=instance, instance_of_backup=backup, instance_before=before, kept=kept)


def take_over(data: Path, *, now: datetime) -> str:
    """Accept a copied or moved directory as a backup of itself. Returns its instance.

    Raises StoreRefused as `restore` does.
    """
    with locked(data) as lock:
        check(data / NAME)
        _, instance = _made_ready(data / NAME, data / NAME, now, remains=lambda _: True)
        lock.note(instance)
    return instance


def _made_ready(part: Path, file: Path, now: datetime, *, remains: Callable[[str], bool]) -> tuple[str, str]:
    """Prepare a copy: migrate it, check every row, and mark it as restored, so that the next server uses safe mode.

    `remains`: whether an instance is kept. Returns the instance before and after.
    """
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        try:
            instance = integrity.prepare(connection, path=part, expected=None)
            after = instance if remains(instance) else integrity.new_instance(connection)
            problems = report(connection).problems
            carry_out(Begin.WRITING, lambda it: job_writes.put_restoration(it, Restoration(at=now)), connection)
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot restore {file}: {why}") from why
    if problems:
        raise StoreRefused(f"{file} is not whole: {problems[0]}")
    return instance, after


def _keep(database: Path, now: datetime) -> Path | None:
    """Give the old database a second name, because the first one is about to be replaced. Returns the second name.

    Its write-ahead log is merged into it first; if that is not possible, the files beside it are renamed too. None if
    there is no database.
    """
    kept = database.with_name(f"{NAME}.before-{now:%Y%m%dT%H%M%S%fZ}")
    there = database.exists()
    if there and _is_one_file(database):
        kept.hardlink_to(database)
    elif there:
        database.replace(kept)
    for each in ("-wal", "-shm"):  # SQLite would apply them to the new database
        beside = database.with_name(database.name + each)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + each))
    return kept if there else None


def _is_one_file(database: Path) -> bool:
    """Merge the write-ahead log into the database file. Returns False if the database is too damaged.

    Raises StoreRefused if another process has the database open, because it would confuse the files of the two.
    """
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"{database} cannot be replaced: {why}") from why
    except sqlite3.Error:
        return False
    return True
