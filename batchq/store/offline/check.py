"""The check of a database or a backup: SQLite's integrity check, and every row as batchq reads it.

Rows are read in pages, so that a running server can checkpoint its write-ahead log in between; only SQLite's own check
holds a snapshot for long on a large database.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from batchq.domain.job import Status
from batchq.errors import BatchqError, StoreRefused
from batchq.store import catalog, integrity, migrations, rows
from batchq.store.statements import load_statements

SQL = load_statements("check.sql")
PAGE = 1000  # rows
WITH_SERVER = "mode=ro"
WITHOUT_SERVER = "immutable=1"  # takes no lock, and so creates no -wal and -shm files
_BUSY_TIMEOUT = 5.0  # seconds
MAX_PROBLEMS = 20  # reported problems of each kind

_VALUES: dict[str, Decoder[Any]] = {
    "job_definitions": rows.DEFINITION,
    "consumable_resource_updates": rows.CONSUMABLE_UPDATE,
}

Connection = sqlite3.Connection


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
        if migrations.version(connection) == 0:
            raise StoreRefused(f"{path} is empty: no batchq server has used it")
        try:
            return report(connection)
        except sqlite3.Error as why:
            raise StoreRefused(f"{path} is damaged: {why}") from why


def report(connection: Connection) -> Report:
    """Check an open database. With an older schema, rows are not read; a migration must come first."""
    schema = migrations.version(connection)
    instance = connection.execute(SQL["instance"]).fetchone()
    kinds = [_structure, _references, *((_jobs, _history, _streams, _values) if schema == migrations.newest() else ())]
    return Report(
        schema=schema,
        instance=None if instance is None else str(instance[0]),
        jobs={Status(status): count for status, count in connection.execute(SQL["count_by_status"])},
        problems=tuple(problem for kind in kinds for problem in islice(kind(connection), MAX_PROBLEMS)),
    )


@contextmanager
def read_only_connection(path: Path, access: str = WITH_SERVER) -> Iterator[sqlite3.Connection]:
    """A read-only connection, which does not even checkpoint the write-ahead log. Raises StoreRefused.

    `access`: WITH_SERVER or WITHOUT_SERVER.
    """
    if not path.is_file():
        raise StoreRefused(f"{path} does not exist")
    if not os.access(path, os.R_OK):  # SQLite's error would not name the cause
        raise StoreRefused(f"cannot open {path}: Permission denied")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{access}", uri=True, isolation_level=None, timeout=_BUSY_TIMEOUT
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
    if (read.id, read.order, read.status) != (found.job_id, found.order, status):
        raise ValueError(f"its columns are those of {found.job_id}, {found.order}, {status}")


def _history(connection: Connection) -> Iterator[str]:
    """Check the history entries, in pages that correspond to pages of jobs."""
    after = -1
    while orders := [row[0] for row in _page(connection, "jobs_by_page", after)]:
        parameters = {"after": after, "last": orders[-1]}
        for _, job_id, value in connection.execute(SQL["history_by_page"], parameters).fetchall():
            yield from _unreadable(f"the history of job {job_id}", rows.history_entry_of_row, job_id, value)
        after = orders[-1]


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
