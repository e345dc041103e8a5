"""Handling of unreadable rows, so that one of them does not fail the read of all others. Decision 0015.

The row of a job is quarantined and rebuilt, because the engine must decide what happens to the job. Unreadable rows of
other tables are skipped.
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

MOST_MENDS = 100  # repairs for one read; each repairs all unreadable rows of one statement

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Executes(Protocol):
    """A method of Database that runs a transaction: `read`, `browse` or `write`."""

    def __call__(self, work: Work[T]) -> Awaitable[T]: ...


async def mended(read: Executes, work: Work[T], *, write: Executes) -> T:
    """The result of a read; if it raises Unreadable, these jobs are quarantined and the read is repeated."""
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
    """The values of the readable rows; unreadable rows are logged and skipped."""
    for row in found:
        try:
            yield make(*row)
        except rows.WRONG:
            log.warning("a row cannot be read, and is passed over: %s", row)
