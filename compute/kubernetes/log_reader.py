"""Reads the log of a pod's container as lines.

The API server shows the newest file of the log, 10 MiB by default. It writes a time stamp before each line, and in a
long line after each 16 KiB. The text of an error comes with status 200 and without a stamp, so a line without one is
never output.
"""

import asyncio
import codecs
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from batchq.compute.kubernetes.http_connections import HttpStream
from batchq.compute.kubernetes.rest import ApiReply, RestClient
from batchq.compute.log_stamps import DIGITS, SECOND, STAMP, stamp_nanoseconds
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, LogRefused, RuntimeUnknown
from batchq.ports.clock import Clock
from batchq.ports.logs import LogLine

PIECE = 2**14  # bytes of a long line between two stamps
MAX_LINE = 2**20  # bytes; a longer line is split into several
MAX_FOLLOWED = 2**24  # bytes of a log that is kept in memory
#: Bytes of a reply that may be cut off: the API server ends it without an error if its kubelet ends meanwhile.
LONG_REPLY = 2**18
LINE_WAIT = timedelta(seconds=10)  # in which a program usually ends a line that it has begun
#: A pod without a node has no content, and a container that waits on its node is a bad request.
NOT_STARTED = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.BAD_REQUEST})
FOLLOW_START = 5.0  # seconds in which a follower must be connected
#: Seconds without output after which a followed log is requested again: the connection may be broken unnoticed.
SILENCE = 60.0
#: Kubelets before 1.30 go on to follow a file that was rotated away. So do later ones if it was rotated before they had
#: sent all of it. After so many seconds without output the newest file is read, and followed if it has later lines
#: and nothing more has arrived. Until then the connection stays: lines that are written while no connection exists are
#: lost if their file is rotated away.
OLD_SILENCE = 2.0
#: The further seconds without output before the newest file is followed. A loaded node may send nothing for some, and
#: a kubelet rotates a log once in ten seconds at most.
BEHIND_SILENCE = 5.0
#: Bytes after which a kubelet of 1.30 or newer may have been behind a rotation.
MUCH_OUTPUT = 2**18


async def read_log(rest: RestClient, path: str, container: str, parser: "LogParser") -> AsyncGenerator[LogLine, None]:
    """The finished lines of a container of the pod at the path. Raises ContainerGone; LogRefused.

    The parser has the position from which the log is read, and then the line that the log ends within.
    """
    async with rest.stream(f"{path}/log", log_query(container, parser.after)) as response:
        if await _is_log(response, path):
            async for chunk in response.pieces():
                for line in parser.lines(chunk):
                    yield line
            parser.end()


async def follow_log(
    rest: RestClient, path: str, container: str, *, after: int, follows_rotations: bool
) -> AsyncGenerator[list[LogLine], None]:
    """As `read_log`, and then what is written. The lines that arrive together are one item.

    `follows_rotations`: whether the kubelet goes on with the next file when it rotates the log, unless it is behind.
    The reading ends with the log, and when the connection may be broken. A line that it ends within is left out if it
    can be read again.
    """
    parser, is_silent = LogParser(after=after), False
    async with rest.stream(f"{path}/log", log_query(container, after, follow=True), is_followed=True) as response:
        if not await _is_log(response, path):
            return
        is_behind, checked = False, 0
        while not is_silent:
            has_much = not follows_rotations or parser.received - checked >= MUCH_OUTPUT
            is_waiting_long = parser.is_within_line or not has_much
            silence = BEHIND_SILENCE if is_behind else OLD_SILENCE
            try:
                async with asyncio.timeout(SILENCE if is_waiting_long else silence):
                    chunk = await response.read()
            except TimeoutError:
                is_silent = is_waiting_long or is_behind
                is_behind = is_silent or await _has_later(rest, path, container, parser.newest)
                checked = checked if is_behind else parser.received
                continue
            if not chunk:
                break
            is_behind = False
            if portion := parser.lines(chunk):
                yield portion
    parser.end()
    part = parser.unfinished
    if part is not None and not await _is_shown(rest, path, container, part, is_kubelet_away=is_silent):
        yield [part]


async def _has_later(rest: RestClient, path: str, container: str, stamp: int) -> bool:
    """Whether the newest file of the log has a line after the stamp; False also if it cannot be read at present."""
    try:
        async with aclosing(read_log(rest, path, container, LogParser(after=stamp))) as lines:
            return await anext(lines, None) is not None
    except RuntimeUnknown:
        return False


async def read_unfinished(
    rest: RestClient, path: str, container: str, unfinished: LogLine
) -> AsyncGenerator[LogLine, None]:
    """The line that a reading ended within, as the log has it now, and what follows it."""
    parser = LogParser(after=unfinished.at - 1)
    try:
        async for line in read_log(rest, path, container, parser):
            yield line
    except (ContainerGone, LogRefused):
        yield unfinished
        return
    if parser.unfinished is not None:
        yield parser.unfinished


async def _is_shown(rest: RestClient, path: str, container: str, line: LogLine, *, is_kubelet_away: bool) -> bool:
    """Whether the log still has the line, perhaps with more of it. Raises RuntimeUnknown.

    `is_kubelet_away`: whether the kubelet was silent for long, so that an error means that it does not show the line.
    """
    parser = LogParser(after=line.at - 1)
    try:
        async with aclosing(read_log(rest, path, container, parser)) as lines:
            async for shown in lines:
                if shown.at == line.at:
                    return True
    except ContainerGone:
        return False
    except RuntimeUnknown:
        if not is_kubelet_away:
            raise
        return False
    return parser.unfinished is not None and parser.unfinished.at == line.at


async def _is_log(response: HttpStream, path: str) -> bool:
    """Whether the response contains a log; False: nothing is written yet. Raises ContainerGone; LogRefused."""
    if response.status == HTTPStatus.NOT_FOUND:
        if ApiReply(status=response.status, content=await response.content()).is_absence:
            raise ContainerGone(f"{path} does not exist")
        raise RuntimeUnknown(f"logs of {path}: status {response.status} by a proxy")
    if response.status not in {HTTPStatus.OK, *NOT_STARTED}:
        raise LogRefused(f"logs: status {response.status}")
    return response.status == HTTPStatus.OK


def log_query(container: str, after: int, *, follow: bool = False) -> dict[str, str]:
    """The query of a log from `after` on, in nanoseconds. The API server also sends lines with exactly this stamp."""
    query = {"container": container, "timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if after <= 0:
        return query
    second = datetime.fromtimestamp(after // SECOND, UTC)
    return query | {"sinceTime": f"{second:%Y-%m-%dT%H:%M:%S}.{after % SECOND:0{DIGITS}d}Z"}


class LogParser:
    """Parses the lines of a log from the pieces in which the log arrives."""

    def __init__(self, *, after: int) -> None:
        """Lines with a stamp up to `after`, in nanoseconds, are left out."""
        self.after = after
        #: After the end of the log: the beginning of the line that it ends within; None: it ends with a whole line.
        self.unfinished: LogLine | None = None
        self._buffer = b""
        #: The latest stamp until now.
        self.newest = after
        #: The bytes that have arrived.
        self.received = 0
        #: The stamp of the present line, or of the line before; 0: no line had a stamp until now.
        self._at = 0
        #: Whether the buffer continues a line whose beginning was returned, because the line is too long.
        self._is_rest = False
        self._decoder = _new_decoder()
        #: The text before the first stamp: the rest of a line that began before `after`, or no log.
        self._unstamped = b""

    @property
    def is_within_line(self) -> bool:
        """Whether a part of a line has arrived and not its end."""
        return bool(self._buffer) or self._is_rest

    def lines(self, chunk: bytes) -> list[LogLine]:
        """The lines that the chunk finishes. Raises LogRefused for a text that is not a log."""
        self.received += len(chunk)
        *complete, self._buffer = (self._buffer + chunk).split(b"\n")
        parsed = [self._line(line, is_whole=True) for line in complete]
        while len(self._buffer) > 2 * MAX_LINE:
            cut = _cut(self._buffer)
            parsed.append(self._line(self._buffer[:cut], is_whole=False))
            self._buffer = self._buffer[cut:]
        return [line for line in parsed if line is not None]

    @property
    def position(self) -> int:
        """The stamp after which a reading continues that has ended."""
        return self.newest if self.unfinished is None else min(self.newest, self.unfinished.at - 1)

    def end(self) -> None:
        """The log has ended. Raises LogRefused if the text was not a log."""
        rest, self._buffer = self._buffer, b""
        self.unfinished = self._line(rest, is_whole=True) if rest else None
        if self._at == 0 and self._unstamped:
            raise _refusal(self._unstamped)

    def _line(self, line: bytes, *, is_whole: bool) -> LogLine | None:
        """A line with its stamp. `is_whole`: False: more of it follows. None: it is left out.

        Left out is also an error text of the kubelet at the end of a log whose container was removed while the log was
        followed.
        """
        stamp, is_rest, self._is_rest = STAMP.match(line), self._is_rest, not is_whole
        if stamp is None and not is_rest:
            if self._at == 0:
                self._unstamped = self._unstamped or line
                if self.after <= 0:
                    raise _refusal(line)
            return None
        if stamp is not None:
            line = line[stamp.end() :]
            # A part of a line that is split has the stamp of the line's beginning.
            self._at = self._at if is_rest else stamp_nanoseconds(stamp)
            self.newest = max(self.newest, self._at)
        text = _without_stamps(line)
        message = self._decoder.decode(text.removesuffix(b"\r") if is_whole else text, is_whole)
        return LogLine(at=self._at, message=message) if self._at > self.after else None


class UnfinishedLines:
    """Since when the logs of running containers end within a line.

    A reading may see a part of what the program writes as one line. So the part is left out, and the next reading has
    the whole line. A program that writes no line ends, as a progress bar, is shown part by part after LINE_WAIT.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: By container, the stamp of the line and when a reading ended within it first.
        self._lines: dict[Tag, tuple[int, datetime]] = {}

    def is_old(self, tag: Tag, stamp: int) -> bool:
        """Whether a reading ended within this line LINE_WAIT ago."""
        now = self._clock.now()
        known, since = self._lines.get(tag, (0, now))
        if known != stamp:
            self._lines[tag] = stamp, now
        return known == stamp and now - since >= LINE_WAIT

    def forget(self, tag: Tag) -> None:
        """The container was removed."""
        self._lines.pop(tag, None)


def _new_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _refusal(text: bytes) -> LogRefused:
    return LogRefused(f"logs: {text[:200].decode(errors='replace')}")


def _cut(line: bytes) -> int:
    """Where to split a line that is too long: before a stamp inside it, if it has one."""
    stamp, cut = STAMP.match(line), MAX_LINE
    end = 0 if stamp is None else stamp.end()
    while end + PIECE < MAX_LINE and (stamp := STAMP.match(line, end + PIECE)) is not None:
        cut, end = stamp.start(), stamp.end()
    return cut


def _without_stamps(content: bytes) -> bytes:
    """The content of a line without the stamps between its pieces."""
    pieces = []
    while len(content) > PIECE and (stamp := STAMP.match(content, PIECE)) is not None:
        pieces.append(content[:PIECE])
        content = content[stamp.end() :]
    return b"".join((*pieces, content))


class FollowedLog:
    """A log that is read to its end while the container is stopped by a deletion, after which it cannot be read."""

    def __init__(self, rest: RestClient, path: str, container: str) -> None:
        self._rest = rest
        self._path = path
        self._container = container
        #: What the connection that received most has received, up to MAX_FOLLOWED, and how many bytes it received.
        self._content, self._size = list[bytes](), 0
        self._connected = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name=f"kubernetes: follow {path}")

    async def wait_until_connected(self) -> None:
        """Wait until the log is being read, or cannot be read. Raises RuntimeUnknown after FOLLOW_START."""
        try:
            async with asyncio.timeout(FOLLOW_START):
                await self._connected.wait()
        except TimeoutError as error:
            raise RuntimeUnknown(f"logs: {self._path} cannot be followed") from error

    async def lines(self, *, after: int) -> AsyncGenerator[LogLine, None]:
        """All lines, once the log has ended."""
        await asyncio.wait([self._task])

        parser = LogParser(after=after)
        for chunk in self._content:
            for line in parser.lines(chunk):
                yield line
        parser.end()
        if parser.unfinished is not None:
            yield parser.unfinished

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        try:
            while await self._read():
                pass
        finally:
            self._connected.set()

    async def _read(self) -> bool:
        """Follow the log from its beginning over one connection. Returns whether it must be followed again.

        True after a silence: a program may write nothing for minutes while it stops, and a broken connection looks the
        same.
        """
        content, size = list[bytes](), 0
        try:
            query = log_query(self._container, 0, follow=True)
            async with self._rest.stream(f"{self._path}/log", query, is_followed=True) as response:
                self._connected.set()
                while response.status == HTTPStatus.OK:
                    async with asyncio.timeout(SILENCE):
                        chunk = await response.read()
                    if not chunk:
                        return False
                    size += len(chunk)
                    if size <= MAX_FOLLOWED:
                        content.append(chunk)
        except TimeoutError:
            return True
        except RuntimeUnknown:
            return False
        finally:
            if size > self._size:
                self._content, self._size = content, size
        return False
