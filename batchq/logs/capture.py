"""Log capture: copies a container's output from the container engine into the log archive.

Output is copied on demand instead of being followed (decision 0005): each copy takes what is new since the last one.
Lines are identified by the container engine's timestamps. Lines of stdout and stderr may appear out of order by a
little, so each copy reads the last second again (OVERLAP). The container engine cuts long lines into parts that have
the timestamp of the first part and may appear later. Therefore the stored characters are counted for each timestamp,
and a copy stores only what exceeds them: a copy may be interrupted, or made twice, and each line is stored once.

AWS: an empty line is not an event, and a line of more than 256 KiB becomes several events (CloudWatch accepts 1 MiB
since 2025, but its agents still cut at 256 KiB). If the machine's clock is set back during a capture,
lines may be lost.

If output is not stored, a line that batchq writes says so (decision 0033). A capture that a quota stopped continues
once a later copy finds room.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from batchq.domain.ids import Tag
from batchq.domain.times import EPOCH, from_microseconds, microseconds
from batchq.errors import ContainerGone
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
DROPPED = "batchq: the engine stores only the last 400 to 500 MB of a container's output; lines {} may be missing"
STOPPED = (
    "batchq: log capture stopped: {}; {:.1f} MiB of this log are stored. "
    "Later output is lost when the container is removed, unless there is room again before that"
)


class LogCapture:
    """Copies the output of containers into the archive; copies of the same container run one at a time."""

    def __init__(self, *, archive: LogArchive, runtime: ContainerRuntime, clock: Clock, quota: LogQuota) -> None:
        self._archive = archive
        self._quota = quota
        self._runtime = runtime
        self._clock = clock
        self._locks: WeakValueDictionary[Tag, asyncio.Lock] = WeakValueDictionary()
        self._copied_at: dict[str, datetime] = {}

    async def capture(self, tag: Tag) -> bool:
        """Copy all output that is not stored yet. Returns True if the container wrote nothing and was removed.

        For a container that does not exist any more, nothing is copied.
        """
        async with self._lock_of(tag):
            try:
                written = await self._runtime.remove_silent(tag)
            except ContainerGone:
                return False
            if written is not None and not await self._copy_first(tag, written):
                await self._copy(tag, whole=True)
            return written is None

    async def copy_new(self, tag: Tag, *, max_age: timedelta) -> None:
        """Copy new output, unless the last copy began less than `max_age` ago."""
        async with self._lock_of(tag):
            now = self._clock.now()
            if now - self._copied_at.get(tag.log_id, EPOCH) < max_age:
                return
            await self._copy(tag, whole=False)
            self._record_copy(tag.log_id, now)

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
        log_id = tag.log_id
        last = await self._archive.last(log_id)
        stored = await self._archive.size(log_id) if last else 0
        if await self._is_stopped(tag, stored):
            return
        since = max(last - OVERLAP, 0)
        stored_characters = await self._stored_characters(log_id, since=since, whole=whole) if last else {}
        newest, oldest = max(stored_characters, default=0), 0
        batch = LogBatch(self._archive, tag, self._quota, stored=stored)
        after = min([since, *(stamp - 1 for stamp in stored_characters)])
        with suppress(ContainerGone):  # nothing more to copy
            async with aclosing(self._runtime.logs(tag, after=after)) as lines:
                async for line in lines:
                    oldest = min(oldest or line.at, line.at)
                    if not await batch.add(line.at, _unstored_part(line, stored_characters, since=since)):
                        return
        await batch.append()
        if newest and oldest > newest:  # the newest stored line was dropped, and perhaps the next ones
            await batch.annotate(DROPPED.format(f"from {_clock_time(newest)} to {_clock_time(oldest)}"))

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

    def __init__(self, archive: LogArchive, tag: Tag, quota: LogQuota, *, stored: int) -> None:
        """`stored`: the present size of the log in the archive, in bytes."""
        self._archive = archive
        self._tag = tag
        self._quota = quota
        self._stored = stored
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
