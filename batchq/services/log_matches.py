"""The lines that a search in a log has found, with the lines around them, on a page of bounded size. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from batchq.logs.pages import PAGE_BYTES
from batchq.ports.logs import LogPage, StoredLine

AROUND_CHARACTERS = 4000  # longer lines beside a match are cut. Less than what the web console folds


class LogMatch(Struct, frozen=True, kw_only=True):
    """Lines that a search found, with the lines around them."""

    lines: tuple[StoredLine, ...]
    #: The positions of the lines that match.
    found: frozenset[int]
    #: The position behind the last line.
    end: int


class Matches(Struct, frozen=True, kw_only=True):
    """A page of a search."""

    groups: tuple[LogMatch, ...]
    #: How many lines were found.
    count: int
    #: The last line that was compared; None: the search has come to the end of the log.
    compared: StoredLine | None


class MatchGroups:
    """Collects the groups of lines of one page of a search, up to PAGE_BYTES."""

    def __init__(self, matches: Sequence[StoredLine]) -> None:
        self.groups: list[LogMatch] = []
        self._matches = {line.position for line in matches}
        self._left = PAGE_BYTES

    def add(self, window: LogPage, match: StoredLine) -> bool:
        """Add a match with the lines around it, and join them with the last group if they overlap or touch.

        False if the page has no room; the first match always has.
        """
        last = self.groups[-1] if self.groups else None
        joins = last is not None and window.start <= last.end
        begin = last.end if last is not None and joins else window.start
        lines = tuple(self._cut(line) for line in window.lines if line.position >= begin)
        self._left -= sum(len(line.message.encode("utf-8", "replace")) for line in lines)
        if last is not None and self._left < 0:
            return False
        added = LogMatch(lines=lines, found=frozenset({match.position}), end=window.end)
        if last is None or not joins:
            self.groups.append(added)
            return True
        end = max(added.end, last.end)
        self.groups[-1] = LogMatch(lines=last.lines + lines, found=last.found | added.found, end=end)
        return True

    def _cut(self, line: StoredLine) -> StoredLine:
        """The line, cut unless it is a match itself."""
        if line.position in self._matches or len(line.message) <= AROUND_CHARACTERS:
            return line
        return replace(line, message=f"{line.message[:AROUND_CHARACTERS]}…")
