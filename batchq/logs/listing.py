"""Log streams a page at a time, in each of four orders.

By name and newest first the store has an index. The other two are those turned around, and cost a walk through all
that comes before.
"""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

from batchq.domain.people import Reach
from batchq.errors import Invalid
from batchq.ports import JobStore
from batchq.values import LogStream

STEP = 1000


class Order(StrEnum):
    """AWS: that of the last event is only nearly kept. Here it is that of the streams' beginnings."""

    NAME = "LogStreamName"
    LAST_EVENT = "LastEventTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    order: Order
    descending: bool
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last stream that was told: its name, and its place among the newest as it was then."""

    name: str
    place: int = 0


async def page(
    store: JobStore, listing: Listing, *, reach: Reach | None, after: Mark | None, limit: int
) -> tuple[LogStream, ...]:
    """The streams within a reach that come after a mark."""
    match listing.order, listing.descending:
        case Order.NAME, False:
            name = after.name if after else ""
            return await store.streams(prefix=listing.prefix, after=name, limit=limit, reach=reach)
        case Order.LAST_EVENT, True:
            offset = await _offset(store, after, reach) if after else 0
            return await store.newest_streams(limit=limit, offset=offset, reach=reach)
        case Order.NAME, True:
            return await _turned(_by_name(store, listing.prefix, reach), after=after, limit=limit)
        case _:
            return await _turned(_newest_first(store, reach), after=after, limit=limit)


def mark(told: tuple[LogStream, ...], *, after: Mark | None) -> Mark:
    """The mark behind a page."""
    return Mark(name=told[-1].name, place=(after.place if after else 0) + len(told))


async def _offset(store: JobStore, after: Mark, reach: Reach | None) -> int:
    """How many streams are newer than the mark or it: more than at first, for streams are added and never go."""
    offset = max(after.place - 1, 0)
    while some := await store.newest_streams(limit=STEP, offset=offset, reach=reach):
        for stream in some:
            offset += 1
            if stream.name == after.name:
                return offset
    raise Invalid("The specified nextToken is invalid.")


async def _turned(streams: AsyncIterator[LogStream], *, after: Mark | None, limit: int) -> tuple[LogStream, ...]:
    """The last ones before the mark, the nearest first."""
    held: deque[LogStream] = deque(maxlen=limit)
    async for stream in streams:
        if after is not None and stream.name == after.name:
            break
        held.append(stream)
    return tuple(reversed(held))


async def _by_name(store: JobStore, prefix: str, reach: Reach | None) -> AsyncIterator[LogStream]:
    after = ""
    while some := await store.streams(prefix=prefix, after=after, limit=STEP, reach=reach):
        for stream in some:
            yield stream
        after = some[-1].name


async def _newest_first(store: JobStore, reach: Reach | None) -> AsyncIterator[LogStream]:
    offset = 0
    while some := await store.newest_streams(limit=STEP, offset=offset, reach=reach):
        for stream in some:
            yield stream
        offset += len(some)
