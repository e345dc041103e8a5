"""All of it or nothing."""

import sqlite3
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Begin(StrEnum):
    """One that is going to write says so at once: SQLite lets it wait for its turn then, and never later."""

    READING = "BEGIN"
    WRITING = "BEGIN IMMEDIATE"


def carry_out(begin: Begin, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # It failed. After a full disk SQLite itself has rolled back.
            connection.execute("ROLLBACK")
    return done
