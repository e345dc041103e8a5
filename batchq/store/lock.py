"""`batchq.lock`: one server to a data directory, and a note of whose data it is, and how it was left.

A file of its own, because to open and close a database's file beside SQLite is to lose SQLite's locks on it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batchq.errors import StoreRefused

NAME = "batchq.lock"
LOCKS = Path("/proc/locks")  # of Linux: a lock a line
_LONGEST = 500


class DataLock:
    """Held. `instance` is the one whose data stood here at the last start, None before there was any.

    `seal` is what its database was like when it was closed, None while it is open and after any other end. `copied`:
    the file is a copy of the one in which the instance was noted, so the data may be served elsewhere.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def instance(self) -> str | None:
        return self._word(0)

    @property
    def copied(self) -> bool:
        """By its inode, which `mv` within a file system keeps and no copy has. The device's number may change."""
        inode = self._word(1)
        return b"\n" in self._read() and inode is not None and inode != self._inode

    @property
    def seal(self) -> str | None:
        return self._line(1)

    def note(self, instance: str, seal: str | None = None, url: str | None = None) -> None:
        """Durable when this returns. Cut short it says whose data it is, and at worst a seal that fits nothing.

        `url` is where the server that has the data answers, None when there is none.
        """
        lines = f"{instance} {self._inode}\n{seal or ''}\n{url or ''}"
        wanted = f"{lines.rstrip()}\n".encode()
        if wanted != self._read():
            os.pwrite(self._descriptor, wanted, 0)
            os.ftruncate(self._descriptor, len(wanted))
            os.fsync(self._descriptor)

    def touch(self) -> int:
        """What the file system takes for now, in nanoseconds."""
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_mtime_ns

    @property
    def url(self) -> str | None:
        """Where the server that holds it answers, as far as it is noted."""
        return self._line(2)

    @property
    def _inode(self) -> str:
        return str(os.fstat(self._descriptor).st_ino)

    def _word(self, number: int) -> str | None:
        words = (self._line(0) or "").split()
        return words[number] if number < len(words) else None

    def _line(self, number: int) -> str | None:
        lines = self._read().decode(errors="replace").splitlines()
        return lines[number].strip() or None if number < len(lines) else None

    def _read(self) -> bytes:
        return os.pread(self._descriptor, _LONGEST, 0)


@contextmanager
def locked(data: Path) -> Iterator[DataLock]:
    """Make the directory (nobody else's to read) and hold its lock. Raises StoreRefused."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(data / NAME, flags, 0o600)  # not the database
    except OSError as why:
        raise StoreRefused(f"cannot keep data in {data}: {why.strerror}") from why
    try:
        _seize(descriptor, data)
        yield DataLock(descriptor)
    finally:
        os.close(descriptor)


def _seize(descriptor: int, data: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        _, pid = holder(data)
        url = DataLock(descriptor).url
        who = ", ".join([*([] if pid is None else [f"pid {pid}"]), *([] if url is None else [url])])
        raise StoreRefused(f"another batchq is serving {data}" + (f" ({who})" if who else "")) from why
    except OSError as why:
        raise StoreRefused(f"{data} is on a file system that cannot lock: {why.strerror}") from why


def refuse_copy(lock: DataLock, data: Path) -> None:
    """Raises StoreRefused for a copied directory: its containers may be those of another server."""
    if lock.copied:
        raise StoreRefused(
            f"{data} is a copy of the data of instance {lock.instance}, or was moved from another file system. "
            f"If the original is served no more: batchq restore --take-over --data {data}. "
            f"To serve both: batchq restore {data / 'batchq.db'} --data NEW-DIRECTORY"
        )


def is_copied(data: Path) -> bool:
    """To look takes no lock."""
    try:
        descriptor = os.open(data / NAME, os.O_RDONLY | os.O_CLOEXEC)  # not the database
    except OSError:
        return False
    try:
        return DataLock(descriptor).copied
    finally:
        os.close(descriptor)


def holder(data: Path) -> tuple[bool | None, int | None]:
    """Whether a server holds it, None where that cannot be told, and its pid. To look keeps nobody from taking it."""
    try:
        mine = (data / NAME).stat()
        with LOCKS.open() as locks:  # not the database
            held = [it.split() for it in locks]
    except FileNotFoundError:
        return (None if (data / NAME).exists() else False), None
    except OSError:
        return None, None
    inode = f"{os.major(mine.st_dev):02x}:{os.minor(mine.st_dev):02x}:{mine.st_ino}"
    pids = [int(pid) for _, kind, _, _, pid, where, *_ in held if (kind, where) == ("FLOCK", inode)]
    return bool(pids), next((pid for pid in pids if pid > 0), None)
