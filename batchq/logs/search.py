"""Search for events in several log streams, merged by time, with a filter pattern and a budget.

AWS: a filter pattern is made of terms: `ERROR "not found"` requires both terms, `?ERROR ?WARN` any of them, `-DEBUG`
excludes a term. Matching is case-sensitive. Patterns on JSON or columns and regular expressions are refused.

A search holds the event loop for a slice of a few milliseconds, then yields to everything else that is ready. Of
several searches, one continues in each iteration of the loop. A request with an exhausted budget ends its page early,
and the client continues with the nextToken.
"""

import asyncio
import heapq
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from batchq.errors import Invalid
from batchq.logs.pages import PAGE_BYTES, Span
from batchq.ports.logs import LogArchive, LogStream, StoredLine

MAX_LINES_COMPARED = 50_000  # lines compared for one page, whether they match or not
READ_AHEAD_LINES = 5_000  # lines read ahead, of all streams together
READ_AHEAD_BYTES = 4 * 1024 * 1024
SLICE_BYTES: Final = 1024 * 1024  # bytes compared before the loop is yielded: 5 ms at 200 MB a second
LINE_COST: Final = 1024  # bytes; the fixed cost of a line
MAX_BYTES_COMPARED: Final = 64 * 1024 * 1024  # bytes that one request compares
MAX_SECONDS: Final = 5.0  # duration of one request, including the time it waits for other searches
MAX_TERMS = 20  # every line is searched for every term
_TERM = re.compile(r'\s*(?P<sign>[?-]?)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))(?=\s|$)')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNSUPPORTED = {
    "{": "Filter patterns on JSON are not supported by this server: use terms.",
    "[": "Filter patterns on space-delimited columns are not supported by this server: use terms.",
    "%": "Filter patterns with regular expressions are not supported by this server: use terms.",
}

#: The sort key of a line: its time, its log id, its position. The keys of two lines always differ.
Key = tuple[int, str, int]


def never_disconnected() -> bool:
    """The default for `has_disconnected`: the client never disconnects."""
    return False


class SearchBudget:
    """The budget of one request."""

    def __init__(self, lock: asyncio.Lock, *, has_disconnected: Callable[[], bool] = never_disconnected) -> None:
        """`lock` is shared by all searches. `has_disconnected`: whether the client has disconnected."""
        self._lock = lock
        self._has_disconnected = has_disconnected
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + MAX_SECONDS
        self._left = MAX_BYTES_COMPARED
        self._slice = SLICE_BYTES

    @property
    def exhausted(self) -> bool:
        return self._left <= 0 or self._has_disconnected() or self._loop.time() > self._ends_at

    def slice_ends_by(self, size: int) -> bool:
        """Charge `size` bytes to the budget. Returns whether `pause` must be awaited before they are compared."""
        self._left -= size
        self._slice -= size
        return self._slice < 0

    async def pause(self) -> None:
        async with self._lock:
            await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait
        self._slice = SLICE_BYTES


class FilterPattern(Struct, frozen=True, kw_only=True):
    """A compiled filter pattern."""

    #: A message must contain all of these.
    required: tuple[str, ...]
    #: A message must contain at least one of these; empty: no condition.
    any_of: tuple[str, ...]
    #: A message must contain none of these.
    excluded: tuple[str, ...]

    async def matches(self, message: str, budget: SearchBudget) -> bool:
        """Whether the message matches. May pause before each comparison, so that a long message yields the loop."""
        for term in self.required:
            if not await _contains(message, term, budget):
                return False
        for term in self.excluded:
            if await _contains(message, term, budget):
                return False
        for term in self.any_of:
            if await _contains(message, term, budget):
                return True
        return not self.any_of


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
    last_compared: Key | None


class StreamReader:
    """Reads the events of one stream within a span, with read-ahead."""

    def __init__(self, archive: LogArchive, stream: LogStream, *, span: Span, share: int, budget: SearchBudget) -> None:
        """`share`: the number of streams that share the read-ahead."""
        self._archive = archive
        self._stream = stream
        self._span = span
        self._budget = budget
        self._page_lines = max(READ_AHEAD_LINES // share, 10)
        self._page_bytes = READ_AHEAD_BYTES // share
        self._buffer: deque[StoredLine] = deque()
        self._position = 0

    async def first(self, after: Key | None) -> Event | None:
        """The first event with a key above `after`; None: the first event of the span."""
        start = self._span.start if after is None else max(self._span.start, after[0])
        self._position = await self._archive.seek(self._stream.tag.log_id, start)
        event = await self.next()
        while event is not None and after is not None and event.key <= after:
            event = await self.next()
        return event

    async def next(self) -> Event | None:
        if not self._buffer:
            page = await self._archive.read(
                self._stream.tag.log_id, position=self._position, limit=self._page_lines, max_bytes=self._page_bytes
            )
            self._buffer.extend(page.lines)
            self._position = page.end
        if not self._buffer:
            return None
        if self._budget.slice_ends_by(LINE_COST):
            await self._budget.pause()
        line = self._buffer.popleft()
        if self._span.end is not None and line.at >= self._span.end:
            return None
        return Event(stream=self._stream, line=line)


async def search_streams(
    archive: LogArchive,
    streams: Sequence[LogStream],
    *,
    span: Span,
    pattern: FilterPattern,
    budget: SearchBudget,
    after: Key | None,
    limit: int,
) -> SearchResult:
    """The matching events with keys above `after`, merged by time.

    A page ends at `limit` events, at PAGE_BYTES, after MAX_LINES_COMPARED lines, or when the budget is exhausted. At
    least one line is compared, so that a search always makes progress.
    """
    await budget.pause()
    readers = [StreamReader(archive, stream, span=span, share=len(streams), budget=budget) for stream in streams]
    heads = await _heads(readers, after)
    events: list[Event] = []
    bytes_left, last_compared = PAGE_BYTES, after
    for _ in range(MAX_LINES_COMPARED):
        if not heads or len(events) == limit or (last_compared != after and budget.exhausted):
            break
        key, event, reader = heads[0]
        if await pattern.matches(event.line.message, budget):
            bytes_left -= len(event.line.message.encode())
            if events and bytes_left < 0:
                break
            events.append(event)
        last_compared = key
        following = await reader.next()
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.key, following, reader))
    return SearchResult(events=tuple(events), last_compared=last_compared if heads else None)


def parse_pattern(pattern: str) -> FilterPattern:
    """Parse a filter pattern. Raises Invalid if it is malformed or of an unsupported kind."""
    terms = _terms(pattern)
    if len(terms) > MAX_TERMS:
        raise Invalid(f"Invalid filter pattern: it has {len(terms)} terms, and this server serves {MAX_TERMS}.")
    return FilterPattern(
        required=tuple(term for sign, term in terms if not sign),
        any_of=tuple(term for sign, term in terms if sign == "?"),
        excluded=tuple(term for sign, term in terms if sign == "-"),
    )


async def _heads(readers: Sequence[StreamReader], after: Key | None) -> list[tuple[Key, Event, StreamReader]]:
    """The first event of each stream, as a heap. Keys are unique, so the other members are never compared."""
    heads = []
    for reader in readers:
        event = await reader.first(after)
        if event is not None:
            heads.append((event.key, event, reader))
    heapq.heapify(heads)
    return heads


async def _contains(message: str, term: str, budget: SearchBudget) -> bool:
    if budget.slice_ends_by(len(message)):
        await budget.pause()
    return term in message


def _terms(pattern: str) -> list[tuple[str, str]]:
    """The terms as (sign, text). The sign is empty, `?` or `-`."""
    rest = pattern.strip()
    if rest[:1] in _UNSUPPORTED:
        raise Invalid(_UNSUPPORTED[rest[0]])
    terms = []
    while rest:
        found = _TERM.match(rest)
        if found is None:
            raise Invalid(f"Invalid filter pattern: {rest[:100]}")
        terms.append((found["sign"], _text(found)))
        rest = rest[found.end() :].strip()
    return terms


def _text(found: re.Match[str]) -> str:
    return found["word"] if found["phrase"] is None else _ESCAPED.sub(r"\1", found["phrase"])
