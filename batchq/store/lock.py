"""The locks that permit one server: one for each data directory, and one for each instance on this machine.

The file `batchq.lock` locks a data directory. It also stores the instance, the clean-shutdown marker and the URL of the
server. The lock is not on the database file itself: a process that opens and closes the database file outside of SQLite
loses SQLite's locks on it.

The same instance may exist in two data directories, and its two servers would remove each other's containers. So an
abstract Unix socket locks the instance; it leaves no file and ends with its process. Any user may bind such a name, so
a holder only counts if its user is trusted: this server's user, root, or the owner of the data. Decision 0036.
"""

import fcntl
import logging
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from errno import EADDRINUSE
from pathlib import Path

from batchq.errors import StoreFailed, StoreRefused

log = logging.getLogger(__name__)

NAME = "batchq.lock"

LOCKS = Path("/proc/locks")  # Linux only: one lock a line

_MAX_LENGTH = 500  # bytes of the lock file
BACKLOG = 64  # pending connections of starting servers, which read the peer's credentials; none is ever accepted
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


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
    def is_copy(self) -> bool:
        """Whether this file is a copy of the one in which the instance was noted: another server may have the data.

        Compares the inode, which `mv` within a file system preserves and a copy does not. The device number is not
        compared, because it may change.
        """
        inode = self._word(1)
        return b"\n" in self._read() and inode is not None and inode != self._inode

    @property
    def marker(self) -> str | None:
        """The clean-shutdown marker; None while the database is open, and after an unclean shutdown."""
        return self._line(1)

    def write(self, instance: str, marker: str | None = None, url: str | None = None) -> None:
        """Write the file; it is durable when this method returns.

        A crash meanwhile leaves the instance intact, and at worst a marker that matches no database. `url`: where the
        server of the data directory listens; None without a server.
        """
        lines = f"{instance} {self._inode}\n{marker or ''}\n{url or ''}"
        content = f"{lines.rstrip()}\n".encode()
        if content != self._read():
            os.pwrite(self._descriptor, content, 0)
            os.ftruncate(self._descriptor, len(content))
            os.fsync(self._descriptor)

    def touch(self) -> int:
        """The present time by the file system's clock, in nanoseconds since the epoch."""
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_mtime_ns

    def write_restored(self, instance: str, data: Path) -> None:
        """As `write`, after the database was restored. Raises StoreFailed; the next server then writes the file."""
        try:
            self.write(instance)
        except OSError as why:
            raise StoreFailed(f"{data} is restored, but {data / NAME} was not written: {why.strerror}") from why

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
        return os.pread(self._descriptor, _MAX_LENGTH, 0)


@contextmanager
def locked_data(data: Path) -> Iterator[DataLock]:
    """Create the data directory, readable only by this user, and hold its lock. Raises StoreRefused."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(data / NAME, flags, 0o600)  # not the database
    except OSError as why:
        raise StoreRefused(f"cannot use the data directory {data}: {why.strerror}; set another with --data") from why
    try:
        _acquire(descriptor, data)
        yield DataLock(descriptor)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, data: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        _, pid = lock_holder(data)
        url = DataLock(descriptor).url
        who = ", ".join([*([] if pid is None else [f"pid {pid}"]), *([] if url is None else [url])])
        raise StoreRefused(f"another batchq server uses {data}" + (f" ({who})" if who else "")) from why
    except OSError as why:
        raise StoreRefused(f"{data} is on a file system without file locks: {why.strerror}") from why


def refuse_copy(lock: DataLock, data: Path) -> None:
    """Raises StoreRefused for a copied directory: its containers may be those of another server."""
    if lock.is_copy:
        raise StoreRefused(
            f"{data} is a copy of the data of instance {lock.instance}, or was moved from another file system. "
            f"If the original is not used any more: batchq restore --take-over --data {data}. "
            f"To use both: batchq restore {data / 'batchq.db'} --data NEW-DIRECTORY"
        )


def is_copied(data: Path) -> bool:
    """Whether the data directory is a copy, as `DataLock.is_copy`. Takes no lock."""
    try:
        descriptor = os.open(data / NAME, os.O_RDONLY | os.O_CLOEXEC)  # not the database
    except OSError:
        return False
    try:
        return DataLock(descriptor).is_copy
    finally:
        os.close(descriptor)


def lock_holder(data: Path) -> tuple[bool | None, int | None]:
    """Whether a server holds the lock, and its pid. Takes no lock.

    Either is None if it cannot be determined.
    """
    try:
        own = (data / NAME).stat()
        with LOCKS.open() as locks:  # not the database
            held = [lock.split() for lock in locks]
    except FileNotFoundError:
        return (None if (data / NAME).exists() else False), None
    except OSError:
        return None, None
    inode = f"{os.major(own.st_dev):02x}:{os.minor(own.st_dev):02x}:{own.st_ino}"
    pids = [int(pid) for _, kind, _, _, pid, where, *_ in held if (kind, where) == ("FLOCK", inode)]
    return bool(pids), next((pid for pid in pids if pid > 0), None)


# ---------------------------------------------------------------------------------------------- the lock of an instance


@contextmanager
def hold_instance(instance: str, data: Path) -> Iterator[None]:
    """Hold the lock of an instance. Raises StoreRefused while another server of it runs in this network namespace.

    On systems without abstract sockets, such as macOS, nothing is held.
    """
    if sys.platform != "linux":
        yield
        return
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
        try:
            server.bind(_address(instance))
            server.listen(BACKLOG)
        except OSError as why:
            if why.errno == EADDRINUSE:
                _check_holder(instance, data)
            else:
                log.warning("instance %s: its lock on this machine is not available: %s", instance, why.strerror)
        yield


def _address(instance: str) -> str:
    return f"\0batchq/{instance}"


def _check_holder(instance: str, data: Path) -> None:
    pid, uid = _peer(instance)
    if uid not in {0, os.geteuid(), data.stat().st_uid}:
        log.warning("instance %s: ignoring the lock of process %s of untrusted user %s", instance, pid, uid)
        return
    directory = _data_directory_of(pid)
    raise StoreRefused(
        f"process {pid} is the server of instance {instance}{f', from {directory}' if directory else ''}: "
        "stop it, or restore the backup without --take-over"
    )


def _peer(instance: str) -> tuple[int | None, int | None]:
    """The pid and the uid of the holder; both None if the holder does not listen, which a server always does."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as client, suppress(OSError):
        client.settimeout(0)
        client.connect(_address(instance))
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(credentials)
        return pid, uid
    return None, None


def _data_directory_of(pid: int | None) -> Path | None:
    """The data directory whose lock file the process has open; None if this user may not see its open files."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = link.readlink()
                if target.name == NAME:
                    return target.parent
    return None
