"""The protocols of service managers such as systemd: sd_listen_fds(3) and sd_notify(3)."""

import os
from collections.abc import MutableMapping
from contextlib import suppress
from socket import AF_INET, AF_INET6, AF_UNIX, SO_ACCEPTCONN, SOCK_DGRAM, SOL_SOCKET, socket

from batchq.errors import StartImpossible

FIRST_DESCRIPTOR = 3  # of the sockets that the service manager passes


def notify(state: str, variables: MutableMapping[str, str] = os.environ) -> None:
    """Send a state, as `READY=1`, to the service manager; without one, do nothing. An error is ignored."""
    address = variables.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket(AF_UNIX, SOCK_DGRAM) as manager:
        manager.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
        manager.send(state.encode())


def inherited_socket(variables: MutableMapping[str, str] = os.environ) -> socket | None:
    """The listening TCP socket that the service manager passes to this process; None without one.

    Raises StartImpossible for several sockets, and for a socket of another kind.
    """
    if variables.get("LISTEN_PID") != str(os.getpid()):
        return None
    number = variables.get("LISTEN_FDS", "")
    # Child processes get no sockets.
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        variables.pop(name, None)
    if number != "1":
        raise StartImpossible(f"the service manager passes {number or 'no'} sockets: pass one, of TCP")
    try:
        listener = socket(fileno=FIRST_DESCRIPTOR)
        listens = listener.family in {AF_INET, AF_INET6} and listener.getsockopt(SOL_SOCKET, SO_ACCEPTCONN)
    except OSError as why:
        raise StartImpossible(f"the socket of the service manager cannot be used: {why.strerror}") from None
    if not listens:
        raise StartImpossible("the socket that the service manager passes does not listen on TCP")
    listener.set_inheritable(False)
    listener.setblocking(False)  # noqa: FBT003 - the parameter has no name
    return listener
