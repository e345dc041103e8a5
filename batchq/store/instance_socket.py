"""One server for an instance on a machine, whatever directory it serves: two would remove each other's containers.

The hold is an abstract unix socket, which leaves no file and ends with its process. Any user may bind such a name, so
only a holder is obeyed that this server's user trusts: its own user, root, and the owner of the data. Decision 0036.
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

BACKLOG = 64  # starts that may ask who holds it; none is ever answered

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid

log = logging.getLogger(__name__)


@contextmanager
def holding(instance: str, data: Path) -> Iterator[None]:
    """Raises StoreRefused while another server of the instance runs in this network namespace.

    Without abstract sockets, as on macOS, nothing is held.
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
    """Its process and its user. None for one that does not listen, as servers do."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as caller, suppress(OSError):
        caller.settimeout(0)
        caller.connect(_address(instance))
        told = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(told)
        return pid, uid
    return None, None


def _data_of(pid: int | None) -> Path | None:
    """The directory whose lock the process has open, where this user may see it."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = link.readlink()
                if target.name == lock.NAME:
                    return target.parent
    return None
