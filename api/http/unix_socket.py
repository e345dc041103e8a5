"""The unix socket of a server: its file, and the user of the process at the other end of a connection.

The kernel records the uid of a process when it connects (SO_PEERCRED), so users of the machine need no keys. The file
decides who may connect, by its mode and group. docs/security.md has the threats.
"""

import fcntl
import os
import pwd
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from grp import getgrgid, getgrnam
from pathlib import Path
from socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from msgspec import Struct

from batchq.doctor.facts import SocketFacts
from batchq.errors import StartImpossible, Unavailable

OWNER_ONLY, WITH_GROUP = 0o600, 0o660  # the default modes without and with a group
MAX_PATH = 100  # bytes: the kernel permits 107, and the file gets another name while it is created
PREPARED = ".new"  # the suffix of that name
ROOT = 0
NAMES_VALID_FOR = timedelta(seconds=30)
MAX_NAMES = 1024

_UCRED = struct.Struct("3i")  # pid, uid, gid
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")


class SocketFile(Struct, frozen=True, kw_only=True):
    """Where a server listens, and who may connect."""

    #: Absolute.
    path: Path
    #: The group of the file; None: that of the process.
    group: str | None
    #: The permissions of the file, as 0o660; to connect takes permission to write.
    mode: int


@contextmanager
def listening(file: SocketFile) -> Iterator[socket]:
    """A listening socket. Clients that connect before the server is ready wait until it is.

    The file has its group and mode before it has its name. At the end it is removed, unless it was replaced. Raises
    StartImpossible for a folder in which other users can replace the file, for an existing file of another kind or of
    another user, and for an unknown group; Unavailable if another process listens at the path.
    """
    folder = _safe_folder(file.path, owner=os.geteuid())
    path = folder / file.path.name
    if len(os.fsencode(path)) > MAX_PATH:
        raise StartImpossible(f"the path of the socket is longer than {MAX_PATH} bytes: {path}")
    listener = socket(AF_UNIX, SOCK_STREAM)
    try:
        with _locked(folder):
            _refuse_others(path)
            created = _create(listener, path, file)
    except BaseException:
        listener.close()
        raise
    try:
        yield listener
    finally:
        listener.close()
        _remove(path, created)


def socket_facts(path: Path) -> SocketFacts | None:
    """The file at `path`, for a diagnosis by any user; None if there is no socket."""
    try:
        found = path.stat()
        if not stat.S_ISSOCK(found.st_mode):
            return None
        admits_caller = os.access(path, os.W_OK)
    except OSError:
        return None
    unsafe = ""
    try:
        _safe_folder(path, owner=found.st_uid)
    except StartImpossible as why:
        unsafe = str(why)
    return SocketFacts(
        path=path,
        owner=_name(lambda: pwd.getpwuid(found.st_uid).pw_name, found.st_uid),
        group=_name(lambda: getgrgid(found.st_gid).gr_name, found.st_gid),
        mode=stat.S_IMODE(found.st_mode),
        admits_caller=admits_caller,
        unsafe=unsafe,
    )


def _name(look_up: Callable[[], str], number: int) -> str:
    """The name, or the number of a user or group without one."""
    try:
        return look_up()
    except KeyError:
        return str(number)


def peer_uid(connected: socket) -> int:
    """The uid of the process that connected, at that time. Raises OSError."""
    _, uid, _ = _UCRED.unpack(connected.getsockopt(SOL_SOCKET, SO_PEERCRED, _UCRED.size))
    return int(uid)


def overflow_uid() -> int:
    """The uid that the kernel reports for users of another user namespace who have none in this one."""
    try:
        return int(_OVERFLOW_UID.read_text())
    except (OSError, ValueError):
        return 65534


class PeerNames:
    """The names of the users of this machine. They are valid for NAMES_VALID_FOR."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._names: dict[int, tuple[datetime, str | None]] = {}
        self._overflow = overflow_uid()

    def cached(self, uid: int) -> tuple[str | None] | None:
        """The name, or None for a uid without a name, in a tuple; None if it must be looked up."""
        found = self._names.get(uid)
        return (found[1],) if found is not None and self._now() < found[0] + NAMES_VALID_FOR else None

    def look_up(self, uid: int) -> str | None:
        """The name; None for a uid without one. Blocks: the names may come from another machine."""
        try:
            name = None if uid == self._overflow else pwd.getpwuid(uid).pw_name
        except KeyError:
            name = None
        if len(self._names) >= MAX_NAMES:
            self._names.clear()
        self._names[uid] = self._now(), name
        return name


def _safe_folder(path: Path, *, owner: int) -> Path:
    """The folder of a socket, resolved. Raises StartImpossible if others than `owner` can replace or move files in it.

    `owner`: the uid of the server's user.
    """
    try:
        folder = path.parent.resolve(strict=True)
        for each in (folder, *folder.parents):
            found = each.stat()
            is_sticky = bool(found.st_mode & stat.S_ISVTX) and each != folder
            if found.st_uid not in {ROOT, owner}:
                raise StartImpossible(f"the user {found.st_uid} owns {each} and could replace the socket {path}")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
                raise StartImpossible(f"other users can write to {each} and could replace the socket {path}")
    except OSError as why:
        raise StartImpossible(f"cannot use the folder of the socket {path}: {why.strerror}") from None
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that two servers do not create the same socket. Raises StartImpossible."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StartImpossible(f"another process is creating a socket in {folder}") from None
    finally:
        os.close(opened)


def _refuse_others(path: Path) -> None:
    """Raise unless there is no file at the path, or a socket of ours that no process listens on."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StartImpossible(f"{path} exists and is not a socket")
    if found.st_uid not in {ROOT, os.geteuid()}:
        raise StartImpossible(f"{path} belongs to the user {found.st_uid}")
    with socket(AF_UNIX, SOCK_STREAM) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return  # of a server that was killed
        except OSError:
            pass  # another server listens, and is busy
    raise Unavailable(f"{path} is already in use by another process; set another with --socket")


def _create(listener: socket, path: Path, file: SocketFile) -> tuple[int, int]:
    """Create the file under another name, give it its group and mode, and rename it. Returns its device and inode."""
    prepared = path.with_name(path.name + PREPARED)
    try:
        prepared.unlink(missing_ok=True)
        before = os.umask(0o777 & ~OWNER_ONLY)
        try:
            listener.bind(str(prepared))
        finally:
            os.umask(before)
        if file.group is not None:
            os.chown(prepared, -1, getgrnam(file.group).gr_gid, follow_symlinks=False)
        prepared.chmod(file.mode)
        listener.listen()
        prepared.rename(path)
    except KeyError:
        prepared.unlink(missing_ok=True)
        raise StartImpossible(f"there is no group {file.group} for the socket {path}") from None
    except OSError as why:
        with suppress(OSError):
            prepared.unlink(missing_ok=True)
        raise StartImpossible(f"cannot create the socket {path}: {why.strerror}") from None
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove(path: Path, created: tuple[int, int]) -> None:
    with suppress(OSError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == created:
            path.unlink()
