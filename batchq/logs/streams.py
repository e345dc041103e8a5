"""Pages of log streams in four orders.

The store has indexes for two orders: by name ascending, and newest first. The other two are the reverse of these; a
page of them costs a walk through the indexed order from its beginning.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from batchq.domain.access.accounts import Visibility
from batchq.ports.jobs import Age, JobStore
from batchq.ports.logs import LogStream

STEP = 1000


class StreamOrder(StrEnum):
    """AWS: the order by last event time is only approximate. Here it is the order of creation."""

    NAME = "LogStreamName"
    LAST_EVENT = "LastEventTime"


class Listing(Struct, frozen=True, kw_only=True):
    """A DescribeLogStreams query."""

    order: StreamOrder
    descending: bool
    #: Only streams whose names begin with this.
    prefix: str = ""


class StreamPosition(Struct, frozen=True, kw_only=True):
    """The last stream of a page, behind which the next page begins. The stream may have been deleted meanwhile."""

    name: str
    created_at: datetime

    @property
    def age(self) -> Age:
        return self.created_at, self.name


async def page(
    store: JobStore, listing: Listing, *, reach: Visibility | None, after: StreamPosition | None, limit: int
) -> tuple[LogStream, ...]:
    """The first `limit` visible streams after `after`; None: from the beginning."""
    match listing.order, listing.descending:
        case StreamOrder.NAME, False:
            name = after.name if after else ""
            return await store.streams(prefix=listing.prefix, after=name, limit=limit, reach=reach)
        case StreamOrder.LAST_EVENT, True:
            return await store.newest_streams(limit=limit, before=after.age if after else None, reach=reach)
        case StreamOrder.NAME, True:
            walk = _by_name(store, listing.prefix, reach)
            return await _turned(walk, until=lambda it: after is not None and it.name >= after.name, limit=limit)
        case _:
            walk = _newest_first(store, reach)
            return await _turned(walk, until=lambda it: after is not None and _age(it) <= after.age, limit=limit)


def mark(last: LogStream) -> StreamPosition:
    """The position behind a page that ends with this stream."""
    return StreamPosition(name=last.name, created_at=last.created_at)


def _age(stream: LogStream) -> Age:
    return stream.created_at, stream.name


async def _turned(
    streams: AsyncIterator[LogStream], *, until: Callable[[LogStream], bool], limit: int
) -> tuple[LogStream, ...]:
    """The last `limit` streams before the first one for which `until` holds, in reverse order."""
    held: deque[LogStream] = deque(maxlen=limit)
    async for stream in streams:
        if until(stream):
            break
        held.append(stream)
    return tuple(reversed(held))


async def _by_name(store: JobStore, prefix: str, reach: Visibility | None) -> AsyncIterator[LogStream]:
    after = ""
    while some := await store.streams(prefix=prefix, after=after, limit=STEP, reach=reach):
        for stream in some:
            yield stream
        after = some[-1].name


async def _newest_first(store: JobStore, reach: Visibility | None) -> AsyncIterator[LogStream]:
    before = None
    while some := await store.newest_streams(limit=STEP, before=before, reach=reach):
        for stream in some:
            yield stream
        before = _age(some[-1])
