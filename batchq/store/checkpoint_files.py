"""The checkpoint store on disk: one directory for each job below a root directory that only the server can enter.

    ROOT/JOB           mode 0777, mounted in the containers of the job
    ROOT/JOB.marks     which checkpoints existed at which moments (`checkpoint_marks`)
    ROOT/.clock        a file that is touched to read the clock of the disk
    ROOT/.deleted      what is being deleted (`checkpoint_removal`)

Containers choose names, sizes, depths and links in JOB, also while the server reads or deletes. So JOB is accessed by
descriptors only, no link is followed, and what is read is bounded.
"""

import asyncio
import errno
import os
import re
import stat
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.enums import CheckpointType
from batchq.domain.ids import JobId
from batchq.domain.times import from_microseconds
from batchq.domain.training import (
    METRICS_FILE,
    MOUNT_POINT,
    checkpoint_id,
    epoch_of,
    escaped,
    is_checkpoint,
    is_temporary,
    step_of,
)
from batchq.errors import Invalid, StoreFailed
from batchq.ports.checkpoints import Checkpoint, Moment, PreparedDirectory
from batchq.store.checkpoint_marks import Marks, read_marks, write_marks
from batchq.store.checkpoint_removal import NOT_READABLE, Removal, delete_selected, opened_directory
from batchq.system.host import NetworkDiskGuard, free_disk
from batchq.system.turns import UserTurns, works_for_server

MAX_NAMES = 10_000  # names of a job's directory that one call reads
MAX_CHECKPOINTS = 1000  # checkpoints that one call returns: the newest ones
MAX_FILES = 20_000  # files below checkpoints that one call inspects
MAX_DEPTH = 16  # directories below a checkpoint that are inspected
QUIET = timedelta(seconds=2)  # without a change, after which a checkpoint counts as complete
ROOT_MODE, JOB_MODE = 0o700, 0o777
MAX_METRICS = 1024 * 1024  # bytes of METRICS_FILE that are read, the last ones
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MARKS, CLOCK = ".marks", ".clock"
READ_TIMEOUT = 10.0  # seconds for which a read waits for the disk
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_-]{0,127}")
MAX_THREADS = 2

T = TypeVar("T")


def changed_at(found: os.stat_result) -> int:
    """When the file was last changed, in nanoseconds since the epoch. A container cannot set this time."""
    return found.st_ctime_ns


def modified_at(found: os.stat_result) -> int:
    """When the content was last changed, in nanoseconds since the epoch, as the writer states it."""
    return found.st_mtime_ns


class CheckpointFiles:
    """The CheckpointStore in a directory. File access blocks: reads and deletions have threads of their own."""

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], datetime] | None = None,
        changed_at: Callable[[os.stat_result], int] = changed_at,
    ) -> None:
        """`root` is created with the first job's directory.

        `now` returns the time by the clock of the timestamps; None: that of a file that is touched.
        """
        self._root = root
        self._now = self._disk_time if now is None else now
        self._changed_at = changed_at
        #: Held while the marks of a job are changed.
        self._marking = threading.Lock()
        self._turns = UserTurns()  # users read with one of the threads: starts of jobs do not wait for them
        self._readers = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="checkpoints")
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="checkpoint-removal")
        self._user_removals = UserTurns()  # at another thread: a user does not wait for deletions of the server
        self._user_remover = ThreadPoolExecutor(1, thread_name_prefix="user-removal")
        #: The deletions of users that are under way, which those of the server leave alone.
        self._removals = set[str]()

    def close(self) -> None:
        """Begin no further calls. A deletion that has begun may last: the next server continues it."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._remover.shutdown(wait=False, cancel_futures=True)
        self._user_remover.shutdown(wait=False, cancel_futures=True)

    async def directory(self, job_id: JobId) -> Path | None:
        path = self._path(job_id)
        return path if await self._in_thread(self._readers, path.is_dir, f"the directory of {job_id}") else None

    async def prepare(
        self, job_id: JobId, *, ended: bool, final: tuple[Moment, str] | None = None
    ) -> PreparedDirectory:
        work = partial(self._prepare, job_id, self._path(job_id), ended=ended, final=final)
        return await self._in_thread(self._readers, work, f"the directory of {job_id}")

    async def mark(self, job_id: JobId, moment: Moment | None, *, ended: bool = True) -> None:
        def unless_marked(marks: Marks) -> Marks:
            if moment is None:
                return self._marked(job_id, marks)
            known = marks.at(moment) is not None
            return marks if known else self._marked(job_id, marks, ended=ended).with_moment(moment)

        await self._in_thread(self._readers, partial(self._mark, job_id, unless_marked), f"the marks of {job_id}")

    async def entries(self, job_id: JobId, *, ended: bool, since: Moment | None = None) -> tuple[Checkpoint, ...]:
        work = partial(self._entries, job_id, ended=ended, since=since)
        return await self._in_thread(self._readers, work, f"the checkpoints of {job_id}")

    async def metrics(self, job_id: JobId) -> bytes:
        work = partial(_end_of_metrics, self._path(job_id))
        return await self._in_thread(self._readers, work, f"the metrics of {job_id}")

    async def record_request(self, job_id: JobId) -> None:
        work = partial(self._mark, job_id, lambda marks: self._marked(job_id, marks).with_request())
        await self._in_thread(self._readers, work, f"the marks of {job_id}")

    async def discard(self, job_id: JobId, names: Collection[str]) -> None:
        await asyncio.shield(self._remove_in_turns(job_id, names))  # continues also if the caller is cancelled

    async def discard_except(self, job_id: JobId, names: Collection[str]) -> None:
        await self._remove(job_id, lambda text: escaped(text) not in names)

    async def discard_temporary(self, job_id: JobId) -> None:
        await self._remove(job_id, is_temporary)

    async def jobs(self, *, after: JobId | None, limit: int) -> tuple[JobId, ...]:
        return await self._in_thread(self._readers, partial(_jobs, self._root, after, limit), "the checkpoints")

    def disk_guard(self, *, min_free: int) -> NetworkDiskGuard:
        """Rejects jobs with checkpoints while less than `min_free` bytes of the disk are free."""
        return NetworkDiskGuard(
            free=lambda: free_disk(next(path for path in (self._root, *self._root.parents) if path.is_dir())),
            min_free=min_free,
            directory="checkpoint directory",
            rejected="jobs with checkpoints are rejected",
        )

    async def _remove_in_turns(self, job_id: JobId, names: Collection[str]) -> None:
        """Delete the checkpoints with these names, in steps. Other users have their turns between two steps."""
        removal = Removal(self._root, MAX_NAMES)
        self._removals.add(removal.name)
        try:
            selects = partial(_is_named, names)
            step: Callable[[], bool] = partial(removal.move, self._path(job_id), selects)
            while await self._in_thread(self._user_remover, step, f"the deletion of checkpoints of {job_id}"):
                step = removal.continued
        finally:
            self._removals.discard(removal.name)

    async def _remove(self, job_id: JobId, selects: Callable[[str], bool]) -> None:
        """Delete the selected entries; then the directory, with the file of its marks, if it is empty."""
        work = partial(
            delete_selected,
            self._root,
            self._path(job_id),
            selects,
            most=MAX_NAMES,
            marks=self._marks(job_id),
            under_way=self._removals,
        )
        await self._in_thread(self._remover, work, f"the deletion of checkpoints of {job_id}")

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], T], about: str) -> T:
        """Run the work in a thread. A reader's caller does not wait longer than READ_TIMEOUT for a disk that hangs."""
        turns = {self._readers: self._turns, self._user_remover: self._user_removals}.get(threads)
        try:
            async with asyncio.timeout(READ_TIMEOUT if threads is self._readers else None):
                begin = partial(asyncio.get_running_loop().run_in_executor, threads, work)
                return await (begin() if turns is None or works_for_server() else turns.run(begin))
        except TimeoutError as failure:
            raise StoreFailed(f"{about}: the disk does not answer within {READ_TIMEOUT:g} s") from failure
        except (OSError, RuntimeError) as failure:  # RuntimeError: the machine cannot start another thread
            raise StoreFailed(f"{about}: {failure}") from failure

    def _path(self, job_id: JobId) -> Path:
        """The directory of a job. Raises Invalid for an id from which another path could be built."""
        if not JOB_ID.fullmatch(job_id):
            raise Invalid(f"invalid job id: {job_id}")
        return self._root / job_id

    def _marks(self, job_id: JobId) -> Path:
        return self._path(job_id).with_name(f"{job_id}{MARKS}")

    def _disk_time(self) -> datetime:
        """The time by the clock of the disk: that of the last change of a file that is touched now."""
        file = self._root / CLOCK
        file.touch(mode=0o600)
        return _time(self._changed_at(file.stat()))

    def _prepare(
        self, job_id: JobId, path: Path, *, ended: bool, final: tuple[Moment, str] | None
    ) -> PreparedDirectory:
        _create(self._root, path)
        # A name that is escaped is not the name of the file.
        names = [
            checkpoint.name
            for checkpoint in self._entries(job_id, ended=ended)
            if checkpoint.complete and "\\" not in checkpoint.name
        ]
        if final is not None and final[1] in names:
            later = self._entries(job_id, ended=ended, since=final[0])
            names += [] if any(checkpoint.complete for checkpoint in later) else [final[1]]

        def change(marks: Marks) -> Marks:
            marked = self._marked(job_id, marks)
            # The other containers of the attempt need the moment of the final checkpoint too.
            return marked.with_only(None if final is None else final[0]) if ended else marked

        self._mark(job_id, change)
        return PreparedDirectory(path=path, resume_from=f"{MOUNT_POINT}/{names[-1]}" if names else None)

    def _mark(self, job_id: JobId, change: Callable[[Marks], Marks]) -> None:
        """Change the stored marks of a job that has a directory."""
        file = self._marks(job_id)
        with self._marking:
            if self._path(job_id).is_dir() and (after := change(before := read_marks(file))) is not before:
                write_marks(file, after)

    def _marked(self, job_id: JobId, marks: Marks, *, ended: bool = True) -> Marks:
        """The marks with one more, at which the present checkpoints exist. `ended` as in `mark`."""
        found, now = self._scan(self._path(job_id)), None if ended else self._now()
        incomplete = {escaped(name) for name, size in found if not size.is_complete(now)}
        return marks.marked({escaped(name): size.changed_at for name, size in found}, incomplete=incomplete)

    def _scan(self, path: Path) -> list[tuple[str, "_Size"]]:
        """The checkpoints in a directory, by name; empty without the directory."""
        found: list[tuple[str, _Size]] = []
        with opened_directory(path) as folder:
            if folder is None:
                return found
            scan = _Scan(self._changed_at)
            for name in _names(folder, MAX_NAMES):
                size = scan.size_of(folder, name) if is_checkpoint(name) else None
                if size is not None:
                    found.append((name, size))
        return found

    def _entries(self, job_id: JobId, *, ended: bool, since: Moment | None = None) -> tuple[Checkpoint, ...]:
        found, marks = self._scan(self._path(job_id)), read_marks(self._marks(job_id))
        if not found:
            return ()
        now = None if ended else self._now()  # after the scan: no entry is newer unless the clock was set back
        ordered: list[tuple[int, Checkpoint]] = []
        for name, size in found:
            checkpoint = Checkpoint(
                id=checkpoint_id(job_id, name),
                name=escaped(name),
                size_bytes=size.bytes,
                created_at=_time(size.changed_at),
                epoch=epoch_of(name),
                step=step_of(name),
                complete=size.is_complete(now),
            )
            ordered.append((marks.period(checkpoint.name, size.changed_at), checkpoint))
        ordered.sort(key=lambda pair: (pair[0], pair[1].created_at, pair[1].name))
        ordered = _with_types(ordered[-MAX_CHECKPOINTS:], marks.requests)
        first = 0 if since is None else marks.at(since)
        return tuple(checkpoint for period, checkpoint in ordered if first is not None and period > first)


class _Size(Struct, frozen=True, kw_only=True):
    """The content of a checkpoint."""

    bytes: int
    #: The latest change, in nanoseconds since the epoch.
    changed_at: int

    def is_complete(self, now: datetime | None) -> bool:
        """Whether it has not changed for QUIET at `now`; None: no container can change it any more."""
        return now is None or not now - QUIET < _time(self.changed_at) <= now


class _Scan:
    """Measures checkpoints until MAX_FILES files were inspected."""

    def __init__(self, changed_at: Callable[[os.stat_result], int]) -> None:
        self._changed_at = changed_at
        self._files_left = MAX_FILES

    def size_of(self, folder: int, name: str, depth: int = 0) -> _Size | None:
        """The content of an entry of the open directory; None: neither a file nor a directory, or it disappeared."""
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                return _Size(bytes=found.st_size, changed_at=self._changed_at(found))
            if stat.S_ISDIR(found.st_mode):
                return self._size_below(folder, name, found, depth)
        return None

    def _size_below(self, folder: int, name: str, found: os.stat_result, depth: int) -> _Size:
        total, latest = 0, self._changed_at(found)
        if depth < MAX_DEPTH:
            with opened_directory(name, dir_fd=folder) as opened:
                for inner in () if opened is None else _names(opened, self._files_left):
                    self._files_left -= 1
                    size = self.size_of(opened, inner, depth + 1) if opened is not None else None
                    if size is not None:
                        total, latest = total + size.bytes, max(latest, size.changed_at)
        return _Size(bytes=total, changed_at=latest)


def _end_of_metrics(path: Path) -> bytes:
    """The last MAX_METRICS bytes of METRICS_FILE. Opening it does not wait, also not for a writer of a pipe."""
    with opened_directory(path) as folder:
        if folder is None:
            return b""
        try:
            opened = os.open(METRICS_FILE, OPEN_FILE, dir_fd=folder)
        except OSError as failure:
            if failure.errno not in NOT_READABLE | {errno.ENXIO}:
                raise
            return b""
        try:
            found = os.fstat(opened)
            first = max(found.st_size - MAX_METRICS, 0)
            return os.pread(opened, MAX_METRICS, first) if stat.S_ISREG(found.st_mode) else b""
        finally:
            os.close(opened)


def _names(folder: int, most: int) -> Iterator[str]:
    """The names in an open directory, at most `most`, in the order of the file system."""
    with os.scandir(folder) as names:
        for entry in islice(names, max(most, 0)):
            yield entry.name


def _create(root: Path, path: Path) -> None:
    """Create the directory of a job. Its mode is set explicitly: the process's umask reduces that of `mkdir`."""
    root.mkdir(mode=ROOT_MODE, parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)
    with opened_directory(path) as folder:
        if folder is None:
            raise NotADirectoryError(f"{path} is not a directory")
        os.fchmod(folder, JOB_MODE)


def _jobs(root: Path, after: JobId | None, limit: int) -> tuple[JobId, ...]:
    with opened_directory(root) as folder:
        names = [] if folder is None else [name for name in _names(folder, sys.maxsize) if JOB_ID.fullmatch(name)]
    return tuple(map(JobId, nsmallest(limit, (name for name in names if after is None or name > after))))


def _is_named(names: Collection[str], text: str) -> bool:
    return escaped(text) in names and is_checkpoint(text)


def _with_types(ordered: list[tuple[int, Checkpoint]], requests: Collection[int]) -> list[tuple[int, Checkpoint]]:
    """The checkpoints with their periods, oldest first: the first one after the mark of each request is MANUAL."""
    first = {bisect_right(ordered, mark, key=lambda pair: pair[0]) for mark in requests}
    return [
        (period, replace(checkpoint, type=CheckpointType.MANUAL) if index in first else checkpoint)
        for index, (period, checkpoint) in enumerate(ordered)
    ]


def _time(nanoseconds: int) -> datetime:
    return from_microseconds(nanoseconds // 1000)
