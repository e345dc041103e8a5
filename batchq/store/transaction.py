"""All of it or nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Begin(StrEnum):
    """One that is going to write says so at once: SQLite lets it wait for its turn then, and never later."""

    READING = "BEGIN"
    WRITING = "BEGIN IMMEDIATE"


@contextmanager
def transaction(connection: sqlite3.Connection, begin: Begin) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # It failed. After a full disk SQLite itself has rolled back.
            connection.execute("ROLLBACK")
