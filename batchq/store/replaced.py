"""Replaces a database by a restored one, and removes what an interrupted replacement leaves.

The replaced database gets a second name, and then the restored one is renamed to the first name. If the process is
killed in between, the old database has both names. A database in use must have one name, because SQLite finds its
write-ahead log by the name.
"""

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from batchq.errors import StoreRefused

MERGE_BUSY_TIMEOUT = 1.0  # seconds
PART = ".part"
BESIDE = ("-journal", "-wal", "-shm")  # files of SQLite beside a database


def part_prefix(file: Path) -> str:
    """The prefix of the names of temporary files that become `file`. These names end with PART."""
    return f".{file.name}."


def remove_interrupted_restore(database: Path) -> None:
    """Remove what an interrupted restore has left: its temporary files, and a second name of the database.

    Call it with the lock of the data directory held, before the database is opened.
    """
    for each in database.parent.glob(f"{part_prefix(database)}*{PART}*"):
        each.unlink(missing_ok=True)
    for kept in database.parent.glob(f"{database.name}.before-*"):
        if database.exists() and kept.samefile(database):
            kept.unlink()


def replace_database(database: Path, part: Path, now: datetime) -> Path | None:
    """Rename `part` to `database`. Returns the new path of the replaced database; None if there was none.

    The write-ahead log of the replaced database is merged into it first. If the database is too damaged for that, its
    write-ahead log is renamed with it. Raises StoreRefused if another process has the database open.
    """
    kept = database.with_name(f"{database.name}.before-{now:%Y%m%dT%H%M%S%fZ}")
    exists = database.exists()
    if exists and _merge_wal(database):
        kept.hardlink_to(database)
    elif exists:
        database.replace(kept)
    for each in ("-wal", "-shm"):  # SQLite would apply them to the new database
        beside = database.with_name(database.name + each)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + each))
    try:
        part.replace(database)
    except OSError:
        remove_interrupted_restore(database)
        raise
    return kept if exists else None


def recover(database: Path) -> None:
    """Roll back the transaction of a killed process, which a read-only connection cannot do. Damage is ignored."""
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=MERGE_BUSY_TIMEOUT)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        return  # the check of the file that follows reports the error


def _merge_wal(database: Path) -> bool:
    """Merge the write-ahead log into the database file. Returns False if the database is too damaged.

    Raises StoreRefused if another process has the database open, because it would confuse the files of the two.
    """
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=MERGE_BUSY_TIMEOUT)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"{database} cannot be replaced: {why}") from why
    except sqlite3.Error:
        return False
    return True
