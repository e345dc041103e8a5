"""Transactions on a synchronous SQLite connection."""

import sqlite3
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Begin(StrEnum):
    """How a transaction begins.

    WRITING takes the write lock at once: SQLite's busy timeout applies then, but not when a read transaction is
    upgraded later.
    """

    READING = "BEGIN"
    WRITING = "BEGIN IMMEDIATE"


def carry_out(begin: Begin, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """Call `work` in a transaction: commit it and return the result, or roll it back and raise the error."""
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # false after SQLite has rolled back by itself, as it does on a full disk
            connection.execute("ROLLBACK")
    return done
