"""The log archive on files: one file for each log id, one record for each line. Also helpers for data directories.

A record is `<at> <behind> <message>`: the time in nanoseconds since the epoch, by how many nanoseconds the container
engine's timestamp is earlier, and the message as a JSON string. A line feed only occurs at the end of a record.
Positions are byte offsets. A record without line feed was cut off by a crash: it is never read, and the next append
removes it. No other process writes the files.
"""

import asyncio
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from io import SEEK_END, BytesIO
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO, Concatenate, ParamSpec, TypeVar

import msgspec

from batchq.errors import Invalid, StoreFailed
from batchq.ports.logs import LogLine, LogPage, StoredLine


def sync(folder: Path) -> None:
    """Fsync a directory, so that created, renamed and removed entries are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # not the database
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


P = ParamSpec("P")

T = TypeVar("T")

LOG_ID = re.compile(r"[0-9a-f]{32}")

BLOCK_BYTES = 64 * 1024

_decode = msgspec.json.Decoder(str).decode  # in a quarter of the time of json.loads

MAX_THREADS = 4


class LogFiles:
    """The LogArchive in a directory. File access blocks, so each call runs in a small thread pool."""

    def __init__(self, directory: Path) -> None:
        """`directory` is created with the first log; its parent must exist."""
        self._directory = directory
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="log-files")

    def close(self) -> None:
        """Wait for all calls that have begun."""
        self._threads.shutdown()

    async def last(self, log_id: str) -> int:
        return await self._call(_last, log_id)

    async def append(self, log_id: str, lines: Sequence[LogLine]) -> int:
        return await self._call(_append, log_id, _records, lines)

    async def annotate(self, log_id: str, line: LogLine) -> None:
        await self._call(_append, log_id, _annotation_records, [line])

    async def read(self, log_id: str, *, position: int, limit: int, max_bytes: int) -> LogPage:
        return await self._call(_read, log_id, position, limit, max_bytes)

    async def read_back(self, log_id: str, *, position: int | None, limit: int, max_bytes: int) -> LogPage:
        return await self._call(_read_back, log_id, position, limit, max_bytes)

    async def seek(self, log_id: str, at: int) -> int:
        return await self._call(_seek, log_id, at)

    async def count(self, log_id: str, *, start: int, end: int) -> int:
        return await self._call(_count, log_id, start, end)

    async def size(self, log_id: str) -> int:
        return await self._call(_size, log_id)

    async def total(self, log_ids: Sequence[str]) -> int:
        return await self._in_thread(
            partial(_total, [self._path(log_identifier) for log_identifier in log_ids]), "the sizes of logs"
        )

    async def discard(self, log_id: str) -> None:
        await self._call(_discard, log_id)

    async def stored_bytes(self) -> int:
        """Reads one folder at a time, so that other calls do not wait for all of them."""
        folders = await self._in_thread(partial(_entries, self._directory), "the folders of logs")
        return sum([await self._in_thread(partial(_folder_size, path), "the sizes of logs") for path in folders])

    async def _call(self, work: Callable[Concatenate[Path, P], T], log_id: str, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(partial(work, self._path(log_id), *args, **kwargs), f"log {log_id}")

    async def _in_thread(self, work: Callable[[], T], description: str) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (OSError, RuntimeError) as failure:  # RuntimeError: the machine cannot start another thread
            raise StoreFailed(f"{description}: {failure}") from failure

    def _path(self, log_id: str) -> Path:
        """The file of a log. Raises Invalid unless the log id is 32 hex digits, so that no other path can be built."""
        if not LOG_ID.fullmatch(log_id):
            raise Invalid("invalid log id: it must have 32 hexadecimal digits")
        return self._directory / log_id[:2] / f"{log_id}.log"


# --------------------------------------------------------------------------------------------------- in a thread: calls


def _last(path: Path) -> int:
    with _open_for_read(path) as file:
        return _latest(file, _end(file))


def _append(path: Path, encode: Callable[[Sequence[LogLine], int], bytes], lines: Sequence[LogLine]) -> int:
    """Append lines durably; returns the bytes written. `encode(lines, latest)` encodes lines after time `latest`."""
    new = not path.exists()
    with _open_for_append(path) as file:
        end = _end(file)
        records = encode(lines, _latest(file, end))
        file.truncate(end)
        file.seek(end)
        file.write(records)
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync(path.parent)
        sync(path.parent.parent)
    return len(records)


def _read(path: Path, position: int, limit: int, max_bytes: int) -> LogPage:
    with _open_for_read(path) as file:
        _check_boundary(file, position)
        file.seek(position)
        complete = (record for record in file if record.endswith(b"\n"))
        return _page(position, _limited(complete, limit, max_bytes))


def _read_back(path: Path, position: int | None, limit: int, max_bytes: int) -> LogPage:
    with _open_for_read(path) as file:
        end = _end(file) if position is None else position
        _check_boundary(file, end)
        records = _limited(_backwards(file, end), limit, max_bytes)[::-1]
        return _page(end - sum(map(len, records)), records)


def _seek(path: Path, at: int) -> int:
    with _open_for_read(path) as file:
        low, high = 0, _end(file)
        while low < high:
            begin = _begin(file, (low + high) // 2)
            file.seek(begin)
            record = file.readline()
            if _at(record) >= at:
                high = begin
            else:
                low = begin + len(record)
        return low


def _count(path: Path, start: int, end: int) -> int:
    with _open_for_read(path) as file:
        file.seek(start)
        blocks = (file.read(min(BLOCK_BYTES, end - at)) for at in range(start, end, BLOCK_BYTES))
        return sum(block.count(b"\n") for block in blocks)


def _size(path: Path) -> int:
    with _open_for_read(path) as file:
        return _end(file)


def _total(paths: Sequence[Path]) -> int:
    """The total size of the files; missing files count 0 bytes."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.stat().st_size
    return total


def _entries(folder: Path) -> Sequence[Path]:
    """The files and folders in a folder; none if it does not exist."""
    try:
        return tuple(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _folder_size(folder: Path) -> int:
    return _total(_entries(folder))


def _discard(path: Path) -> None:
    """Delete a file. Not fsynced: a file that returns after a power failure is unused, and only takes space."""
    path.unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------- in a thread: files


@contextmanager
def _open_for_read(path: Path) -> Iterator[BinaryIO]:
    """The log, opened for reading; empty if the file does not exist."""
    try:
        file: BinaryIO = path.open("rb")
    except FileNotFoundError:
        file = BytesIO()
    with file:
        yield file


def _open_for_append(path: Path) -> BinaryIO:
    """The log, opened for writing and locked, so that an append of a cancelled caller ends before the next begins."""
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+b")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _end(file: BinaryIO) -> int:
    """Where the last complete record ends; bytes behind it were cut off by a crash."""
    return _begin(file, file.seek(0, SEEK_END))


def _begin(file: BinaryIO, before: int) -> int:
    """The beginning of the record that contains the offset `before`: just behind the last line feed below it."""
    at = before
    while at > 0:
        at, below = max(at - BLOCK_BYTES, 0), at
        file.seek(at)
        found = file.read(below - at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
    return 0


def _check_boundary(file: BinaryIO, position: int) -> None:
    if position == 0:
        return
    if 0 < position <= file.seek(0, SEEK_END):
        file.seek(position - 1)
        if file.read(1) == b"\n":
            return
    raise Invalid(f"invalid position in the log: {position}")


# ------------------------------------------------------------------------------------------------- in a thread: records


def _backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    """The records before the offset `end`, last first."""
    at, cut = end, b""
    while at > 0:
        at, below = max(at - BLOCK_BYTES, 0), at
        file.seek(at)
        cut, *whole = (file.read(below - at) + cut).splitlines(keepends=True)
        yield from reversed(whole)
    if cut:
        yield cut


def _limited(records: Iterable[bytes], limit: int, max_bytes: int) -> list[bytes]:
    """The first records within both limits; at least one if there is one."""
    taken: list[bytes] = []
    room = max_bytes
    for record in islice(records, limit):
        room -= len(record)
        if taken and room < 0:
            break
        taken.append(record)
    return taken


def _page(start: int, records: list[bytes]) -> LogPage:
    positions = list(accumulate(map(len, records), initial=start))
    return LogPage(lines=tuple(map(_line, positions, records)), start=start, end=positions[-1])


def _line(position: int, record: bytes) -> StoredLine:
    """The line of a record. A damaged record becomes a line with its raw text and time 0."""
    try:
        at, behind, message = record.split(b" ", 2)
        stamped = int(at) - int(behind)
        return StoredLine(position=position, at=int(at), stamped=stamped, message=_decode(message))
    except ValueError:
        shown = record.decode("utf-8", "replace").rstrip("\n")
        return StoredLine(position=position, at=0, stamped=0, message=shown)


def _at(record: bytes) -> int:
    return _line(0, record).at


def _latest(file: BinaryIO, end: int) -> int:
    """The time of the last undamaged record before `end`; 0 without one."""
    return next(filter(None, map(_at, _backwards(file, end))), 0)


def _records(lines: Sequence[LogLine], latest: int) -> bytes:
    text = []
    for line in lines:
        latest = max(latest, line.at)
        text.append(f"{latest} {latest - line.at} {json.dumps(line.message, ensure_ascii=False)}\n")
    return "".join(text).encode("utf-8", "replace")


def _annotation_records(lines: Sequence[LogLine], latest: int) -> bytes:
    """The records of lines that batchq writes: `behind` equals `at`, so their timestamp is 0."""
    text = []
    for line in lines:
        latest = max(latest, line.at)
        text.append(f"{latest} {latest} {json.dumps(line.message, ensure_ascii=False)}\n")
    return "".join(text).encode("utf-8", "replace")
