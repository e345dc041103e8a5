"""Pages of one log stream, read forwards or backwards."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from batchq.ports.logs import LogArchive, LogPage

PAGE_BYTES = 1024 * 1024


class Span(Struct, frozen=True, kw_only=True):
    """A half-open interval of time, in nanoseconds since the epoch."""

    #: Included.
    start: int = 0
    #: Excluded; None: no end.
    end: int | None = None

    def until(self, end: int | None) -> Self:
        """The part of the interval before `end`; None: the whole interval."""
        ends = [it for it in (self.end, end) if it is not None]
        return replace(self, end=min(ends, default=None))


async def forwards(archive: LogArchive, log_id: str, *, span: Span, position: int | None, limit: int) -> LogPage:
    """The next events from `position` on; None: from the first. `end` of the page is the position of the next page."""
    low, high = await _window(archive, log_id, span)
    start = low if position is None else max(position, low)
    page = await archive.read(log_id, position=start, limit=limit, max_bytes=PAGE_BYTES)
    if high is None or page.end <= high:
        return page
    lines = tuple(line for line in page.lines if line.position < high)
    return LogPage(lines=lines, start=start, end=max(start, high))


async def backwards(archive: LogArchive, log_id: str, *, span: Span, position: int | None, limit: int) -> LogPage:
    """The events before `position`, oldest first; None: the last ones.

    `start` of the page is the position of the next page.
    """
    low, high = await _window(archive, log_id, span)
    end = min((it for it in (position, high) if it is not None), default=None)
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
