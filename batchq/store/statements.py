"""The SQL files of the store: named statements, migrations of the schema, and their execution in transactions.

In a file under `sql/` each statement follows a line `-- name_of_the_statement`. Version N of the schema is made by
`sql/000N_*.sql` from version N - 1, forward only, each in one transaction. SQLite stores the version in `user_version`.
"""

import logging
import pkgutil
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import TypeVar

log = logging.getLogger(__name__)

#: "btch", stored in `application_id`: distinguishes a database of batchq from those of other programs.
APPLICATION_ID = 0x62746368

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


def execute_each(connection: sqlite3.Connection, statement: str, rows: Iterable[Row]) -> int:
    """Execute the statement for each row. Returns the number of changed rows.

    Named parameters are converted to positional ones: sqlite3 takes as long to look up the names for each row as to
    write the row.
    """
    positional, values_of = _positional(statement)
    return connection.executemany(positional, map(values_of, rows)).rowcount


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


# ---------------------------------------------------------------------------------------------------------- migrations


def migration_scripts() -> Mapping[int, str]:
    """The script of each version of the schema, by its number: `0001_schema.sql` makes version 1."""
    names = sorted(
        traversable.name
        for traversable in files("batchq.store").joinpath("sql").iterdir()
        if traversable.name[0].isdigit()
    )
    return {int(name.partition("_")[0]): _text(name) for name in names}


#: The SQL script of each version.
MIGRATIONS = migration_scripts()


def newest_schema() -> int:
    """The version of the schema that this batchq reads and writes."""
    return max(MIGRATIONS)


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of the schema of this database; 0 for a new one."""
    return _pragma(connection, "user_version")


def application_id(connection: sqlite3.Connection) -> int:
    """The `application_id` of this database; 0 for a new one."""
    return _pragma(connection, "application_id")


def migrate(connection: sqlite3.Connection, steps: Mapping[int, str]) -> None:
    """Bring the schema to the newest version of `steps`. Each version is committed before the next one begins."""
    before = schema_version(connection)
    for number in range(before + 1, max(steps) + 1):
        _migrate_to(connection, number, steps[number])
        if before:
            log.info("database schema upgraded from version %d to %d", number - 1, number)


def _migrate_to(connection: sqlite3.Connection, number: int, step: str) -> None:
    def work(connection: sqlite3.Connection) -> None:
        for statement in split_script(step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")

    run_transaction(Begin.WRITING, work, connection)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def split_script(script: str) -> Iterator[str]:
    """The statements of a script, to be executed one by one: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
