"""Parses the engine's log stream into lines.

The engine sends the output in frames, each with its stream and a time stamp. It splits a line of more than 16 KB into
several frames, each with the stamp of the line's beginning; they are joined here. A line that is still being written is
returned as far as it exists. The stream of a terminal has no frames.
"""

import logging
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from batchq.errors import EngineUnknown
from batchq.ports.logs import LogLine

MAX_LINE = 2**20  # bytes; a longer line is split into several
MAX_FRAME = 2**24  # bytes; no engine sends a longer one
MAX_TERMINAL_LINE = 2**16  # bytes; a longer line of a terminal is split, so that it is not buffered as a whole
HEADER = struct.Struct(">BxxxL")
STDOUT, ENGINE_ERROR = 1, 3  # stream 3 carries error messages of the engine itself
FRAMED = tuple(bytes([stream, 0, 0, 0]) for stream in range(ENGINE_ERROR + 1))
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
DIGITS = 9
SECOND = 1_000_000_000

log = logging.getLogger(__name__)


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
    """The lines with a stamp later than `after`, in nanoseconds. Raises EngineUnknown for a frame that is too long."""
    incomplete: dict[int, list[Frame]] = {}
    for frame in _parse_frames(chunks):
        if frame.at <= after:
            continue
        frames = incomplete.setdefault(frame.stream, [])
        frames.append(frame)
        if frame.ends_line or sum(len(it.content) for it in frames) >= MAX_LINE:
            yield _line(incomplete.pop(frame.stream))
    for frames in incomplete.values():
        yield _line(frames)


def _line(frames: Sequence[Frame]) -> LogLine:
    content = b"".join(frame.content for frame in frames)
    return LogLine(at=frames[0].at, message=content.removesuffix(b"\r").decode(errors="replace"))


def since_parameter(after: int) -> str:
    """The `since` parameter for a time in nanoseconds. The engine also sends lines with exactly this stamp."""
    after = max(after, 0)
    return f"{after // SECOND}.{after % SECOND:0{DIGITS}d}"


def _parse_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """The contents of the frames. An error message of the engine is logged, and ends the iteration."""
    at = 0
    for stream, payload in _payloads(iter(chunks)):
        if stream == ENGINE_ERROR:
            log.warning("the engine stopped reading a log: %s", payload.decode(errors="replace").strip())
            return
        stamp = STAMP.match(payload)
        # In the stream of a terminal the rest of a split line has no stamp.
        at = _nanoseconds(stamp) if stamp else at
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
            raise EngineUnknown(f"logs: a frame of {length} bytes")
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


def _nanoseconds(stamp: re.Match[bytes]) -> int:
    second, fraction, zone = stamp.groups(b"")
    return int(_seconds(second + zone)) * SECOND + int(fraction.ljust(DIGITS, b"0"))


@lru_cache(maxsize=16)
def _seconds(stamp: bytes) -> int:
    return round(datetime.fromisoformat(stamp.decode()).timestamp())
