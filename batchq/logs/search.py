"""Search for events in several log streams, merged by time."""

import heapq
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from batchq.logs.filter_pattern import Pattern
from batchq.logs.pages import PAGE_BYTES, Span
from batchq.logs.search_budget import LINE_COST, Budget
from batchq.ports.logs import LogArchive, LogStream, StoredLine

EXAMINED = 50_000  # lines compared for one page, whether they match or not
AHEAD_LINES = 5_000  # lines read ahead, of all streams together
AHEAD_BYTES = 4 * 1024 * 1024

Key = tuple[int, str, int]
"""The sort key of a line: its time, its log id, its position. The keys of two lines always differ."""


class Event(Struct, frozen=True, kw_only=True):
    """A line of a log stream."""

    stream: LogStream
    line: StoredLine

    @property
    def key(self) -> Key:
        return self.line.at, self.stream.tag.log_id, self.line.position


class SearchResult(Struct, frozen=True, kw_only=True):
    """A page of search results."""

    events: tuple[Event, ...]
    #: The key of the last line that was compared; None if no lines are left.
    reached: Key | None


class StreamReader:
    """Reads the events of one stream within a span, with read-ahead."""

    def __init__(self, archive: LogArchive, stream: LogStream, *, span: Span, share: int, budget: Budget) -> None:
        """`share`: the number of streams that share the read-ahead."""
        self._archive = archive
        self._stream = stream
        self._span = span
        self._budget = budget
        self._lines = max(AHEAD_LINES // share, 10)
        self._bytes = AHEAD_BYTES // share
        self._ahead: deque[StoredLine] = deque()
        self._position = 0

    async def first(self, beyond: Key | None) -> Event | None:
        """The first event with a key above `beyond`; None: the first event of the span."""
        start = self._span.start if beyond is None else max(self._span.start, beyond[0])
        self._position = await self._archive.seek(self._stream.tag.log_id, start)
        event = await self.next()
        while event is not None and beyond is not None and event.key <= beyond:
            event = await self.next()
        return event

    async def next(self) -> Event | None:
        if not self._ahead:
            page = await self._archive.read(
                self._stream.tag.log_id, position=self._position, limit=self._lines, max_bytes=self._bytes
            )
            self._ahead.extend(page.lines)
            self._position = page.end
        if not self._ahead:
            return None
        if self._budget.slice_ends_by(LINE_COST):
            await self._budget.pause()
        line = self._ahead.popleft()
        if self._span.end is not None and line.at >= self._span.end:
            return None
        return Event(stream=self._stream, line=line)


async def search(
    archive: LogArchive,
    streams: Sequence[LogStream],
    *,
    span: Span,
    pattern: Pattern,
    budget: Budget,
    beyond: Key | None,
    limit: int,
) -> SearchResult:
    """The matching events with keys above `beyond`, merged by time.

    A page ends at `limit` events, at PAGE_BYTES, after EXAMINED lines, or when the budget is exhausted. At least one
    line is compared, so that a search always makes progress.
    """
    await budget.pause()
    walks = [StreamReader(archive, it, span=span, share=len(streams), budget=budget) for it in streams]
    heads = await _heads(walks, beyond)
    events: list[Event] = []
    room, reached = PAGE_BYTES, beyond
    for _ in range(EXAMINED):
        if not heads or len(events) == limit or (reached != beyond and budget.exhausted):
            break
        key, event, walk = heads[0]
        if await pattern.matches(event.line.message, budget):
            room -= len(event.line.message.encode())
            if events and room < 0:
                break
            events.append(event)
        reached = key
        following = await walk.next()
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.key, following, walk))
    return SearchResult(events=tuple(events), reached=reached if heads else None)


async def _heads(walks: Sequence[StreamReader], beyond: Key | None) -> list[tuple[Key, Event, StreamReader]]:
    """The first event of each stream, as a heap. Keys are unique, so the other members are never compared."""
    heads = []
    for walk in walks:
        event = await walk.first(beyond)
        if event is not None:
            heads.append((event.key, event, walk))
    heapq.heapify(heads)
    return heads
