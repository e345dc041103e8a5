"""A mutex for an instance on this machine: two servers of one instance would remove each other's containers.

The same instance may exist in two data directories, so the directory's lock does not suffice. The mutex is an abstract
Unix socket, which leaves no file and ends with its process. Any user may bind such a name, so a holder only counts if
its user is trusted: this server's user, root, or the owner of the data. Decision 0036.
"""

import logging
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from errno import EADDRINUSE
from pathlib import Path

from batchq.errors import StoreRefused
from batchq.store import lock

BACKLOG = 64  # pending connections of starting servers, which read the peer's credentials; none is ever accepted

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid

log = logging.getLogger(__name__)


@contextmanager
def holding(instance: str, data: Path) -> Iterator[None]:
    """Hold the mutex. Raises StoreRefused while another server of the instance runs in this network namespace.

    On systems without abstract sockets, such as macOS, nothing is held.
    """
    if sys.platform != "linux":
        yield
        return
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as held:
        try:
            held.bind(_address(instance))
            held.listen(BACKLOG)
        except OSError as why:
            if why.errno == EADDRINUSE:
                _judge_holder(instance, data)
            else:
                log.warning("instance %s cannot be held on this machine: %s", instance, why.strerror)
        yield


def _address(instance: str) -> str:
    return f"\0batchq/{instance}"


def _judge_holder(instance: str, data: Path) -> None:
    pid, uid = _holder(instance)
    if uid not in {0, os.geteuid(), data.stat().st_uid}:
        log.warning("the name of instance %s is held by process %s of user %s: ignored", instance, pid, uid)
        return
    where = _data_of(pid)
    raise StoreRefused(
        f"instance {instance} is served by process {pid}{f', from {where}' if where else ''}: "
        "stop it, or restore the backup without --take-over"
    )


def _holder(instance: str) -> tuple[int | None, int | None]:
    """The pid and the uid of the holder; both None if the holder does not listen, which a server always does."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as caller, suppress(OSError):
        caller.settimeout(0)
        caller.connect(_address(instance))
        told = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(told)
        return pid, uid
    return None, None


def _data_of(pid: int | None) -> Path | None:
    """The data directory whose lock file the process has open; None if this user may not see its open files."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = link.readlink()
                if target.name == lock.NAME:
                    return target.parent
    return None
