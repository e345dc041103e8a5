"""A file beside the data that nobody else may read: written whole or not at all, read again when it is another.

The command line writes it beside a server, which sees that with the next request. Whoever writes holds a lock, so of
two who change it at once each finds what the other left.
"""

import os
import stat
import tempfile
from collections.abc import Callable
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
        self._seen: tuple[int, ...] | None = None
        self._content = empty

    def now(self) -> Content:
        """What stands there now; to see that it has not changed costs a look at the file."""
        try:
            if _stamp(self.path.stat()) != self._seen:
                with self.path.open("rb") as file:  # which may be another by now: its own mode and stamp count
                    found = os.fstat(file.fileno())
                    self._check_mode(found.st_mode)
                    self._content, self._seen = self._parse(file.read()), _stamp(found)
        except FileNotFoundError:
            self._seen, self._content = None, self._empty
        except OSError as why:
            raise Unavailable(f"cannot read {self.path}: {why.strerror}") from None
        return self._content

    def change(self, change: Callable[[Content], Content]) -> Content:
        """Whole and durable, or not at all. What `change` raises changes nothing. Answers what stands there then."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.path.with_suffix(".lock"), "a", opener=_private) as lock:
                flock(lock, LOCK_EX)
                changed = change(self.now())
                self._put(self._dump(changed))
        except OSError as why:
            raise Unavailable(f"cannot write {self.path}: {why.strerror}") from None
        return changed

    def _put(self, content: bytes) -> None:
        folder = self.path.parent
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{self.path.name}.")  # nobody else's to read
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                _give_to_owner(descriptor, folder)
                os.fsync(descriptor)
            Path(name).replace(self.path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        _sync(folder)

    def _check_mode(self, mode: int) -> None:
        if stat.S_IMODE(mode) & 0o077:
            raise Unavailable(f"others may read {self.path}: chmod 600 {self.path}{self._cure}")


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
