"""A file beside the data that nobody else may read: written whole or not at all, read again when it is another.

The command line writes it beside a server, which sees that with the next request. Whoever writes holds a lock, so of
two who change it at once each finds what the other left.
"""

import errno
import os
import pwd
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

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
            with open(self.path, "rb", opener=_opener) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise Unavailable(f"cannot read {self.path}: not a regular file")
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
    """Durable; cut off by a crash, it is the beginning of it. Raises OSError, also for a file with another name."""
    with _opened(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone, of all who are about to change this file."""
    with _opened(path.with_suffix(".lock")) as lock:
        flock(lock, LOCK_EX)
        yield


@contextmanager
def rights_of_owner(data: Path) -> Iterator[None]:
    """Let root act with no more rights than the owner of a data directory, who may have put links there.

    What is made then belongs to the owner. For programs of one thread: the rights are the process's.
    """
    uid = _owner_of(data)
    if os.geteuid() != ROOT or uid == ROOT:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(_group_of(uid))
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(ROOT)
        os.setegid(gid)
        os.setgroups(groups)


def _owner_of(data: Path) -> int:
    """Who decides what a path leads to: the owner of a link in it, else of the directory or of what it is made in."""
    path = data.absolute()
    for each in (*reversed(path.parents), path):
        if each.is_symlink() and (owner := each.lstat().st_uid) != ROOT:
            return owner
    return next(it for it in (path, *path.parents) if it.exists()).stat().st_uid


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _opener(path: str, flags: int) -> int:
    """To open a pipe does not wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _opened(path: Path) -> BinaryIO:
    """A file to append to, ours alone: neither a link nor a pipe, nor known by another name."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "not a regular file with one name")
    if found.st_size == 0:
        _give_to_owner(descriptor, path.parent)
    return os.fdopen(descriptor, "ab")


def _give_to_owner(descriptor: int, folder: Path) -> None:
    """A server of root makes files beside the data of another user, who must be able to use them."""
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
