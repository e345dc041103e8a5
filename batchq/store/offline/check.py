"""The check of a database or a backup: SQLite's integrity check, and every row as batchq reads it.

Rows are read in pages, so that a running server can checkpoint its write-ahead log in between; only SQLite's own check
holds a snapshot for long on a large database.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from batchq.domain.job import Status
from batchq.errors import BatchqError, StoreRefused
from batchq.store import integrity, migrations, rows
from batchq.store.offline.backup import looked_at
from batchq.store.statements import named

SQL = named("check.sql")
PAGE = 1000
MOST_TOLD = 20  # reported problems of each kind

_VALUES: dict[str, Decoder[Any]] = {
    "compute_environments": rows.ENVIRONMENT,
    "job_queues": rows.QUEUE,
    "job_definitions": rows.DEFINITION,
    "scheduling_policies": rows.POLICY,
    "consumable_resources": rows.CONSUMABLE,
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
    #: At most MOST_TOLD of each kind; empty if the database is undamaged.
    problems: tuple[str, ...]


def check(path: Path) -> Report:
    """Check a database file. Raises StoreRefused if it is not batchq's, is damaged, or has a newer schema."""
    with looked_at(path) as connection:
        integrity.examine(connection, path, None)
        if migrations.version(connection) == 0:
            raise StoreRefused(f"{path} holds nothing: batchq never wrote to it")
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
        problems=tuple(problem for kind in kinds for problem in islice(kind(connection), MOST_TOLD)),
    )


def _structure(connection: Connection) -> Iterator[str]:
    found = connection.execute(f"PRAGMA integrity_check({MOST_TOLD})")
    return (str(said) for (said,) in found if said != "ok")


def _references(connection: Connection) -> Iterator[str]:
    for table, number, parent in connection.execute(SQL["broken_references"]):
        yield f"row {number} of {table} belongs to a row of {parent} that is not there"


def _jobs(connection: Connection) -> Iterator[str]:
    for _, state, spec, status, *candidate in _pages(connection, "jobs_by_page"):
        yield from _unreadable(f"job {candidate[0]}", _job, state, spec, status, candidate)


def _job(state: str, spec: str | None, status: str, candidate: rows.CandidateRow) -> None:
    if spec is None:
        raise ValueError("what was asked for is not there")
    read, found = rows.job(state, spec), rows.candidate(candidate)
    if (read.id, read.order, read.status) != (found.job_id, found.order, status):
        raise ValueError(f"its columns are those of {found.job_id}, {found.order}, {status}")


def _history(connection: Connection) -> Iterator[str]:
    """Check the history entries, in pages that correspond to pages of jobs."""
    after = -1
    while orders := [row[0] for row in _page(connection, "jobs_by_page", after)]:
        asked = {"after": after, "last": orders[-1]}
        for _, job_id, value in connection.execute(SQL["history_by_page"], asked).fetchall():
            yield from _unreadable(f"the history of job {job_id}", rows.moment, job_id, value)
        after = orders[-1]


def _streams(connection: Connection) -> Iterator[str]:
    for _, name, value in _pages(connection, "streams_by_page"):
        yield from _unreadable(f"log stream {name}", rows.stream, name, value)


def _values(connection: Connection) -> Iterator[str]:
    for table, decoder in _VALUES.items():
        for (value,) in connection.execute(f"SELECT value FROM {table}").fetchall():  # noqa: S608 - names of this module only
            yield from _unreadable(f"a row of {table}", decoder.decode, value)


def _unreadable(what: str, read: Callable[..., object], *found: object) -> Iterator[str]:
    try:
        read(*found)
    except (ValueError, TypeError, KeyError, BatchqError) as why:
        yield f"{what} cannot be read: {str(why).splitlines()[0]}"


def _pages(connection: Connection, statement: str) -> Iterable[Any]:
    """All rows, sorted by the first column, read a page at a time."""
    after = -1
    while page := _page(connection, statement, after):
        yield from page
        after = page[-1][0]


def _page(connection: Connection, statement: str, after: int) -> list[Any]:
    return connection.execute(SQL[statement], {"after": after, "limit": PAGE}).fetchall()
