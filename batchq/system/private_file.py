"""A file in the data directory that only its owner may read: replaced atomically, read again when it has changed.

The command line writes it while a server runs, and the server reads the new content with the next request. Writers
hold a lock, so concurrent changes are applied one after the other.
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
    """A file with one parsed value, cached until the file changes.

    Methods raise Unavailable while other users may read the file, and if it cannot be read, parsed or written.
    """

    def __init__(
        self,
        path: Path,
        *,
        parse: Callable[[bytes], Content],
        dump: Callable[[Content], bytes],
        empty: Content,
        remedy: str = "",
    ) -> None:
        """`parse` raises Unavailable for invalid content. `empty` is the value of a missing file.

        `remedy` is appended to the error text for a file that others may read, after `chmod 600 ...`.
        """
        self.path = path
        self._parse = parse
        self._dump = dump
        self._empty = empty
        self._remedy = remedy
        self._cached: tuple[tuple[int, ...] | None, Content] = None, empty  # one tuple, because several threads read it

    def load(self) -> Content:
        """The present value. While the file is unchanged a call costs one `stat`."""
        try:
            known = self._cached
            if _fingerprint(self.path.stat()) == known[0]:
                return known[1]
            with open(self.path, "rb", opener=_opener) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise Unavailable(f"cannot read {self.path}: not a regular file")
                self._check_mode(found.st_mode)
                known = _fingerprint(found), self._parse(file.read())
        except FileNotFoundError:
            known = None, self._empty
        except OSError as why:
            raise Unavailable(f"cannot read {self.path}: {why.strerror}") from None
        self._cached = known
        return known[1]

    def change(
        self, change: Callable[[Content], Content], *, before_write: Callable[[], None] | None = None
    ) -> Content:
        """Replace the value by `change(value)`, atomically and durably, and return the new value.

        `before_write` is called under the lock after `change` has returned and before the file is written. If either
        raises, the file stays unchanged. If `change` returns its argument, nothing is written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked_file(self.path):
                before = self.load()
                changed = change(before)
                if before_write is not None:
                    before_write()
                if changed is not before:
                    replace_file(self.path, self._dump(changed))
        except OSError as why:
            raise Unavailable(f"cannot write {self.path}: {why.strerror}") from None
        return changed

    def _check_mode(self, mode: int) -> None:
        if stat.S_IMODE(mode) & 0o077:
            raise Unavailable(f"other users can read {self.path}: chmod 600 {self.path}{self._remedy}")


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file's content atomically and durably. The file has mode 0600. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    _sync_folder(path.parent)


def append(path: Path, content: bytes) -> None:
    """Append durably; a crash may leave only the beginning of `content`.

    Raises OSError, also for a symlink, a file with several hard links, and anything but a regular file.
    """
    with _open_for_append(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the lock for changes of `path`, exclusive across processes: a file beside it with the suffix `.lock`."""
    with _open_for_append(path.with_suffix(".lock")) as lock:
        flock(lock, LOCK_EX)
        yield


@contextmanager
def rights_of_owner(data: Path) -> Iterator[None]:
    """Run the block with the effective user and groups of the owner of `data`, if this process is root.

    The owner may have placed symlinks in the directory, which root must not follow with its own rights. Files created
    in the block belong to the owner. For single-threaded programs only: the ids are those of the whole process.
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
    """The user id of the user who controls where the path `data` leads.

    That is the owner of the first symlink in the path that is not root's, else the owner of the directory, or of the
    nearest existing directory above it.
    """
    path = data.absolute()
    for each in (*reversed(path.parents), path):
        if each.is_symlink() and (owner := each.lstat().st_uid) != ROOT:
            return owner
    return next(parent for parent in (path, *path.parents) if parent.exists()).stat().st_uid


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _opener(path: str, flags: int) -> int:
    """Open without waiting for a writer if the path is a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def _open_for_append(path: Path) -> BinaryIO:
    """Open `path` for appending; create it with mode 0600 if it is missing.

    Raises OSError for a symlink, a FIFO, and a file with several hard links.
    """
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
    """Give a file that root creates to the owner of its folder, whose processes must be able to use it."""
    owner = folder.stat()
    if os.geteuid() == ROOT != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fingerprint(found: os.stat_result) -> tuple[int, ...]:
    """A value that changes when the file is replaced or written, or its mode changes."""
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
