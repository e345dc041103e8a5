"""Reads the log of a pod's container as lines.

The API server shows the newest file of the log, 10 MiB by default. It writes a time stamp before each line, and in a
long line after each 16 KiB. The text of an error comes with status 200 and without a stamp, so a line without one is
never output.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from http import HTTPStatus

from aiohttp import ClientResponse, StreamReader

from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.log_stamps import DIGITS, SECOND, STAMP, stamp_nanoseconds
from batchq.errors import ContainerGone, LogRefused, RuntimeUnknown
from batchq.ports.logs import LogLine

PIECE = 2**14  # bytes of a long line between two stamps
MAX_LINE = 2**20  # bytes; a longer line is split into several
MAX_FOLLOWED = 2**24  # bytes of a log that is kept in memory
#: A pod without a node has no content, and a container that waits on its node is a bad request.
NOT_STARTED = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.BAD_REQUEST})
FOLLOW_START = 5.0  # seconds in which a follower must be connected
#: Seconds without output after which a followed log is requested again: the connection may be broken unnoticed.
SILENCE = 60.0
#: The same for kubelets before 1.30: they go on to follow a file that was rotated away, which is silent.
OLD_SILENCE = 2.0


async def read_log(rest: RestClient, path: str, container: str, *, after: int) -> AsyncGenerator[LogLine, None]:
    """The lines of a container of the pod at the path, later than `after`. Raises ContainerGone; LogRefused."""
    query = log_query(container, after)
    async with rest.stream(f"{path}/log", query) as response:
        if _is_log(response, path):
            async for line in parse_log(response.content.iter_any(), after=after):
                yield line


async def follow_log(
    rest: RestClient, path: str, container: str, *, after: int, silence: float
) -> AsyncGenerator[list[LogLine], None]:
    """As `read_log`, and then what is written. The lines that arrive together are one item.

    It ends with the log, and after `silence` seconds without output.
    """
    query = log_query(container, after, follow=True)
    async with rest.stream(f"{path}/log", query, is_followed=True) as response:
        if _is_log(response, path):
            async with aclosing(_until_silent(response.content, silence)) as chunks:
                async for portion in _parse_portions(chunks, after=after):
                    if portion:
                        yield portion


def _is_log(response: ClientResponse, path: str) -> bool:
    """Whether the response contains a log; False: nothing is written yet. Raises ContainerGone; LogRefused."""
    if response.status == HTTPStatus.NOT_FOUND:
        raise ContainerGone(f"{path} does not exist")
    if response.status not in {HTTPStatus.OK, *NOT_STARTED}:
        raise LogRefused(f"logs: status {response.status}")
    return response.status == HTTPStatus.OK


async def _until_silent(content: StreamReader, silence: float) -> AsyncGenerator[bytes, None]:
    """What arrives, until its end or until nothing arrives for `silence` seconds."""
    try:
        while True:
            async with asyncio.timeout(silence):
                chunk = await content.readany()
            if not chunk:
                return
            yield chunk
    except TimeoutError:
        return


def log_query(container: str, after: int, *, follow: bool = False) -> dict[str, str]:
    """The query of a log from `after` on, in nanoseconds. The API server also sends lines with exactly this stamp."""
    query = {"container": container, "timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if after <= 0:
        return query
    second = datetime.fromtimestamp(after // SECOND, UTC)
    return query | {"sinceTime": f"{second:%Y-%m-%dT%H:%M:%S}.{after % SECOND:0{DIGITS}d}Z"}


async def parse_log(chunks: AsyncIterator[bytes], *, after: int) -> AsyncIterator[LogLine]:
    """The lines with a stamp later than `after`, in nanoseconds. Raises LogRefused for a text that is not a log."""
    async for portion in _parse_portions(chunks, after=after):
        for line in portion:
            yield line


async def _parse_portions(chunks: AsyncIterator[bytes], *, after: int) -> AsyncIterator[list[LogLine]]:
    """The lines of each chunk, as `parse_log`."""
    buffer, at, is_rest = b"", 0, False
    async for chunk in chunks:
        portion = []
        buffer += chunk
        *complete, buffer = buffer.split(b"\n")
        for line in complete:
            at, parsed = _line(line, at, is_rest=is_rest)
            is_rest = False
            if parsed is not None and parsed.at > after:
                portion.append(parsed)
        while len(buffer) > 2 * MAX_LINE:
            cut = _cut(buffer)
            at, parsed = _line(buffer[:cut], at, is_rest=is_rest)
            buffer, is_rest = buffer[cut:], True
            if parsed is not None and parsed.at > after:
                portion.append(parsed)
        yield portion
    if buffer:
        at, parsed = _line(buffer, at, is_rest=is_rest)
        if parsed is not None and parsed.at > after:
            yield [parsed]


def _line(line: bytes, at: int, *, is_rest: bool) -> tuple[int, LogLine | None]:
    """A line, and its stamp. `at` is the stamp of the line before, which the rest of a split line continues.

    None: an error text of the kubelet at the end of a log whose container was removed while the log was followed.
    """
    stamp = STAMP.match(line)
    if stamp is None and at == 0:
        raise LogRefused(f"logs: {line[:200].decode(errors='replace')}")
    if stamp is None and not is_rest:
        return at, None
    at = at if stamp is None else stamp_nanoseconds(stamp)
    content = line[stamp.end() :] if stamp is not None else line
    return at, LogLine(at=at, message=_without_stamps(content).removesuffix(b"\r").decode(errors="replace"))


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
        self._content: list[bytes] = []
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

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in self._content:
                yield chunk

        async for line in parse_log(chunks(), after=after):
            yield line

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow(self) -> None:
        try:
            async with self._rest.stream(f"{self._path}/log", log_query(self._container, 0, follow=True)) as response:
                self._connected.set()
                size = 0
                async for chunk in response.content.iter_any():
                    size += len(chunk)
                    if response.status == HTTPStatus.OK and size <= MAX_FOLLOWED:
                        self._content.append(chunk)
        except RuntimeUnknown:
            return
        finally:
            self._connected.set()
