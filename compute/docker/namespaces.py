"""Detects whether the engine is in the same mount and PID namespaces as this process."""

import os
import socket
import struct
from contextlib import closing
from pathlib import Path

CONNECT_TIMEOUT = 5.0  # seconds: the timeout of the connection
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


def shares_namespaces(path: str) -> bool:
    """Whether the process that listens on the socket shares both namespaces with this process. Raises OSError.

    It does not if it, or batchq, is in a container, or if the engine is rootless.
    """
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as to_engine:
        to_engine.settimeout(CONNECT_TIMEOUT)
        to_engine.connect(path)
        peer = to_engine.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, _, _ = CREDENTIALS.unpack(peer)
    return pid > 0 and all(_is_shared(pid, namespace) for namespace in ("mnt", "pid"))


def _is_shared(pid: int, namespace: str) -> bool:
    """Compare the namespaces; True if this process may not see the other's.

    If they differ after all, the engine refuses the start, because the path of the descriptor does not exist there.
    """
    try:
        theirs, ours = (Path(f"/proc/{it}/ns/{namespace}").stat() for it in (pid, "self"))
    except OSError:
        return True
    return os.path.samestat(theirs, ours)
