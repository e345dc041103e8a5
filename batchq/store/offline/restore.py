"""A backup in the place of the data. Decision 0016.

What stood there is kept beside it, under a dated name. Killed at any moment, the data is the old or the new one.
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
    """Which instance the data is now, that of the backup and that of what stood there, and where the latter is kept."""

    instance: str
    instance_of_backup: str
    instance_before: str | None
    kept: Path | None


def restore(file: Path, data: Path, *, now: datetime, take_over: bool) -> Restored:
    """Raises StoreRefused while a server has the data, and for a backup that is not whole.

    In another directory than its own a backup becomes a new instance: the containers of its own may have a server.
    `take_over`: it remains what it was.
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
    """Accept a directory that was copied or moved as a backup of itself; the answer is its instance.

    Raises StoreRefused as `restore` does.
    """
    with locked(data) as lock:
        check(data / NAME)
        _, instance = _made_ready(data / NAME, data / NAME, now, remains=lambda _: True)
        lock.note(instance)
    return instance


def _made_ready(part: Path, file: Path, now: datetime, *, remains: Callable[[str], bool]) -> tuple[str, str]:
    """Of the newest schema, readable in every row, and marked, so that the next server knows what it takes up.

    The answer is the instance that it was, and that it is.
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
    """Under a second name: the first is about to be another's. What its server wrote beside it is moved in first."""
    kept = database.with_name(f"{NAME}.before-{now:%Y%m%dT%H%M%S%fZ}")
    there = database.exists()
    if there and _is_one_file(database):
        kept.hardlink_to(database)
    elif there:
        database.replace(kept)
    for each in ("-wal", "-shm"):  # with another database they would be read as its own
        beside = database.with_name(database.name + each)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + each))
    return kept if there else None


def _is_one_file(database: Path) -> bool:
    """Make it so; false if it is too damaged. Who has it open would take the backup's files for its own: none may."""
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"{database} cannot be replaced: {why}") from why
    except sqlite3.Error:
        return False
    return True
