"""The protocols of service managers such as systemd: sd_listen_fds(3) and sd_notify(3)."""

import os
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNIX, SO_ACCEPTCONN, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, socket

from msgspec import Struct

from batchq.errors import StartImpossible

FIRST_DESCRIPTOR = 3  # of the sockets that the service manager passes
TCP, UNIX = "TCP", "unix sockets"
PERMITTED = "pass one of TCP, one unix socket with a file, or both"


def notify(state: str) -> None:
    """Send a state, as `READY=1`, to the service manager; without one, do nothing. An error is ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket(AF_UNIX, SOCK_DGRAM) as manager:
        manager.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
        manager.send(state.encode())


class InheritedSockets(Struct, frozen=True, kw_only=True):
    """The listening sockets that the service manager passes to this process; None for a kind that it does not pass."""

    tcp: socket | None = None
    #: With a file.
    unix: socket | None = None

    @property
    def path(self) -> Path | None:
        """The file of the unix socket."""
        return None if self.unix is None else Path(os.fsdecode(self.unix.getsockname()))


def inherited_sockets() -> InheritedSockets:
    """The sockets of the service manager: one of TCP, one unix socket, or both.

    Raises StartImpossible for two of a kind, and for a socket of another kind.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return InheritedSockets()
    number = os.environ.get("LISTEN_FDS", "")
    # Child processes get no sockets.
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    if number not in {"1", "2"}:
        raise StartImpossible(f"the service manager passes {number or 'no'} sockets: {PERMITTED}")
    passed: dict[str, socket] = {}
    for descriptor in range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(number)):
        kind, listener = _listener(descriptor)
        if kind in passed:
            raise StartImpossible(f"the service manager passes two sockets of {kind}: {PERMITTED}")
        passed[kind] = listener
    return InheritedSockets(tcp=passed.get(TCP), unix=passed.get(UNIX))


def _listener(descriptor: int) -> tuple[str, socket]:
    """The listening socket of the descriptor with its kind, TCP or UNIX. Raises StartImpossible for another socket."""
    try:
        listener = socket(fileno=descriptor)
        listens = listener.type == SOCK_STREAM and listener.getsockopt(SOL_SOCKET, SO_ACCEPTCONN)
        has_file = listener.family == AF_UNIX and os.fsencode(listener.getsockname()).startswith(b"/")
    except OSError as why:
        raise StartImpossible(f"the socket of the service manager cannot be used: {why.strerror}") from None
    if not listens or not (has_file or listener.family in {AF_INET, AF_INET6}):
        raise StartImpossible(f"a socket that the service manager passes does not listen on TCP or a file: {PERMITTED}")
    listener.set_inheritable(False)
    listener.setblocking(False)  # noqa: FBT003 - the parameter has no name
    return UNIX if has_file else TCP, listener
