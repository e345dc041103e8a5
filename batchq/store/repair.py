"""Rows that cannot be read must not keep those that can from being read.

A job's are put aside and made anew, for somebody has to decide what becomes of it. Any other is passed over where it
stands: what it tells is of its own reader only.
"""

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

from batchq.domain.lifecycle.status import with_history
from batchq.errors import Unreadable
from batchq.store import quarantine, rows

log = logging.getLogger(__name__)

MOST_MENDS = 100  # for one reading: each mends all rows of one statement

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Executes(Protocol):
    """A database's way to read, or to write."""

    def __call__(self, work: Work[T]) -> Awaitable[T]: ...


async def mended(read: Executes, work: Work[T], *, write: Executes) -> T:
    """What is read, after the jobs in it that could not be were made anew."""
    for _ in range(MOST_MENDS):
        try:
            return await read(work)
        except Unreadable as found:
            for job in await write(partial(quarantine.set_aside, orders=found.orders)):
                log.warning(
                    "job %s: record unreadable and quarantined; what is left of it: %s", job.id, with_history(job)
                )
    return await read(work)


def readable(found: Iterable[tuple[Any, ...]], make: Callable[..., T]) -> Iterator[T]:
    """Of what was found, what can be read."""
    for row in found:
        try:
            yield make(*row)
        except rows.WRONG:
            log.warning("a row cannot be read, and is passed over: %s", row)
