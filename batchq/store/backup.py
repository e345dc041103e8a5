"""The backup of a database, its restore, and the check of both files. Decision 0016.

The backup is a consistent copy, with or without a running server, by SQLite's backup API on a read-only connection. The
files of an open database must not be opened by other means: closing them would drop SQLite's locks.

A restore keeps the old database beside the new one, under a name with a date. If the process is killed at any point,
the data directory has either the old database or the new one, and the next restore or server removes what is left.

The check is SQLite's integrity check, and a read of every row as batchq reads it. Rows are read in pages, so that a
running server can checkpoint its write-ahead log in between; only SQLite's own check holds a snapshot for long.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from batchq.domain.enums import Status
from batchq.errors import BatchqError, StoreFailed, StoreRefused
from batchq.ports.jobs import Restoration
from batchq.store import catalog, history, integrity, job_writes, rows, statements
from batchq.store.database import NAME
from batchq.store.lock import locked_data
from batchq.store.log_files import sync
from batchq.store.replaced import BESIDE, PART, part_prefix, recover, remove_interrupted_restore, replace_database
from batchq.store.statements import Begin, load_statements, run_transaction

SQL = load_statements("check.sql")
PAGE = 1000  # rows
WITH_SERVER = "mode=ro"
WITHOUT_SERVER = "immutable=1"  # takes no lock, and so creates no -wal and -shm files
READ_BUSY_TIMEOUT = 5.0  # seconds
MAX_PROBLEMS = 20  # reported problems of each kind

_VALUES: dict[str, Decoder[Any]] = {
    "job_definitions": rows.DEFINITION,
    "consumable_resource_updates": rows.CONSUMABLE_UPDATE,
    "job_groups": rows.GROUP,
}


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
        remove_interrupted_restore(data / NAME)
        check_file(file)
        own = None if lock.is_copy else lock.instance
        with temporary_file(data / NAME) as part:
            copy(file, part)
            backup, instance = _prepare_restored(part, file, now, keeps_instance=lambda text: take_over or text == own)
            before, kept = lock.instance, replace_database(data / NAME, part, now)
            sync(data)
        lock.write_restored(instance, data)
    return Restored(instance=instance, instance_of_backup=backup, instance_before=before, kept=kept)


def take_over(data: Path, *, now: datetime) -> str:
    """Accept a copied or moved directory as a backup of itself. Returns its instance.

    Raises StoreRefused as `restore_backup` does.
    """
    with locked_data(data) as lock:
        remove_interrupted_restore(data / NAME)
        if (data / NAME).is_file():
            recover(data / NAME)
        check_file(data / NAME)
        _, instance = _prepare_restored(data / NAME, data / NAME, now, keeps_instance=lambda _: True)
        lock.write_restored(instance, data)
    return instance


def _prepare_restored(
    part: Path, file: Path, now: datetime, *, keeps_instance: Callable[[str], bool]
) -> tuple[str, str]:
    """Prepare a copy: migrate it, check every row, and mark it as restored, so that the next server uses safe mode.

    `keeps_instance`: whether an instance is kept. Returns the instance before and after.
    """
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        try:
            instance = integrity.prepare(connection, path=part, expected=None, keep_earlier=part == file)
            after = instance if keeps_instance(instance) else integrity.new_instance(connection)
            problems = report(connection).problems
            run_transaction(Begin.WRITING, lambda connection: _mark_restored(connection, now), connection)
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot restore {file}: {why}") from why
    if problems:
        raise StoreRefused(f"{file} is damaged: {problems[0]}")
    return instance, after


def _mark_restored(connection: Connection, now: datetime) -> None:
    job_writes.put_restoration(connection, Restoration(at=now))
    history.skip_numbers(connection)


@contextmanager
def temporary_file(file: Path) -> Iterator[Path]:
    """An empty temporary file beside `file`, readable only by this user.

    The caller renames it to `file` once it is complete; otherwise it is deleted when the context is left.
    """
    if not file.parent.is_dir():
        raise StoreRefused(f"{file.parent} is not a directory")
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=part_prefix(file), suffix=PART)
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
    finally:
        for each in (part, *(part.with_name(part.name + text) for text in BESIDE)):
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


# ----------------------------------------------------------------------------------------------------------- the check


class Report(Struct, frozen=True, kw_only=True):
    """The result of a check."""

    #: The version of the schema.
    schema: int
    instance: str | None
    #: The number of jobs by status.
    jobs: dict[Status, int]
    #: At most MAX_PROBLEMS of each kind; empty if the database is undamaged.
    problems: tuple[str, ...]


def check_file(path: Path) -> Report:
    """Check a database file. Raises StoreRefused if it is not batchq's, is damaged, or has a newer schema."""
    with read_only_connection(path) as connection:
        integrity.require_intact(connection, path, None)
        if statements.schema_version(connection) == 0:
            raise StoreRefused(f"{path} is empty: no batchq server has used it")
        try:
            return report(connection)
        except sqlite3.Error as why:
            raise StoreRefused(f"{path} is damaged: {why}") from why


def report(connection: Connection) -> Report:
    """Check an open database. With an older schema, rows are not read; a migration must come first."""
    schema = statements.schema_version(connection)
    instance = connection.execute(SQL["instance"]).fetchone()
    kinds = [
        _structure,
        _references,
        *((_jobs, _history, _streams, _values) if schema == statements.newest_schema() else ()),
    ]
    return Report(
        schema=schema,
        instance=None if instance is None else str(instance[0]),
        jobs={Status(status): count for status, count in connection.execute(SQL["count_by_status"])},
        problems=tuple(problem for kind in kinds for problem in islice(kind(connection), MAX_PROBLEMS)),
    )


@contextmanager
def read_only_connection(path: Path, access: str = WITH_SERVER) -> Iterator[Connection]:
    """A read-only connection, which does not even checkpoint the write-ahead log. Raises StoreRefused.

    `access`: WITH_SERVER or WITHOUT_SERVER.
    """
    if not path.is_file():
        raise StoreRefused(f"{path} does not exist")
    if not os.access(path, os.R_OK):  # SQLite's error would not name the cause
        raise StoreRefused(f"cannot open {path}: Permission denied")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{access}", uri=True, isolation_level=None, timeout=READ_BUSY_TIMEOUT
        )
    except sqlite3.Error as why:
        raise StoreRefused(f"cannot open {path}: {why}") from why
    with closing(connection):
        yield connection


def _structure(connection: Connection) -> Iterator[str]:
    found = connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")
    return (str(error) for (error,) in found if error != "ok")


def _references(connection: Connection) -> Iterator[str]:
    for table, number, parent in connection.execute(SQL["broken_references"]):
        yield f"row {number} of {table} refers to a missing row of {parent}"


def _jobs(connection: Connection) -> Iterator[str]:
    for _, state, spec, status, *candidate in _pages(connection, "jobs_by_page"):
        yield from _unreadable(f"job {candidate[0]}", _job, state, spec, status, candidate)


def _job(state: str, spec: str | None, status: str, candidate: rows.CandidateRow) -> None:
    if spec is None:
        raise ValueError("its specification is missing")
    read, found = rows.job(state, spec), rows.candidate_of_row(candidate)
    if (read.id, read.sequence, read.status) != (found.job_id, found.sequence, status):
        raise ValueError(f"its columns are those of {found.job_id}, {found.sequence}, {status}")


def _history(connection: Connection) -> Iterator[str]:
    """Check the history entries, in pages that correspond to pages of jobs."""
    after = -1
    while sequences := [row[0] for row in _page(connection, "jobs_by_page", after)]:
        parameters = {"after": after, "last": sequences[-1]}
        for _, job_id, value in connection.execute(SQL["history_by_page"], parameters).fetchall():
            yield from _unreadable(f"the history of job {job_id}", rows.history_entry_of_row, job_id, value)
        after = sequences[-1]


def _streams(connection: Connection) -> Iterator[str]:
    for _, name, value in _pages(connection, "streams_by_page"):
        yield from _unreadable(f"log stream {name}", rows.log_stream_of_row, name, value)


def _values(connection: Connection) -> Iterator[str]:
    for kind, decoder in rows.RESOURCES.items():
        for name, value in connection.execute(catalog.SQL["resources"], {"kind": kind.__name__}).fetchall():
            yield from _unreadable(f"{kind.__name__} {name}", decoder.decode, value)
    for table, decoder in _VALUES.items():
        for (value,) in connection.execute(f"SELECT value FROM {table}").fetchall():  # noqa: S608 - names of this module only
            yield from _unreadable(f"a row of {table}", decoder.decode, value)


def _unreadable(name: str, read: Callable[..., object], *found: object) -> Iterator[str]:
    try:
        read(*found)
    except (ValueError, TypeError, KeyError, BatchqError) as why:
        yield f"{name} is unreadable: {str(why).splitlines()[0]}"


def _pages(connection: Connection, statement: str) -> Iterable[Any]:
    """All rows, sorted by the first column, read a page at a time."""
    after = -1
    while page := _page(connection, statement, after):
        yield from page
        after = page[-1][0]


def _page(connection: Connection, statement: str, after: int) -> list[Any]:
    return connection.execute(SQL[statement], {"after": after, "limit": PAGE}).fetchall()
