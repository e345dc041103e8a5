"""A file beside the data that nobody else may read: written whole or not at all, read again when it is another.

The command line writes it beside a server, which sees that with the next request. Whoever writes holds a lock, so of
two who change it at once each finds what the other left.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Generic, TypeVar

from batchq.errors import Unavailable

PRIVATE = 0o600
ROOT = 0

Content = TypeVar("Content")


class PrivateFile(Generic[Content]):
    """`parse` makes of the bytes what stands there, and raises Unavailable; `empty` is what a missing file holds.

    `cure` is what to do when others may read it. Raises Unavailable while they may, or the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        parse: Callable[[bytes], Content],
        dump: Callable[[Content], bytes],
        empty: Content,
        cure: str = "",
    ) -> None:
        self.path = path
        self._parse = parse
        self._dump = dump
        self._empty = empty
        self._cure = cure
        self._known: tuple[tuple[int, ...] | None, Content] = None, empty  # both at once: threads look at it

    def now(self) -> Content:
        """What stands there now; to see that it has not changed costs a look at the file."""
        try:
            known = self._known
            if _stamp(self.path.stat()) == known[0]:
                return known[1]
            with self.path.open("rb") as file:  # which may be another by now: its own mode and stamp count
                found = os.fstat(file.fileno())
                self._check_mode(found.st_mode)
                known = _stamp(found), self._parse(file.read())
        except FileNotFoundError:
            known = None, self._empty
        except OSError as why:
            raise Unavailable(f"cannot read {self.path}: {why.strerror}") from None
        self._known = known
        return known[1]

    def change(self, change: Callable[[Content], Content], *, first: Callable[[], None] | None = None) -> Content:
        """Whole and durable, or not at all. Answers what stands there then.

        What `change` raises changes nothing, nor does it when it answers what it was given. `first` is done when all
        is well and nothing is written yet, under the lock; what it raises changes nothing.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.path):
                before = self.now()
                changed = change(before)
                if first is not None:
                    first()
                if changed is not before:
                    put(self.path, self._dump(changed))
        except OSError as why:
            raise Unavailable(f"cannot write {self.path}: {why.strerror}") from None
        return changed

    def _check_mode(self, mode: int) -> None:
        if stat.S_IMODE(mode) & 0o077:
            raise Unavailable(f"others may read {self.path}: chmod 600 {self.path}{self._cure}")


def put(path: Path, content: bytes) -> None:
    """Whole and durable, or not at all. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # nobody else's to read
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            _give_to_owner(descriptor, path.parent)
            os.fsync(descriptor)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def append(path: Path, content: bytes) -> None:
    """Durable; cut off by a crash, it is the beginning of it. Raises OSError."""
    with open(path, "ab", opener=_private) as file:
        file.write(content)
        file.flush()
        _give_to_owner(file.fileno(), path.parent)
        os.fsync(file.fileno())
    _sync(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone, of all who are about to change this file."""
    with open(path.with_suffix(".lock"), "a", opener=_private) as lock:
        flock(lock, LOCK_EX)
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _give_to_owner(descriptor: int, folder: Path) -> None:
    """Root writes for the server of another, who must be able to read it."""
    owner = folder.stat()
    if os.geteuid() == ROOT != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Another when the file is another, or others may read it now."""
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
