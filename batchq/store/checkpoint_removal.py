"""Deletes files and directories that containers created, by descriptors and without following links.

A container may make a tree deeper than any stack, with more entries than fit in memory, and change it while it is
deleted. So a directory is first moved into a directory that only the server can enter, and there emptied one level at a
time: its subdirectories are moved beside it. Two descriptors are open at a time, whatever the depth.

A deletion of a user has a directory of its own there, and deletes in short steps. A user may wait for a step of another
user, and never for what another user deletes.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from uuid import uuid4

DELETED = ".deleted"  # the directory below the root of the checkpoints
BATCH = 1000  # names that are held in memory at a time
MAX_REMOVALS = 1_000_000  # entries that one call deletes; the next call continues
MAX_PASSES = 1000  # reads of the names of a directory in one deletion; the next deletion continues
STEP = 1000  # entries that one step of a user's deletion deletes, and BATCH more at most
NOT_READABLE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES})
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_directory(path: Path | str, *, dir_fd: int | None = None) -> Iterator[int | None]:
    """The open directory; None if it does not exist, is a link or not a directory, or may not be read."""
    try:
        opened = os.open(path, OPEN_DIRECTORY, dir_fd=dir_fd)
    except OSError as failure:
        if failure.errno not in NOT_READABLE:
            raise
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


def delete_selected(
    root: Path,
    path: Path,
    selects: Callable[[str], bool],
    *,
    most: int,
    marks: Path,
    under_way: Collection[str],
) -> None:
    """Delete the selected entries of a job's directory; then the directory, with the file `marks`, if it is empty.

    Also continues earlier deletions, except those of users that are `under_way`. `most`: names that one pass reads.
    """
    with opened_directory(path) as folder:
        if folder is None:
            return
        with _deleted_directory(root / DELETED) as deleted:
            _move(folder, deleted, selects, most)
            failures = dict[str, OSError]()
            _empty(deleted, MAX_REMOVALS, failures, under_way)
            _raise_first(failures)
    with suppress(OSError):  # not empty
        path.rmdir()
        marks.unlink(missing_ok=True)


class Removal:
    """A deletion of a user, in steps. What the last step leaves is deleted by the next `delete_selected`."""

    def __init__(self, root: Path, most: int) -> None:
        """`most`: names that one pass reads."""
        self.name = uuid4().hex
        self._root = root
        self._most = most
        self._left = MAX_REMOVALS
        self._failures = dict[str, OSError]()

    def move(self, path: Path, selects: Callable[[str], bool]) -> bool:
        """Take the selected entries out of a job's directory. Returns whether entries are left to be deleted."""
        with opened_directory(path) as folder:
            if folder is None:
                return False
            with _deleted_directory(self._root / DELETED), _deleted_directory(self._path) as deleted:
                _move(folder, deleted, selects, self._most)
        return True

    def continued(self) -> bool:
        """Delete STEP entries. Returns whether entries are left. Raises the first error with the last step."""
        with _deleted_directory(self._path) as deleted:
            removed = _empty(deleted, min(STEP, self._left), self._failures)
        self._left -= removed
        if removed and self._left > 0:
            return True
        _raise_first(self._failures)
        with suppress(OSError):  # not empty
            self._path.rmdir()
        return False

    @property
    def _path(self) -> Path:
        return self._root / DELETED / self.name


@contextmanager
def _deleted_directory(path: Path) -> Iterator[int]:
    """The open directory of what is being deleted, which is created if it does not exist."""
    path.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(path, OPEN_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)


def _move(folder: int, deleted: int, selects: Callable[[str], bool], most: int) -> None:
    """Take the selected entries out of the directory. Raises the first error after the last entry."""
    failures = dict[str, OSError]()
    for _ in range(MAX_PASSES):
        names = [name for name in _names(folder, most) if name not in failures and selects(name)]
        for name in names:
            try:
                _remove_entry(name, folder=folder, deleted=deleted)
            except OSError as failure:
                failures[name] = failure
        if not names:
            break
    _raise_first(failures)


def _remove_entry(name: str, *, folder: int, deleted: int) -> None:
    """Delete a file or link of the open directory `folder`, or move a directory into `deleted`.

    A missing entry is success.
    """
    with suppress(FileNotFoundError):
        if not _is_directory(name, folder):
            with suppress(IsADirectoryError):  # it has just been replaced
                os.unlink(name, dir_fd=folder)
                return
        try:
            os.rename(name, uuid4().hex, src_dir_fd=folder, dst_dir_fd=deleted)
        except PermissionError:  # its mode denies it to a server that is not root
            _permit(name, folder)
            os.rename(name, uuid4().hex, src_dir_fd=folder, dst_dir_fd=deleted)


def _empty(deleted: int, most: int, failures: dict[str, OSError], excluded: Collection[str] = ()) -> int:
    """Delete about `most` entries of the open directory. Returns how many were deleted; 0: none is left.

    What cannot be deleted does not prevent the deletion of the rest: its error is added to `failures`.
    """
    removed = 0
    while removed < most:
        names = _names(deleted, BATCH + len(failures) + len(excluded))
        names = [name for name in names if name not in failures and name not in excluded]
        if not names:
            break
        for name in names:
            try:
                removed += 1 + _remove_level(name, deleted, most - removed)
            except OSError as failure:
                failures[name] = failure
            if removed >= most:
                break
    return removed


def _raise_first(failures: dict[str, OSError]) -> None:
    for first in failures.values():
        raise first


def _remove_level(name: str, deleted: int, most: int) -> int:
    """Delete an entry of `deleted`; the directories in it are moved beside it. Returns how many entries it had."""
    if not _is_directory(name, deleted):
        os.unlink(name, dir_fd=deleted)
        return 0
    _permit(name, deleted)
    folder, removed = os.open(name, OPEN_DIRECTORY, dir_fd=deleted), 0
    try:
        while removed < most and (names := _names(folder, BATCH)):
            for entry in names:
                _remove_entry(entry, folder=folder, deleted=deleted)
            removed += len(names)
    finally:
        os.close(folder)
    if removed < most:
        with suppress(OSError):  # a process that is in it has added an entry: the next call continues
            os.rmdir(name, dir_fd=deleted)
    return removed


def _names(folder: int, most: int) -> list[str]:
    with os.scandir(folder) as names:
        return [entry.name for entry in islice(names, most)]


def _is_directory(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _permit(name: str, folder: int) -> None:
    """Give the server access to a directory whose mode denies it. Without effect on a directory of another user."""
    opened = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with suppress(PermissionError):
            Path(f"/proc/self/fd/{opened}").chmod(0o700)
    finally:
        os.close(opened)
