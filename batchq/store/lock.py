"""`batchq.lock`: one server to a data directory, and a note of whose data it is.

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
_LONGEST = 100


class Lock:
    """Held. `instance` is the one whose data stood here at the last start, None before there was any."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def instance(self) -> str | None:
        return os.pread(self._descriptor, _LONGEST, 0).decode(errors="replace").strip() or None

    def note(self, instance: str) -> None:
        if self.instance != instance:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{instance}\n".encode(), 0)
            os.fsync(self._descriptor)


@contextmanager
def locked(data: Path) -> Iterator[Lock]:
    """Make the directory (nobody else's to read) and hold its lock. Raises StoreRefused."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(data / NAME, flags, 0o600)  # not the database
    except OSError as why:
        raise StoreRefused(f"cannot keep data in {data}: {why.strerror}") from why
    try:
        _seize(descriptor, data)
        yield Lock(descriptor)
    finally:
        os.close(descriptor)


def _seize(descriptor: int, data: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        raise StoreRefused(f"another batchq is serving {data}") from why
    except OSError as why:
        raise StoreRefused(f"{data} is on a file system that cannot lock: {why.strerror}") from why


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
