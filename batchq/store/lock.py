"""The lock file of a data directory, `batchq.lock`, which permits one server.

It also stores the instance, the clean-shutdown marker and the URL of the server. The lock is not on the database file
itself: a process that opens and closes the database file outside of SQLite loses SQLite's locks on it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batchq.errors import StoreRefused

NAME = "batchq.lock"
LOCKS = Path("/proc/locks")  # Linux only: one lock a line
_LONGEST = 500


class DataLock:
    """The open lock file.

    Its first line has the instance and the inode of this file, the second the clean-shutdown marker, the third the URL
    of the server.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def instance(self) -> str | None:
        """The instance whose data the directory had at the last start; None before the first start."""
        return self._word(0)

    @property
    def copied(self) -> bool:
        """Whether this file is a copy of the one in which the instance was noted: another server may have the data.

        Compares the inode, which `mv` within a file system preserves and a copy does not. The device number is not
        compared, because it may change.
        """
        inode = self._word(1)
        return b"\n" in self._read() and inode is not None and inode != self._inode

    @property
    def seal(self) -> str | None:
        """The clean-shutdown marker; None while the database is open, and after an unclean shutdown."""
        return self._line(1)

    def note(self, instance: str, seal: str | None = None, url: str | None = None) -> None:
        """Write the file; it is durable when this method returns.

        A crash meanwhile leaves the instance intact, and at worst a marker that matches no database. `url`: where the
        server of the data directory listens; None without a server.
        """
        lines = f"{instance} {self._inode}\n{seal or ''}\n{url or ''}"
        wanted = f"{lines.rstrip()}\n".encode()
        if wanted != self._read():
            os.pwrite(self._descriptor, wanted, 0)
            os.ftruncate(self._descriptor, len(wanted))
            os.fsync(self._descriptor)

    def touch(self) -> int:
        """The present time by the file system's clock, in nanoseconds since the epoch."""
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_mtime_ns

    @property
    def url(self) -> str | None:
        """Where the server that holds the lock listens; None if it is not noted."""
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
    """Create the data directory, readable only by this user, and hold its lock. Raises StoreRefused."""
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
    """Whether the data directory is a copy, as `DataLock.copied`. Takes no lock."""
    try:
        descriptor = os.open(data / NAME, os.O_RDONLY | os.O_CLOEXEC)  # not the database
    except OSError:
        return False
    try:
        return DataLock(descriptor).copied
    finally:
        os.close(descriptor)


def holder(data: Path) -> tuple[bool | None, int | None]:
    """Whether a server holds the lock, and its pid. Takes no lock.

    Either is None if it cannot be determined.
    """
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
