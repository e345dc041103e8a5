"""SQL statements by name, and their execution in transactions on a synchronous connection.

In a file under `sql/` each statement follows a line `-- name_of_the_statement`.
"""

import pkgutil
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import TypeVar

_NAME = re.compile(r"^-- (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r":(\w+)")

Row = Mapping[str, str | int | None]
T = TypeVar("T")


class Begin(StrEnum):
    """How a transaction begins.

    WRITING takes the write lock at once: SQLite's busy timeout applies then, but not when a read transaction is
    upgraded later.
    """

    READING = "BEGIN"
    WRITING = "BEGIN IMMEDIATE"


def run_transaction(begin: Begin, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """Call `work` in a transaction: commit it and return the result, or roll it back and raise the error."""
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # false after SQLite has rolled back by itself, as it does on a full disk
            connection.execute("ROLLBACK")
    return done


def load_statements(file: str) -> Mapping[str, str]:
    """The statements of a file under `sql/` by their names."""
    _, *parts = _NAME.split(_text(file))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def execute_each(connection: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> int:
    """Execute the statement for each row. Returns the number of changed rows.

    Named parameters are converted to positional ones: sqlite3 takes as long to look up the names for each row as to
    write the row.
    """
    if not rows:  # a unit of work writes nothing to most tables
        return 0
    positional, values_of = _positional(statement)
    return connection.executemany(positional, [values_of(row) for row in rows]).rowcount


def migration_scripts() -> Mapping[int, str]:
    """The script of each version of the schema, by its number: `0001_schema.sql` makes version 1."""
    names = sorted(it.name for it in files("batchq.store").joinpath("sql").iterdir() if it.name[0].isdigit())
    return {int(name.partition("_")[0]): _text(name) for name in names}


def split_script(script: str) -> Iterator[str]:
    """The statements of a script, to be executed one by one: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@cache
def _positional(statement: str) -> tuple[str, Callable[[Row], tuple[str | int | None, ...]]]:
    """The statement with positional parameters, and a function that takes their values from a row in this order.

    The statement must have at least two parameters, because `itemgetter` returns a tuple only then.
    """
    return _PARAMETER.sub("?", statement), itemgetter(*_PARAMETER.findall(statement))


def _text(file: str) -> str:
    text = pkgutil.get_data("batchq.store", f"sql/{file}")
    assert text is not None, f"sql/{file} was not installed"
    return text.decode()
