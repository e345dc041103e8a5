"""Deletes files and directories that containers created, by descriptors and without following links.

A container may make a tree deeper than any stack, with more entries than fit in memory, and change it while it is
deleted. So a directory is first moved into a directory that only the server can enter, and there emptied one level at a
time: its subdirectories are moved beside it. Two descriptors are open at a time, whatever the depth.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from uuid import uuid4

DELETED = ".deleted"  # the directory below the root of the checkpoints
BATCH = 1000  # names that are held in memory at a time
MAX_REMOVALS = 1_000_000  # entries that one call deletes; the next call continues
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def deleted_directory(root: Path) -> Iterator[int]:
    """The open directory of what is being deleted, which is created if it does not exist."""
    path = root / DELETED
    path.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(path, OPEN_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)


def remove_entry(name: str, *, folder: int, deleted: int) -> None:
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


def empty_deleted(deleted: int) -> None:
    """Delete everything in the open directory, MAX_REMOVALS entries at most.

    What cannot be deleted does not prevent the deletion of the rest. Raises the first error at the end.
    """
    left, failures = MAX_REMOVALS, dict[str, OSError]()
    while left > 0 and (names := [name for name in _names(deleted) if name not in failures]):
        for name in names:
            try:
                left -= 1 + _remove_level(name, deleted, left)
            except OSError as failure:
                failures[name] = failure
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
        while removed < most and (names := _names(folder)):
            for entry in names:
                remove_entry(entry, folder=folder, deleted=deleted)
            removed += len(names)
    finally:
        os.close(folder)
    if removed < most:
        with suppress(OSError):  # a process that is in it has added an entry: the next call continues
            os.rmdir(name, dir_fd=deleted)
    return removed


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as names:
        return [entry.name for entry in islice(names, BATCH)]


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
