"""The backup: a consistent copy of the database, with or without a running server. Decision 0016.

It uses SQLite's backup API on a read-only connection. The files of an open database must not be opened by other means:
closing them would drop SQLite's locks.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from batchq.errors import StoreFailed, StoreRefused
from batchq.store.database import NAME
from batchq.store.log_files import sync

_BUSY_SECONDS = 5.0
BESIDE_A_SERVER = "mode=ro"
AT_REST = "immutable=1"  # takes no lock, and so creates no -wal and -shm files


def back_up(data: Path, file: Path, *, force: bool) -> None:
    """Write a backup of `data` to `file`, atomically. Raises StoreRefused; StoreFailed.

    It contains every job that was acknowledged before the call. The server is not blocked meanwhile, but cannot
    checkpoint its write-ahead log, which grows. `force`: replace an existing file.
    """
    if file.resolve().is_relative_to(data.resolve()):
        raise StoreRefused(f"{file} is inside {data}: what happens to the data would happen to its backup")
    if file.exists() and not force:
        raise StoreRefused(f"{file} is there already; --force replaces it")
    with part_beside(file) as part:
        copy(data / NAME, part)
        part.replace(file)
        sync(file.parent)


@contextmanager
def part_beside(file: Path) -> Iterator[Path]:
    """An empty temporary file beside `file`, readable only by this user.

    The caller renames it to `file` once it is complete; otherwise it is deleted when the context is left.
    """
    if not file.parent.is_dir():
        raise StoreRefused(f"{file.parent} is no directory")
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
    with looked_at(source) as found, _made(target) as made:
        try:
            found.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")  # moves everything into the one file
            (first,) = made.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as why:
            raise StoreFailed(f"cannot copy {source}: {why}") from why
    if first != "ok":
        raise StoreFailed(f"{source} is damaged: {first}")


@contextmanager
def looked_at(path: Path, how: str = BESIDE_A_SERVER) -> Iterator[sqlite3.Connection]:
    """A read-only connection, which does not even checkpoint the write-ahead log. Raises StoreRefused.

    `how`: BESIDE_A_SERVER or AT_REST.
    """
    if not path.is_file():
        raise StoreRefused(f"there is no {path}")
    if not os.access(path, os.R_OK):  # SQLite's error would not name the cause
        raise StoreRefused(f"cannot open {path}: Permission denied")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
        )
    except sqlite3.Error as why:
        raise StoreRefused(f"cannot open {path}: {why}") from why
    with closing(connection):
        yield connection


@contextmanager
def _made(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
