"""The rows that somebody reaches, in their order: those of each owner and account are walked by an index, and merged.

So what is listed costs what is there for the one who lists it, however much others have.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Literal

from batchq.domain.people import Reach
from batchq.store import rows

Row = tuple[Any, ...]
Whose = tuple[Literal["owner", "account"], str]
"""A column, and what stands in it."""


def whose(reach: Reach) -> list[Whose]:
    return [("owner", rows.text(reach.user)), *(("account", rows.text(it)) for it in sorted(reach.accounts))]


def merged(walks: Iterable[Iterable[Row]], *, key: Callable[[Row], Any], reverse: bool = False) -> Iterator[Row]:
    """The rows of several walks, each in the order of `key`: all of them in that order, each once."""
    for _, same in groupby(heapq.merge(*walks, key=key, reverse=reverse), key=key):
        yield next(same)
