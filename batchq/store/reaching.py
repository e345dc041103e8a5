"""The rows that somebody reaches, in their order: those of each owner and account are walked by an index, and merged.

So what is listed costs what is there for the one who lists it, however much others have.
"""

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from batchq.domain.people import Reach
from batchq.store import rows

Row = tuple[Any, ...]
Bound = Sequence[str | int] | Mapping[str, str | int | None]
Whose = tuple[Literal["owner", "account"], str]
"""A column, and what stands in it."""


def whose(reach: Reach) -> list[Whose]:
    return [("owner", rows.text(reach.user)), *(("account", rows.text(it)) for it in sorted(reach.accounts))]


def merged(
    connection: sqlite3.Connection,
    asked: Iterable[tuple[str, Bound]],
    *,
    key: Callable[[Row], Any],
    reverse: bool = False,
) -> Iterator[Row]:
    """What each statement finds, which is in the order of `key`: of all of them in that order, each once."""
    walks = [connection.execute(*it) for it in asked]
    for _, same in groupby(heapq.merge(*walks, key=key, reverse=reverse), key=key):
        yield next(same)
