"""SQL statements by name: in a file under `sql/` each statement follows a line `-- name_of_the_statement`."""

import pkgutil
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from operator import itemgetter

_NAME = re.compile(r"^-- (\w+)\n", re.MULTILINE)
_PLACE = re.compile(r":(\w+)")

Row = Mapping[str, str | int | None]


def named(file: str) -> Mapping[str, str]:
    """The statements of a file under `sql/` by their names."""
    _, *parts = _NAME.split(_text(file))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def each(connection: sqlite3.Connection, statement: str, told: Sequence[Row]) -> int:
    """Execute the statement for each row. Returns the number of changed rows.

    Named parameters are converted to positional ones: sqlite3 takes as long to look up the names for each row as to
    write the row.
    """
    if not told:  # a unit of work writes nothing to most tables
        return 0
    placed, names = _placed(statement)
    return connection.executemany(placed, [names(row) for row in told]).rowcount


def migrations() -> Mapping[int, str]:
    """The script of each version of the schema, by its number: `0001_schema.sql` makes version 1."""
    steps = sorted(it.name for it in files("batchq.store").joinpath("sql").iterdir() if it.name[0].isdigit())
    return {int(name.partition("_")[0]): _text(name) for name in steps}


def split(script: str) -> Iterator[str]:
    """The statements of a script, to be executed one by one: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@cache
def _placed(statement: str) -> tuple[str, Callable[[Row], tuple[str | int | None, ...]]]:
    """The statement with positional parameters, and a function that takes their values from a row in this order.

    The statement must have at least two parameters, because `itemgetter` returns a tuple only then.
    """
    return _PLACE.sub("?", statement), itemgetter(*_PLACE.findall(statement))


def _text(file: str) -> str:
    text = pkgutil.get_data("batchq.store", f"sql/{file}")
    assert text is not None, f"sql/{file} was not installed"
    return text.decode()
