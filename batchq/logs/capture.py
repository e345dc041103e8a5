"""Log capture: copies a container's output from the container engine into the log archive.

Output is copied on demand instead of being followed (decision 0005): each copy takes what is new since the last one.
Lines are identified by the container engine's timestamps. Lines of stdout and stderr may appear out of order by a
little, so each copy reads the last second again (OVERLAP). The container engine cuts long lines into parts that have
the timestamp of the first part and may appear later. Therefore the stored characters are counted for each timestamp,
and a copy stores only what exceeds them: a copy may be interrupted, or made twice, and each line is stored once.

AWS: an empty line is not an event, and a line of more than 256 KiB becomes several events (CloudWatch accepts 1 MiB
since 2025, but its agents still cut at 256 KiB). If the machine's clock is set back during a capture,
lines may be lost.

A container whose log is followed has two copies at the same time: the follower's, which lasts as long as the container,
and those for readers. A line that a reader's copy has stored is skipped when the follower receives it.

If output is not stored, a line that batchq writes says so (decision 0033). A capture that a quota stopped continues
once a later copy finds room.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from enum import StrEnum
from weakref import WeakValueDictionary

from msgspec import Struct

from batchq.domain.ids import Tag
from batchq.domain.times import EPOCH, from_microseconds, microseconds
from batchq.errors import ContainerGone, RuntimeUnknown, StoreFailed
from batchq.logs.quota import LogQuota
from batchq.ports.clock import Clock
from batchq.ports.logs import LogArchive, LogLine, StoredLine
from batchq.ports.runtime import ContainerRuntime
from batchq.system.host import MIB

OVERLAP = 1_000_000_000  # nanoseconds by which lines may be out of order
MIN_CUT_CHARACTERS = 4096  # characters; engines cut at 16 KiB, which are at least this many characters in UTF-8
MAX_EVENT_BYTES = 262_118
BATCH_LINES = 2000
BATCH_CHARACTERS = 1024 * 1024
COPY_TIME_KEPT = timedelta(seconds=1)  # how long the time of a container's last copy is remembered
ENGINE_LOG_BYTES = 400_000_000  # the container engine stores at least this much of a log, as JSON
ENGINE_LINE_OVERHEAD = 85  # bytes of a line's JSON apart from its text
DROPPED = "batchq: the container engine stores only the last part of a container's output; lines {} may be missing"
STOPPED = (
    "batchq: log capture stopped: {}; {:.1f} MiB of this log are stored. "
    "Later output is lost when the container is removed, unless there is room again before that"
)


class CopyStart(Struct, frozen=True, kw_only=True):
    """Where a copy begins."""

    #: The stored size of the log, in bytes.
    size: int
    #: Only lines after this are new, in nanoseconds since the epoch, and the rest of the cut lines in `characters`.
    since: int
    #: The stored characters by timestamp, of lines that may appear again.
    characters: dict[int, int]

    @property
    def newest(self) -> int:
        """The latest timestamp that may appear again; 0: none."""
        return max(self.characters, default=0)

    @property
    def after(self) -> int:
        """The timestamp after which the log is read, in nanoseconds since the epoch."""
        return min([self.since, *(stamp - 1 for stamp in self.characters)])


class FollowEnd(StrEnum):
    """Why a log is not followed any more."""

    #: The container engine stores enough output of the container.
    UNNEEDED = "UNNEEDED"
    #: A quota refuses more output.
    REFUSED = "REFUSED"
    #: The stream of the container engine has ended.
    ENDED = "ENDED"


class LogCapture:
    """Copies the output of containers into the archive; copies of the same container run one at a time."""

    def __init__(self, *, archive: LogArchive, runtime: ContainerRuntime, clock: Clock, quota: LogQuota) -> None:
        self._archive = archive
        self._quota = quota
        self._runtime = runtime
        self._clock = clock
        self._locks: WeakValueDictionary[Tag, asyncio.Lock] = WeakValueDictionary()
        self._copied_at: dict[str, datetime] = {}
        #: By followed container, the characters by timestamp that are stored and that its follower will receive.
        self._ahead: dict[Tag, dict[int, int]] = {}

    async def capture(self, tag: Tag, *, is_followed: bool = False) -> bool:
        """Copy all output that is not stored yet. Returns True if the container wrote nothing and was removed.

        For a container that does not exist any more, nothing is copied. `is_followed`: a follower has received the
        output up to its end, but perhaps for the last lines.
        """
        async with self._lock_of(tag):
            try:
                written = await self._runtime.remove_silent(tag)
            except ContainerGone:
                return False
            if written is not None and not await self._copy_first(tag, written):
                await self._copy(tag, whole=not is_followed)
            return written is None

    async def copy_new(self, tag: Tag, *, max_age: timedelta) -> None:
        """Copy new output, unless the last copy began less than `max_age` ago."""
        async with self._lock_of(tag):
            now = self._clock.now()
            if now - self._copied_at.get(tag.log_id, EPOCH) < max_age:
                return
            try:
                await self._copy(tag, whole=False)
            except (StoreFailed, asyncio.CancelledError):
                self._ahead.pop(tag, None)  # it is not known what was stored, so the follower begins again
                raise
            self._record_copy(tag.log_id, now)

    def is_busy(self, tag: Tag) -> bool:
        """Whether a copy of the container's output runs."""
        return tag in self._locks and self._locks[tag].locked()

    async def has_gap(self, tag: Tag) -> bool:
        """Whether the container engine shows only lines that are later than the newest stored one, and not that one.

        False also if the engine does not show the log at present.
        """
        newest = await self._archive.last(tag.log_id)
        try:
            async with aclosing(self._runtime.logs(tag, after=newest - 1)) as lines:
                first = await anext(lines, None)
        except (ContainerGone, RuntimeUnknown):
            return False
        return first is not None and first.at > newest

    async def follow(self, tag: Tag, received: Callable[[int], Awaitable[None]], *, marks_gap: bool) -> FollowEnd:
        """Store output as the container writes it, until the stream of the container engine ends.

        `received` is called with the characters of each portion that was stored; the next one is read when it has
        returned. `marks_gap`: whether lines may have been dropped since the last copy. Raises ContainerGone;
        RuntimeUnknown; StoreFailed.
        """
        lock = self._lock_of(tag)
        async with lock:
            start = await self._copy_start(tag, whole=False)
            if start is None:
                return FollowEnd.REFUSED
            portions = await self._runtime.follow(tag, after=start.after)
            if portions is None:
                return FollowEnd.UNNEEDED
            ahead, newest = start.characters, start.newest if marks_gap else 0
            self._ahead[tag] = ahead
        try:
            async with aclosing(portions) as followed:
                async for portion in followed:
                    async with lock:
                        if self._ahead.get(tag) is not ahead:
                            raise RuntimeUnknown("a copy failed, so it is not known what is stored")
                        if not await self._store_followed(tag, portion, ahead, since=start.since, newest=newest):
                            return FollowEnd.REFUSED
                    newest = 0
                    await received(sum(len(line.message) for line in portion))
        finally:
            if self._ahead.get(tag) is ahead:
                del self._ahead[tag]
        return FollowEnd.ENDED

    async def _store_followed(
        self, tag: Tag, portion: Sequence[LogLine], ahead: dict[int, int], *, since: int, newest: int
    ) -> bool:
        """Store what a follower received and no copy has stored. Returns False if the quota refused it."""
        batch = LogBatch(self._archive, tag, self._quota, stored=await self._archive.size(tag.log_id))
        if newest and portion[0].at > newest:
            await batch.annotate(DROPPED.format(f"from {_clock_time(newest)} to {_clock_time(portion[0].at)}"))
        for line in portion:
            part = _unstored_part(line, ahead, since=since)
            if not ahead.get(line.at, 1):
                del ahead[line.at]
            if not await batch.add(line.at, part):
                return False
        return await batch.append()

    async def complete_until(self, tags: Collection[Tag]) -> int | None:
        """The time until which all output of these containers is stored, in nanoseconds since the epoch.

        None if none of them was copied recently, or if a stored timestamp shows that the container engine's clock is
        ahead of batchq's clock.
        """
        known = [self._copied_at[tag.log_id] for tag in tags if tag.log_id in self._copied_at]
        latest = max([await self._archive.last(tag.log_id) for tag in tags], default=0)
        if not known or latest > _nanoseconds(self._clock.now()):
            return None
        return _nanoseconds(min(known))

    def _lock_of(self, tag: Tag) -> asyncio.Lock:
        """The container's lock, which exists as long as a copy holds it or waits for it."""
        return self._locks.setdefault(tag, asyncio.Lock())

    def _record_copy(self, log_id: str, now: datetime) -> None:
        """Record that a copy of this container began at `now`, and drop entries older than COPY_TIME_KEPT."""
        self._copied_at = {key: at for key, at in self._copied_at.items() if now - at < COPY_TIME_KEPT}
        self._copied_at[log_id] = now

    async def _copy_first(self, tag: Tag, written: AsyncGenerator[LogLine, None]) -> bool:
        """Store all of `written` if nothing is stored yet; else store nothing and return False.

        The archive is not accessed if `written` is empty.
        """
        batch = LogBatch(self._archive, tag, self._quota, stored=0)
        checked, read_bytes = False, 0
        with suppress(ContainerGone):
            async with aclosing(written) as lines:
                async for line in lines:
                    if not checked and await self._archive.last(tag.log_id):
                        return False
                    checked = True
                    read_bytes += len(line.message) + ENGINE_LINE_OVERHEAD
                    if not await batch.add(line.at, line.message):
                        return True
        await batch.append()
        if read_bytes >= ENGINE_LOG_BYTES:
            await batch.annotate(DROPPED.format("before the first of this log"))
        return True

    async def _copy(self, tag: Tag, *, whole: bool) -> None:
        """Copy new output. With `whole`, also the missing parts of lines that were cut earlier.

        That reads the whole stored log once.
        """
        start = await self._copy_start(tag, whole=whole)
        if start is None:
            return
        newest, oldest = start.newest, 0
        batch = LogBatch(self._archive, tag, self._quota, stored=start.size, ahead=self._ahead.get(tag))
        with suppress(ContainerGone):  # nothing more to copy
            async with aclosing(self._runtime.logs(tag, after=start.after)) as lines:
                async for line in lines:
                    oldest = min(oldest or line.at, line.at)
                    if tag in self._ahead and oldest > newest > 0:
                        raise RuntimeUnknown("older lines are on their way to the follower of this log")
                    if not await batch.add(line.at, _unstored_part(line, start.characters, since=start.since)):
                        return
        await batch.append()
        if newest and oldest > newest:  # the newest stored line was dropped, and perhaps the next ones
            await batch.annotate(DROPPED.format(f"from {_clock_time(newest)} to {_clock_time(oldest)}"))

    async def _copy_start(self, tag: Tag, *, whole: bool) -> CopyStart | None:
        """Where the next copy begins; None: a quota refuses more output. `whole` as in `_copy`."""
        log_id = tag.log_id
        last = await self._archive.last(log_id)
        size = await self._archive.size(log_id) if last else 0
        if await self._is_stopped(tag, size):
            return None
        since = max(last - OVERLAP, 0)
        characters = await self._stored_characters(log_id, since=since, whole=whole) if last else {}
        return CopyStart(size=size, since=since, characters=characters)

    async def _is_stopped(self, tag: Tag, stored: int) -> bool:
        """Whether a quota refuses more output, and a line in the log says so or cannot be stored."""
        if await self._quota.refusal(tag, stored) is None:
            return False
        if not self._quota.may_annotate:
            return True
        page = await self._archive.read_back(tag.log_id, position=None, limit=1, max_bytes=1)
        return any(_is_annotation(line) for line in page.lines)

    async def _stored_characters(self, log_id: str, *, since: int, whole: bool) -> dict[int, int]:
        """The stored characters by timestamp: of lines after `since` and, with `whole`, of lines that may be cut."""
        stored: dict[int, int] = {}
        position = 0 if whole else await self._archive.seek(log_id, since)
        while True:
            page = await self._archive.read(log_id, position=position, limit=BATCH_LINES, max_bytes=BATCH_CHARACTERS)
            for line in page.lines:
                perhaps_cut = whole and (line.stamped in stored or len(line.message) >= MIN_CUT_CHARACTERS)
                if line.stamped > since or perhaps_cut:
                    stored[line.stamped] = stored.get(line.stamped, 0) + len(line.message)
            if not page.lines:
                return stored
            position = page.end


class LogBatch:
    """Appends events to a container's log in batches of at most about BATCH_LINES or BATCH_CHARACTERS."""

    def __init__(
        self, archive: LogArchive, tag: Tag, quota: LogQuota, *, stored: int, ahead: dict[int, int] | None = None
    ) -> None:
        """`stored`: the present size of the log in the archive, in bytes. `ahead`: counts the stored characters."""
        self._archive = archive
        self._tag = tag
        self._quota = quota
        self._stored = stored
        self._ahead = ahead
        self._lines: list[LogLine] = []
        self._characters = 0

    async def add(self, at: int, message: str) -> bool:
        """Add a line of output. Returns False if the quota refused a batch; then the capture must stop."""
        for event in split_into_events(message):
            self._lines.append(LogLine(at=at, message=event))
            self._characters += len(event)
            if (len(self._lines) >= BATCH_LINES or self._characters >= BATCH_CHARACTERS) and not await self.append():
                return False
        return True

    async def append(self) -> bool:
        """Append the present batch. Returns False if the quota refused it; then a line in the log says why."""
        lines, self._lines, self._characters = self._lines, [], 0
        if not lines:
            return True
        why = await self._quota.refusal(self._tag, self._stored)
        if why is None:
            appended = await self._archive.append(self._tag.log_id, lines)
            self._stored += appended
            if self._ahead is not None:
                for line in lines:
                    self._ahead[line.at] = self._ahead.get(line.at, 0) + len(line.message)
            await self._quota.add_appended(self._tag, appended)
            return True
        self._quota.report_stop(self._tag, why)
        await self.annotate(STOPPED.format(why, self._stored / MIB), at=lines[0].at)
        return False

    async def annotate(self, message: str, *, at: int = 0) -> None:
        """Append a line that batchq writes, if the disk has room: at `at`, or at the last line's time if that is later.

        `at` is in nanoseconds since the epoch.
        """
        if self._quota.may_annotate:
            await self._archive.annotate(self._tag.log_id, LogLine(at=at, message=message))


def split_into_events(message: str) -> Sequence[str]:
    """AWS: a line as CloudWatch events: none for an empty line, several for a long one. No character is cut in two."""
    if message.isascii() and len(message) <= MAX_EVENT_BYTES:
        return (message,) if message else ()
    data = message.encode("utf-8", "replace")
    cut = []
    start = 0
    while start < len(data):
        end = min(start + MAX_EVENT_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte inside a character
            end -= 1
        cut.append(data[start:end].decode())
        start = end
    return cut


def _unstored_part(line: LogLine, stored: dict[int, int], *, since: int) -> str:
    """The part of a line that is not stored yet, perhaps empty. Deducts the stored part from `stored`."""
    if line.at <= since and line.at not in stored:
        return ""
    already = min(stored.get(line.at, 0), len(line.message))
    if already:
        stored[line.at] -= already
    return line.message[already:]


def _is_annotation(line: StoredLine) -> bool:
    """Whether batchq wrote the line: its timestamp is 0, which no engine uses. A damaged line has no timestamp."""
    return line.stamped == 0 < line.at


def _clock_time(stamp: int) -> str:
    return f"{from_microseconds(stamp // 1000):%Y-%m-%d %H:%M:%S} UTC"


def _nanoseconds(at: datetime) -> int:
    return microseconds(at) * 1000
