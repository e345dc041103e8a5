"""What this machine gives a server: an address to listen at, files to open, CPUs and memory."""

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
LISTENING = "0A"  # state of a socket in /proc/net/tcp
MOST_WORDS = 200  # characters of another process's command line
OWN_FILES, FEWEST_CONNECTIONS = 80, 8  # of the files that may be open: ours and the engine's, and what is left at least


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: Settings) -> socket:
    """Take the port before anything is done. Clients that connect already wait until the server is ready.

    Raises Unavailable for a port that another process has, StartImpossible for an address that this machine has not.
    """
    family = AF_INET6 if ":" in settings.host else AF_INET
    try:
        return create_server((settings.host, settings.port), family=family)
    except OSError as why:
        if why.errno == EADDRINUSE:
            where = f"{settings.host} port {settings.port}"
            raise Unavailable(
                f"{where} is already in use by {_holder(settings.port)}; --port chooses another"
            ) from None
        raise StartImpossible(f"cannot listen at {settings.host} port {settings.port}: {why.strerror}") from None


def _holder(port: int) -> str:
    """The process that listens at a port, as Linux shows it, or as much as may be known."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(it.readlink()) in sockets for it in process.glob("fd/*")):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"pid {process.name} ({words[:MOST_WORDS]})"
    return "another process"


def _listening(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen at a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in (PROC / "self" / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = row.split()[:10]
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def room_for_connections(most_wanted: int) -> int:
    """As many as may be, and so few that the database, logs and the engine never want for a file to open."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most_wanted + OWN_FILES
    if files not in range(wanted):  # enough, or without a limit
        return most_wanted
    raised = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return max(FEWEST_CONNECTIONS, raised - OWN_FILES)


def machine() -> Resources:
    """This machine: all its CPUs and memory."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Resources(millicpus=1000 * len(os.sched_getaffinity(0)), memory_mib=pages * size // 2**20)
