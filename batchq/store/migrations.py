"""The schema, from whatever this data has to the newest: forward only, each step whole or not at all."""

import logging
import sqlite3
from collections.abc import Mapping
from datetime import timedelta

from msgspec import convert

from batchq.store import rows
from batchq.store.statements import migrations, split
from batchq.store.transaction import Begin, carry_out

# "btch": by it a file is known to be ours, and not some other program's SQLite database.
APPLICATION_ID = 0x62746368

log = logging.getLogger(__name__)

STEPS = migrations()
NEWEST = max(STEPS)


def version(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "user_version")


def application(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "application_id")


def migrate(connection: sqlite3.Connection, steps: Mapping[int, str]) -> None:
    connection.create_function("microseconds", 1, _microseconds, deterministic=True)
    before = version(connection)
    for number in range(before + 1, max(steps) + 1):
        _take(connection, number, steps[number])
        if before:
            log.info("the schema of the database is upgraded from %d to %d", number - 1, number)


def _take(connection: sqlite3.Connection, number: int, step: str) -> None:
    def work(it: sqlite3.Connection) -> None:
        for statement in split(step):
            it.execute(statement)
        it.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        it.execute(f"PRAGMA user_version = {number}")

    carry_out(Begin.WRITING, work, connection)


def _microseconds(written: str | None) -> int | None:
    """Of a span of time as JSON has it, `PT1M`. For steps that make a column of it."""
    return None if written is None else rows.integer(rows.span(convert(written, timedelta)))


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
