"""Pages of log streams, in four orders, and pages of the events of one stream, read forwards or backwards.

The store has indexes for two orders of streams: by name ascending, and newest first. The other two are the reverse of
these: a page of them reads the indexed order from its beginning.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from enum import StrEnum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.ports.jobs import Age, JobStore
from batchq.ports.logs import LogArchive, LogPage, LogStream

STREAMS_PER_READ = 1000


class StreamOrder(StrEnum):
    """AWS: the order by last event time is only approximate. Here it is the order of creation."""

    NAME = "LogStreamName"
    LAST_EVENT = "LastEventTime"


class StreamQuery(Struct, frozen=True, kw_only=True):
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
    def sort_key(self) -> Age:
        return self.created_at, self.name


async def list_streams(
    store: JobStore, query: StreamQuery, *, visibility: Visibility | None, after: StreamPosition | None, limit: int
) -> tuple[LogStream, ...]:
    """The first `limit` visible streams after `after`; None: from the beginning."""
    match query.order, query.descending:
        case StreamOrder.NAME, False:
            name = after.name if after else ""
            return await store.streams(prefix=query.prefix, after=name, limit=limit, visibility=visibility)
        case StreamOrder.LAST_EVENT, True:
            return await store.newest_streams(
                limit=limit, before=after.sort_key if after else None, visibility=visibility
            )
        case StreamOrder.NAME, True:
            streams = _by_name(store, query.prefix, visibility)
            return await _reversed_page(
                streams, until=lambda stream: after is not None and stream.name >= after.name, limit=limit
            )
        case _:
            streams = _newest_first(store, visibility)
            return await _reversed_page(
                streams,
                until=lambda stream: after is not None and position_after(stream).sort_key <= after.sort_key,
                limit=limit,
            )


def position_after(stream: LogStream) -> StreamPosition:
    """The position behind a page that ends with this stream."""
    return StreamPosition(name=stream.name, created_at=stream.created_at)


async def _reversed_page(
    streams: AsyncIterator[LogStream], *, until: Callable[[LogStream], bool], limit: int
) -> tuple[LogStream, ...]:
    """The last `limit` streams before the first one for which `until` holds, in reverse order."""
    last: deque[LogStream] = deque(maxlen=limit)
    async for stream in streams:
        if until(stream):
            break
        last.append(stream)
    return tuple(reversed(last))


async def _by_name(store: JobStore, prefix: str, visibility: Visibility | None) -> AsyncIterator[LogStream]:
    after = ""
    while some := await store.streams(prefix=prefix, after=after, limit=STREAMS_PER_READ, visibility=visibility):
        for stream in some:
            yield stream
        after = some[-1].name


async def _newest_first(store: JobStore, visibility: Visibility | None) -> AsyncIterator[LogStream]:
    before = None
    while some := await store.newest_streams(limit=STREAMS_PER_READ, before=before, visibility=visibility):
        for stream in some:
            yield stream
        before = position_after(some[-1]).sort_key


PAGE_BYTES = 1024 * 1024


class Span(Struct, frozen=True, kw_only=True):
    """A half-open interval of time, in nanoseconds since the epoch."""

    #: Included.
    start: int = 0
    #: Excluded; None: no end.
    end: int | None = None

    def until(self, end: int | None) -> Self:
        """The part of the interval before `end`; None: the whole interval."""
        ends = [value for value in (self.end, end) if value is not None]
        return replace(self, end=min(ends, default=None))


async def read_forwards(archive: LogArchive, log_id: str, *, span: Span, position: int | None, limit: int) -> LogPage:
    """The next events from `position` on; None: from the first. `end` of the page is the position of the next page."""
    low, high = await _window(archive, log_id, span)
    start = low if position is None else max(position, low)
    page = await archive.read(log_id, position=start, limit=limit, max_bytes=PAGE_BYTES)
    if high is None or page.end <= high:
        return page
    lines = tuple(line for line in page.lines if line.position < high)
    return LogPage(lines=lines, start=start, end=max(start, high))


async def read_backwards(archive: LogArchive, log_id: str, *, span: Span, position: int | None, limit: int) -> LogPage:
    """The events before `position`, oldest first; None: the last ones.

    `start` of the page is the position of the next page.
    """
    low, high = await _window(archive, log_id, span)
    end = min((value for value in (position, high) if value is not None), default=None)
    page = await archive.read_back(log_id, position=end, limit=limit, max_bytes=PAGE_BYTES)
    if page.start >= low:
        return page
    lines = tuple(line for line in page.lines if line.position >= low)
    return LogPage(lines=lines, start=min(low, page.end), end=page.end)


async def _window(archive: LogArchive, log_id: str, span: Span) -> tuple[int, int | None]:
    """The positions where the span begins and ends; the second is None for a span without end."""
    low = await archive.seek(log_id, span.start) if span.start else 0
    high = None if span.end is None else await archive.seek(log_id, span.end)
    return low, high
