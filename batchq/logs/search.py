"""Events of several streams, interleaved by time, those that match a pattern."""

import heapq
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from batchq.logs.filter_pattern import Pattern
from batchq.logs.pages import PAGE_BYTES, Span
from batchq.logs.search_budget import LINE_COST, Budget
from batchq.ports.logs import LogArchive, LogStream, StoredLine

EXAMINED = 50_000  # lines looked at for one page, whether they match or not
AHEAD_LINES = 5_000  # read ahead of all the streams together
AHEAD_BYTES = 4 * 1024 * 1024

Key = tuple[int, str, int]
"""A line's time, its task, its position: no two lines have the same, and in this order they are told."""


class Event(Struct, frozen=True, kw_only=True):
    stream: LogStream
    line: StoredLine

    @property
    def key(self) -> Key:
        return self.line.at, self.stream.tag.log_id, self.line.position


class SearchResult(Struct, frozen=True, kw_only=True):
    """What was found, and the key of the last line that was looked at: None if there is nothing beyond."""

    events: tuple[Event, ...]
    reached: Key | None


class StreamReader:
    """One stream's events of a span, read a little ahead."""

    def __init__(self, archive: LogArchive, stream: LogStream, *, span: Span, share: int, budget: Budget) -> None:
        self._archive = archive
        self._stream = stream
        self._span = span
        self._budget = budget
        self._lines = max(AHEAD_LINES // share, 10)
        self._bytes = AHEAD_BYTES // share
        self._ahead: deque[StoredLine] = deque()
        self._position = 0

    async def first(self, beyond: Key | None) -> Event | None:
        """The first beyond a key."""
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
    """The events beyond a key that match, as many as one answer may have and the budget allows; one line at least."""
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
    """The first event of each, as a heap: keys differ, so nothing else is compared."""
    heads = []
    for walk in walks:
        event = await walk.first(beyond)
        if event is not None:
            heads.append((event.key, event, walk))
    heapq.heapify(heads)
    return heads
