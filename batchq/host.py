"""What this machine gives a server: an address to listen at, files to open, CPUs and memory."""

import ipaddress
import os
import resource
from socket import AF_INET, AF_INET6, create_server, socket

from batchq.domain.container import Resources
from batchq.settings import Settings

OWN_FILES, FEWEST_CONNECTIONS = 80, 8  # of the files that may be open: ours and the engine's, and what is left at least


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: Settings) -> socket:
    """Take the port before anything is done. Whoever calls already waits until the server is ready."""
    family = AF_INET6 if ":" in settings.host else AF_INET
    return create_server((settings.host, settings.port), family=family)


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
