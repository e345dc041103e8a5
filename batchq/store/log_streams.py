"""Lists of log streams in SQL: by name, and newest first."""

import sqlite3
from collections.abc import Iterable
from itertools import islice
from operator import itemgetter
from typing import Any

from batchq.domain.access.accounts import Visibility
from batchq.ports.jobs import Age
from batchq.ports.logs import LogStream
from batchq.store import rows
from batchq.store.job_lists import merged, whose
from batchq.store.repair import readable
from batchq.store.statements import named

SQL = named("log_streams.sql")

Connection = sqlite3.Connection


def find(connection: Connection, name: str) -> LogStream | None:
    row = connection.execute(SQL["stream"], {"name": rows.text(name)}).fetchone()
    return None if row is None else next(readable([row], rows.stream), None)


def by_name(
    connection: Connection, prefix: str, after: str, limit: int, reach: Visibility | None
) -> tuple[LogStream, ...]:
    start = rows.text(prefix)
    asked = {
        "start": start,
        "beyond": start + rows.BEYOND_LETTERS,
        "after": rows.text(after),
    }
    if reach is None:
        found: Iterable[Any] = connection.execute(SQL["streams_by_name"], asked)
    else:
        walks = [
            connection.execute(SQL[f"streams_by_name_of_{column}"], asked | {column: it}) for column, it in whose(reach)
        ]
        found = merged(walks, key=itemgetter(0))
    return tuple(islice(readable(found, rows.stream), limit))


def newest(connection: Connection, limit: int, before: Age | None, reach: Visibility | None) -> tuple[LogStream, ...]:
    at, name = (rows.GREATEST, "") if before is None else (rows.microseconds(before[0]), rows.text(before[1]))
    asked = {"at": at, "name": name}
    if reach is None:
        found: Iterable[Any] = connection.execute(SQL["newest_streams"], asked)
    else:
        walks = [
            connection.execute(SQL[f"newest_streams_of_{column}"], asked | {column: it}) for column, it in whose(reach)
        ]
        found = (row[:2] for row in merged(walks, key=itemgetter(2, 0), reverse=True))
    return tuple(islice(readable(found, rows.stream), limit))
