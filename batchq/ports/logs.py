"""The ports of the archive of container logs, and their values."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import NO_OWNER, Owner
from batchq.domain.ids import Tag


class LogStream(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The log stream of one container of an attempt."""

    #: Unique. AWS: `DEFINITION/default/TASK`.
    name: str
    #: The container that writes it.
    tag: Tag
    created_at: datetime
    #: The owner of the job.
    owner: Owner = NO_OWNER


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of output."""

    #: The container engine's timestamp, in nanoseconds since the epoch.
    at: int
    #: The text without the line end.
    message: str


class StoredLine(Struct, frozen=True, kw_only=True):
    """A line in the archive."""

    #: Where the line begins: an opaque integer that increases from line to line and never changes.
    position: int
    #: In nanoseconds since the epoch; never decreases from line to line.
    at: int
    #: The container engine's timestamp, in nanoseconds since the epoch; may decrease. 0: a line that batchq wrote.
    stamped: int
    message: str


class LogPage(Struct, frozen=True, kw_only=True):
    """Consecutive lines of a log."""

    lines: tuple[StoredLine, ...]
    #: The position where the first line begins.
    start: int
    #: The position behind the last line.
    end: int


class RetentionArchive(Protocol):
    """The part of the log archive that retention uses."""

    async def discard(self, log_id: str) -> None:
        """Delete the log. An unknown log is ignored."""


class LogArchive(RetentionArchive, Protocol):
    """Storage of container output: one append-only log for each container, named by a log id (32 hex digits).

    Every method raises Invalid if `log_id` is not a valid log id, and StoreFailed if the disk reports an error.
    """

    async def last(self, log_id: str) -> int:
        """The latest timestamp stored, in nanoseconds since the epoch; 0 for an empty log."""

    async def append(self, log_id: str, lines: Sequence[LogLine]) -> int:
        """Append the lines durably; returns their size in bytes.

        If the process is killed meanwhile, the first lines are stored, each of them complete.
        """

    async def annotate(self, log_id: str, line: LogLine) -> None:
        """Append a line that batchq wrote. Its `stamped` is 0, which no line of a container has."""

    async def read(self, log_id: str, *, position: int, limit: int, max_bytes: int) -> LogPage:
        """Lines from `position` on, oldest first: at least one if there is one. An unknown log is empty.

        Raises Invalid if `position` is neither the beginning of a line nor the end of the log.
        """

    async def read_back(self, log_id: str, *, position: int | None, limit: int, max_bytes: int) -> LogPage:
        """The lines before `position`, oldest first; None: the last lines of the log. Raises as `read`."""

    async def seek(self, log_id: str, at: int) -> int:
        """The position of the first line at or after the time `at`, or the end of the log without such a line.

        `at` is in nanoseconds since the epoch.
        """

    async def count(self, log_id: str, *, start: int, end: int) -> int:
        """How many lines begin at `start` or later and before `end`, both positions. Reads all of them."""

    async def size(self, log_id: str) -> int:
        """The stored size of the log in bytes."""

    async def total(self, log_ids: Sequence[str]) -> int:
        """The stored size of all these logs together, in bytes."""

    async def stored_bytes(self) -> int:
        """The stored size of all logs together, in bytes. May take long."""
