"""Whether the engine sees the files and processes of this host as this process sees them."""

import os
import socket
import struct
from contextlib import closing
from pathlib import Path

PATIENCE = 5.0  # seconds for a connection
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


def shares_namespaces(path: str) -> bool:
    """By the process that listens on this socket. It may be in a container, or be run by a user. Raises OSError."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as to_engine:
        to_engine.settimeout(PATIENCE)
        to_engine.connect(path)
        peer = to_engine.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, _, _ = CREDENTIALS.unpack(peer)
    return pid > 0 and all(_is_shared(pid, namespace) for namespace in ("mnt", "pid"))


def _is_shared(pid: int, namespace: str) -> bool:
    """True where it cannot be seen: then a start is refused by the engine, if it is not."""
    try:
        theirs, ours = (Path(f"/proc/{it}/ns/{namespace}").stat() for it in (pid, "self"))
    except OSError:
        return True
    return os.path.samestat(theirs, ours)
