"""Opens host paths as descriptors, so that a checked path cannot be replaced before its use: docs/decisions/0030.

A path is opened one component at a time without following symlinks: a symlink is read, and its target is opened in the
same way. Replacing a component later has no effect on an open descriptor.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path, PurePosixPath

from msgspec import Struct

MODE = 0o755  # of created folders, regardless of the umask
MAX_SYMLINKS = 40  # the kernel's limit
OPEN_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MOUNT_TABLE = Path("/proc/self/mountinfo")

Follows = Callable[[Path], bool]
"""Whether a symlink in this folder is followed."""


class Descriptor:
    """An open file or folder, which the caller closes."""

    def __init__(self, number: int) -> None:
        #: The file descriptor; -1 once it is closed.
        self.number = number

    def close(self) -> None:
        if self.number >= 0:
            os.close(self.number)
        self.number = -1

    @property
    def path(self) -> Path:
        """Its present path. Raises FileNotFoundError if it was removed."""
        if os.fstat(self.number).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "it was removed")
        return Path(f"/proc/self/fd/{self.number}").readlink()

    @property
    def is_symlink(self) -> bool:
        return stat.S_ISLNK(os.fstat(self.number).st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(os.fstat(self.number).st_mode)

    @property
    def mount_id(self) -> int:
        lines = Path(f"/proc/self/fdinfo/{self.number}").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))

    def renumber(self, minimum: int) -> None:
        """Move the descriptor to the first free number that is at least `minimum`. Raises OSError."""
        number = fcntl.fcntl(self.number, fcntl.F_DUPFD_CLOEXEC, minimum)
        self.close()
        self.number = number


def open_path(path: str, *, follows: Follows) -> tuple[Descriptor, tuple[str, ...]]:
    """Open the longest part of the path that can be opened; return it and the names of the rest. Raises OSError."""
    walk = _Walk(path, follows)
    try:
        missing = walk.run()
    except BaseException:
        walk.opened.close()
        raise
    return walk.opened, missing


def create_folders(opened: Descriptor, names: tuple[str, ...]) -> Descriptor:
    """Create these nested folders unless they exist, and return the last. Closes `opened`. Raises OSError."""
    try:
        for name in names:
            entry = _create_folder(opened, name)
            opened.close()
            opened = entry
    except BaseException:
        opened.close()
        raise
    return opened


def real_path(path: Path, *, follows: Follows) -> Path:
    """The path with symlinks resolved; a part that does not exist is appended as it is. Raises OSError."""
    opened, missing = open_path(str(path), follows=follows)
    with closing(opened):
        return opened.path.joinpath(*missing)


class _Walk:
    """Opens a path component by component."""

    def __init__(self, path: str, follows: Follows) -> None:
        #: What is open so far.
        self.opened = Descriptor(os.open("/", OPEN_FLAGS))
        #: The components that are left, the next one last.
        self._remaining = _remaining(path)
        self._follows = follows
        self._symlinks = 0

    def run(self) -> tuple[str, ...]:
        """Open as much as possible, and return the names that are left."""
        while self._remaining:
            entry = _open_below(self.opened, self._remaining[-1])
            if entry is None and ".." not in self._remaining:
                break
            if entry is None:
                self._redirect(os.path.normpath(self.opened.path.joinpath(*reversed(self._remaining))), rest=[])
            elif entry.is_symlink:
                with closing(entry):
                    target = os.readlink("", dir_fd=entry.number)
                self._redirect(target, rest=self._remaining[:-1])
            else:
                self._remaining.pop()
                self._enter(entry)
        return tuple(reversed(self._remaining))

    def _redirect(self, target: str, *, rest: list[str]) -> None:
        self._symlinks += 1
        if self._symlinks > MAX_SYMLINKS or not self._follows(self.opened.path):
            raise OSError(errno.ELOOP, "a symbolic link that is not followed", self._remaining[-1])
        self._remaining = rest + _remaining(target)
        if target.startswith("/"):
            self._enter(Descriptor(os.open("/", OPEN_FLAGS)))

    def _enter(self, entry: Descriptor) -> None:
        self.opened.close()
        self.opened = entry


def _remaining(path: str) -> list[str]:
    """The components of the path in reverse order, without the root."""
    return [part for part in reversed(PurePosixPath(path).parts) if not part.startswith("/")]


def _open_below(opened: Descriptor, name: str) -> Descriptor | None:
    """Open an entry of the folder; None: it cannot be opened.

    The reason is dropped, because it could reveal folders that the job must not see.
    """
    try:
        return Descriptor(os.open(name, OPEN_FLAGS, dir_fd=opened.number))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _create_folder(opened: Descriptor, name: str) -> Descriptor:
    """Create and open a folder, or open the existing one.

    The mode is only set on an empty folder of this process's user: a job could have replaced what was created.
    """
    try:
        os.mkdir(name, MODE, dir_fd=opened.number)
    except FileExistsError:
        return Descriptor(os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=opened.number))
    created = Descriptor(
        os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened.number)
    )
    try:
        with os.scandir(created.number) as entries:
            is_ours = os.fstat(created.number).st_uid == os.geteuid() and not any(entries)
        if is_ours:
            os.fchmod(created.number, MODE)
    except BaseException:
        created.close()
        raise
    return created


class FilesystemPosition(Struct, frozen=True):
    """A path within a file system, independent of mount points."""

    #: The file system's device number, `major:minor`.
    device: str
    #: The path from the root of the file system.
    path: PurePosixPath

    def overlaps(self, other: "FilesystemPosition") -> bool:
        """Whether the two are equal, or one contains the other."""
        related = self.path.is_relative_to(other.path) or other.path.is_relative_to(self.path)
        return self.device == other.device and related


class MountEntry(Struct, frozen=True):
    """A line of the mount table."""

    #: The folder of the file system that is mounted.
    root: FilesystemPosition
    #: The mount point.
    path: Path


class MountTable:
    """The kernel's mount table at the time of creation. Format: proc_pid_mountinfo(5)."""

    def __init__(self) -> None:
        self._lines = [line.split(" ", 5) for line in MOUNT_TABLE.read_text().splitlines()]

    @cached_property
    def _entries(self) -> dict[int, MountEntry]:
        return {
            int(number): MountEntry(FilesystemPosition(device, PurePosixPath(_unescaped(root))), Path(_unescaped(path)))
            for number, _, device, root, path, _ in self._lines
        }

    @cached_property
    def _types(self) -> dict[str, str]:
        """The type of each file system, by device. A hyphen ends the optional fields, whose number varies."""
        return {device: rest.partition(" - ")[2].split(" ")[0] for _, _, device, _, _, rest in self._lines}

    def position(self, descriptor: Descriptor) -> FilesystemPosition:
        """The position of an open file. Raises LookupError if its mount is gone, ValueError if it is outside of it."""
        entry = self._entries[descriptor.mount_id]
        return FilesystemPosition(entry.root.device, entry.root.path / descriptor.path.relative_to(entry.path))

    def below(self, path: Path) -> tuple[FilesystemPosition, ...]:
        """The roots of all mounts below this folder, without a mount at the folder itself."""
        return tuple(
            entry.root for entry in self._entries.values() if entry.path != path and entry.path.is_relative_to(path)
        )

    def filesystem(self, position: FilesystemPosition) -> str:
        """The type of its file system, such as `ext4`."""
        return self._types[position.device]


def _unescaped(field: str) -> str:
    """Decode the octal escapes of the mount table."""
    if "\\" not in field:
        return field
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(octal, character)
    return field
