"""A copy of the database as it is in one moment, beside its server or without one. Decision 0016.

SQLite makes it, by a read-only connection of the process that asks: nothing else may open the files of a database that
a server has open.
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
AT_REST = "immutable=1"  # without a lock, and so without the files beside the database that a lock takes


def back_up(data: Path, file: Path, *, force: bool) -> None:
    """Every job that was acknowledged before this began is in it. Whole or not there. Raises StoreRefused, StoreFailed.

    While it is read nothing waits for it; but the server's log of writes grows, for so long.
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
    """An empty file, nobody else's to read, that becomes that one when it is whole, or is gone."""
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
    """Into one file that is whole by itself, and durable."""
    with looked_at(source) as found, _made(target) as made:
        try:
            found.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")  # which needs no second file beside it
            (first,) = made.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as why:
            raise StoreFailed(f"cannot copy {source}: {why}") from why
    if first != "ok":
        raise StoreFailed(f"{source} is damaged: {first}")


@contextmanager
def looked_at(path: Path, how: str = BESIDE_A_SERVER) -> Iterator[sqlite3.Connection]:
    """A connection that writes nothing, not even what a server left in its log of writes. Raises StoreRefused."""
    if not path.is_file():
        raise StoreRefused(f"there is no {path}")
    if not os.access(path, os.R_OK):  # SQLite does not say that it is this
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
