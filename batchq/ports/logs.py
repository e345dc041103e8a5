"""Logs of containers: the ports of the archive, and its values."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import NOBODY, Owner
from batchq.domain.ids import Tag


class RetentionArchive(Protocol):
    """A LogArchive that forgets."""

    async def discard(self, log_id: str) -> None:
        """Keep nothing of it any more."""


class LogStream(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of one attempt; `name` is as AWS Batch names it, unique. It is its job's owner's."""

    name: str
    tag: Tag
    created_at: datetime
    owner: Owner = NOBODY


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of output, without its end. `at` in nanoseconds since the epoch, as the engine stamped it."""

    at: int
    message: str


class StoredLine(Struct, frozen=True, kw_only=True):
    """A line in the archive. `at` never goes back from line to line; `stamped`, the engine's own, may.

    `position` is where it begins: an opaque integer that grows from line to line, and stays the line's for ever.
    """

    position: int
    at: int
    stamped: int
    message: str


class LogPage(Struct, frozen=True, kw_only=True):
    """Lines with the positions just before the first and just after the last of them."""

    lines: tuple[StoredLine, ...]
    start: int
    end: int


class LogArchive(Protocol):
    """Output kept beyond its container, one append-only log a container, by its log id (32 hex digits).

    Every method raises Invalid for what is no log id, and StoreFailed when the disk does not do it.
    """

    async def last(self, log_id: str) -> int:
        """The latest stamp kept, 0 if there is none."""

    async def append(self, log_id: str, lines: Sequence[LogLine]) -> int:
        """Keep them, durably. Killed half-way, it has kept the first few of them, each whole. Returns their bytes."""

    async def annotate(self, log_id: str, line: LogLine) -> None:
        """Store a line of batchq's own among the container's, stamped 0, which no line of a container is."""

    async def read(self, log_id: str, *, position: int, limit: int, max_bytes: int) -> LogPage:
        """Lines from a position on, oldest first; one at least, if there is one. A log nobody wrote to is empty.

        Raises Invalid when no line begins there and the log does not end there.
        """

    async def read_back(self, log_id: str, *, position: int | None, limit: int, max_bytes: int) -> LogPage:
        """The lines that end at a position (None: the end of the log), oldest first. Raises as `read`."""

    async def seek(self, log_id: str, at: int) -> int:
        """The position of the first line at or after a time in nanoseconds; the end of the log if there is none."""

    async def size(self, log_id: str) -> int:
        """Bytes kept."""

    async def total(self, log_ids: Sequence[str]) -> int:
        """Bytes kept of all these logs."""
