"""The SQL, by name: each statement of a file under `sql/` stands below a line `-- its_name`."""

import pkgutil
import re
import sqlite3
from collections.abc import Iterator, Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- (\w+)\n", re.MULTILINE)


def named(file: str) -> Mapping[str, str]:
    _, *parts = _NAME.split(_text(file))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def migrations() -> Mapping[int, str]:
    """Every step of the schema by its number: `0001_first.sql` is the first."""
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


def _text(file: str) -> str:
    text = pkgutil.get_data("batchq.store", f"sql/{file}")
    assert text is not None, f"sql/{file} was not installed"
    return text.decode()
