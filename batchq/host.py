"""Resources of this machine that a server uses: a listening socket, open files, CPUs and memory."""

import ipaddress
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from errno import EADDRINUSE
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket

from batchq.domain.container import Resources
from batchq.errors import StartImpossible, Unavailable
from batchq.settings import Settings

PROC = Path("/proc")
LISTENING = "0A"  # the value of TCP_LISTEN in the column `st` of /proc/net/tcp
MOST_WORDS = 200  # characters of another process's command line in an error text
# Open files: those for the server's own use and for engine connections, and the minimum left for client connections.
OWN_FILES, FEWEST_CONNECTIONS = 80, 8


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: Settings) -> socket:
    """A listening socket. Clients that connect before the server is ready wait until it is.

    Raises Unavailable if another process uses the port, StartImpossible if the address is not one of this machine.
    """
    family = AF_INET6 if ":" in settings.host else AF_INET
    try:
        return create_server((settings.host, settings.port), family=family)
    except OSError as why:
        if why.errno == EADDRINUSE:
            where = f"{settings.host} port {settings.port}"
            raise Unavailable(
                f"{where} is already in use by {_holder(settings.port)}; set another with --port"
            ) from None
        raise StartImpossible(f"cannot listen at {settings.host} port {settings.port}: {why.strerror}") from None


def _holder(port: int) -> str:
    """The process id and command line of the process that listens on a port; "another process" if they are hidden."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(it.readlink()) in sockets for it in process.glob("fd/*")):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"pid {process.name} ({words[:MOST_WORDS]})"
    return "another process"


def _listening(port: int) -> Iterator[str]:
    """The inodes of the TCP sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in (PROC / "self" / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = row.split()[:10]
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def room_for_connections(most_wanted: int) -> int:
    """The number of client connections to accept: few enough that OWN_FILES other files can always be opened.

    Raises the process's soft limit of open files if that permits more connections, up to `most_wanted`.
    """
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most_wanted + OWN_FILES
    if files not in range(wanted):  # the limit suffices, or is RLIM_INFINITY, which is -1
        return most_wanted
    raised = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return max(FEWEST_CONNECTIONS, raised - OWN_FILES)


def machine() -> Resources:
    """The CPUs that this process may use, and all memory of the machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Resources(millicpus=1000 * len(os.sched_getaffinity(0)), memory_mib=pages * size // 2**20)
