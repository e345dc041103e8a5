"""Reads a container's log in portions, and parses the engine's log stream into lines.

The engine sends the output in frames, each with its stream and a time stamp. It splits a line of more than 16 KB into
several frames, each with the stamp of the line's beginning; they are joined here. A line that is still being written is
returned as far as it exists. The stream of a terminal has no frames.
"""

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from docker.errors import NotFound
from msgspec import Struct
from requests import Response

from batchq.compute.docker.client import Client
from batchq.compute.docker.containers import Containers
from batchq.compute.docker.errors import (
    CONFLICT,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    message_of,
    redacted,
    reports_lower_layer_failure,
)
from batchq.compute.docker.inspection import member
from batchq.compute.log_stamps import DIGITS, SECOND, STAMP, stamp_nanoseconds
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, LogRefused, RuntimeUnknown
from batchq.ports.logs import LogLine

MAX_LINE = 2**20  # bytes; a longer line is split into several
MAX_FRAME = 2**24  # bytes; no engine sends a longer one
MAX_TERMINAL_LINE = 2**16  # bytes; a longer line of a terminal is split, so that it is not buffered as a whole
HEADER = struct.Struct(">BxxxL")  # of a frame of logs or of a session: the stream, and the length of the content
STDOUT, ENGINE_ERROR = 1, 3  # stream 3 carries error messages of the engine itself
FRAMED = tuple(bytes([stream, 0, 0, 0]) for stream in range(ENGINE_ERROR + 1))
READABLE = ("json-file", "local")  # log drivers that only write files of the engine
CHUNK = 2**16  # bytes
MAX_PORTION, LINE_OVERHEAD = 2**18, 100  # approximate bytes of a portion, and of a line beside its text

log = logging.getLogger(__name__)


class LogReader:
    """One pass over a log. Each call reads the next portion, so a long log is never in memory as a whole."""

    def __init__(self, containers: Containers, tag: Tag, *, after: int, receive_timeout: float) -> None:
        """Lines later than `after` are read, in nanoseconds since the epoch.

        `receive_timeout` is the timeout of each receive, in seconds: before the first byte the engine may decompress
        the log.
        """
        #: Whether all lines were returned.
        self.done = False
        self._containers = containers
        self._tag = tag
        self._after = after
        self._receive_timeout = receive_timeout
        self._response: Response | None = None
        self._lines: Iterator[LogLine] | None = None

    def read_portion(self, client: Client) -> list[LogLine]:
        """Read the next lines; the last portion, which may be empty, sets `done`. Raises ContainerGone; LogRefused."""
        if self._lines is None:
            self._lines = parse_lines(self._chunks(client), after=self._after)
        portion: list[LogLine] = []
        size = 0
        for line in self._lines:
            portion.append(line)
            size += LINE_OVERHEAD + len(line.message)
            if size >= MAX_PORTION:
                return portion
        self.done = True
        return portion

    def read_portion_or_remove(self, client: Client) -> list[LogLine]:
        """As `read_portion`, but if the log has no lines the container is removed."""
        portion = self.read_portion(client)
        if not portion:
            self._containers.remove(client, self._tag)
        return portion

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    def _chunks(self, client: Client) -> Iterable[bytes]:
        container_id = self._containers.id_of(client, self._tag)
        self._response = open_log(client, container_id, after=self._after, receive_timeout=self._receive_timeout)
        return () if self._response is None else self._response.iter_content(CHUNK)


def open_log(client: Client, container_id: str, *, after: int, receive_timeout: float) -> Response | None:
    """Request the engine's log stream from `after` on, in nanoseconds; None: the log driver does not support reading.

    Raises ContainerGone; LogRefused. Secret options of the log driver are removed from the error texts.
    """
    url = f"{client.base_url}/v{client.api_version}/containers/{container_id}/logs"
    parameters: dict[str, str | int] = {
        "stdout": 1,
        "stderr": 1,
        "timestamps": 1,
        "follow": 0,
        "since": since_parameter(after),
    }
    response = client.get_stream(url, parameters, receive_timeout=receive_timeout)
    if response.ok:
        return response
    with closing(response):
        text = response.text
    if response.status_code in (NOT_FOUND, CONFLICT):  # it does not exist, or is being removed
        raise ContainerGone(redacted(text))
    if response.status_code == NOT_IMPLEMENTED:
        return None
    driver, options = _log_driver(client, container_id)
    if driver not in READABLE:
        return None
    why = f"logs: {redacted(text, options)}"
    raise RuntimeUnknown(why) if reports_lower_layer_failure(text) else LogRefused(why)


def _log_driver(client: Client, container_id: str) -> tuple[str, list[str]]:
    """The name of the log driver, and the values of its options, any of which may be secret. Raises ContainerGone."""
    try:
        stored = member(client.inspect_container(container_id), "HostConfig", "LogConfig", of=dict)
    except NotFound as error:
        raise ContainerGone(message_of(error)) from error
    options = stored.get("Config")
    return str(stored.get("Type")), [str(option) for option in options.values()] if isinstance(options, dict) else []


def since_parameter(after: int) -> str:
    """The `since` parameter for a time in nanoseconds. The engine also sends lines with exactly this stamp."""
    after = max(after, 0)
    return f"{after // SECOND}.{after % SECOND:0{DIGITS}d}"


class Frame(Struct, frozen=True):
    """The content of one frame."""

    stream: int
    #: Nanoseconds since the epoch.
    at: int
    #: The output, without the newline.
    content: bytes
    #: Whether it ends with a newline.
    ends_line: bool


def parse_lines(chunks: Iterable[bytes], *, after: int) -> Iterator[LogLine]:
    """The lines with a stamp later than `after`, in nanoseconds. Raises RuntimeUnknown for a frame that is too long."""
    incomplete: dict[int, list[Frame]] = {}
    for frame in _parse_frames(chunks):
        if frame.at <= after:
            continue
        frames = incomplete.setdefault(frame.stream, [])
        frames.append(frame)
        if frame.ends_line or sum(len(frame.content) for frame in frames) >= MAX_LINE:
            yield _line(incomplete.pop(frame.stream))
    for frames in incomplete.values():
        yield _line(frames)


def _line(frames: Sequence[Frame]) -> LogLine:
    content = b"".join(frame.content for frame in frames)
    return LogLine(at=frames[0].at, message=content.removesuffix(b"\r").decode(errors="replace"))


def _parse_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """The contents of the frames. An error message of the engine is logged, and ends the iteration."""
    at = 0
    for stream, payload in _payloads(iter(chunks)):
        if stream == ENGINE_ERROR:
            log.warning("the engine stopped reading a log: %s", payload.decode(errors="replace").strip())
            return
        stamp = STAMP.match(payload)
        # In the stream of a terminal the rest of a split line has no stamp.
        at = stamp_nanoseconds(stamp) if stamp else at
        content = payload[stamp.end() :] if stamp else payload
        yield Frame(stream=stream, at=at, content=content.removesuffix(b"\n"), ends_line=content.endswith(b"\n"))


def _payloads(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The stream and the payload of each frame, or of each line of a terminal, which has no frames."""
    buffer = b""
    split = None
    for chunk in chunks:
        buffer += chunk
        if split is None and len(buffer) < HEADER.size:
            continue
        split = split or (_frames if buffer.startswith(FRAMED) else _terminal_lines)
        consumed = 0
        for stream, payload, end in split(buffer):
            yield stream, payload
            consumed = end
        buffer = buffer[consumed:]
    if buffer and split is not _frames:
        yield STDOUT, buffer


def _frames(buffer: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The complete frames in the buffer: stream, payload, and the position behind the frame."""
    start = 0
    while start + HEADER.size <= len(buffer):
        stream, length = HEADER.unpack_from(buffer, start)
        start += HEADER.size
        if length > MAX_FRAME:
            raise RuntimeUnknown(f"logs: a frame of {length} bytes")
        if start + length > len(buffer):
            return
        yield stream, buffer[start : start + length], start + length
        start += length


def _terminal_lines(buffer: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The complete lines in the buffer, long ones split: stream, line, and the position behind the line."""
    start = 0
    while (end := buffer.find(b"\n", start) + 1) or len(buffer) - start >= MAX_TERMINAL_LINE:
        end = end or start + MAX_TERMINAL_LINE
        yield STDOUT, buffer[start:end], end
        start = end
