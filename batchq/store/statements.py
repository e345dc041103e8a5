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
    _, *parts = _NAME.split(_text(file))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def each(connection: sqlite3.Connection, statement: str, told: Sequence[Row]) -> int:
    """Carry it out for each row; how many rows it changed.

    By place: to look up each name again for each row takes sqlite3 as long as to write the row.
    """
    if not told:  # as a unit of work has nothing to say to most tables
        return 0
    placed, names = _placed(statement)
    return connection.executemany(placed, [names(row) for row in told]).rowcount


def migrations() -> Mapping[int, str]:
    """The script of each version of the schema, by its number: `0001_schema.sql` makes version 1."""
    steps = sorted(it.name for it in files("batchq.store").joinpath("sql").iterdir() if it.name[0].isdigit())
    return {int(name.partition("_")[0]): _text(name) for name in steps}


def split(script: str) -> Iterator[str]:
    """One statement at a time: sqlite3's own `executescript` would commit what is open."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@cache
def _placed(statement: str) -> tuple[str, Callable[[Row], tuple[str | int | None, ...]]]:
    """The statement without the names of its two or more values, and what takes these from a row in its order."""
    return _PLACE.sub("?", statement), itemgetter(*_PLACE.findall(statement))


def _text(file: str) -> str:
    text = pkgutil.get_data("batchq.store", f"sql/{file}")
    assert text is not None, f"sql/{file} was not installed"
    return text.decode()
