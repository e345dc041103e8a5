"""Resources of this machine that a server uses: a listening socket, open files, CPUs, memory and disk space."""

import asyncio
import ipaddress
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket
from threading import Thread

from batchq.domain.container import Resources
from batchq.errors import DiskFull, StartImpossible, StoreFailed, Unavailable

MIB = 2**20
PROC = Path("/proc")
REJECTED = "jobs and job definitions are rejected, and output of containers is not stored"
MAX_DISK_WAIT = 0.5  # seconds in which a disk must answer
LISTENING = "0A"  # the value of TCP_LISTEN in the column `st` of /proc/net/tcp
MAX_COMMAND_LINE = 200  # characters of another process's command line in an error text
# Open files: those for the server's own use and for engine connections, and the minimum left for client connections.
RESERVED_FILES, MIN_CONNECTIONS = 80, 8
_LISTEN_ADVICE: Mapping[int, str] = {
    EACCES: "ports below 1024 require root: set another with --port",
    EADDRNOTAVAIL: "set --host to an address of this machine, or to 0.0.0.0 for all of them",
}


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket:
    """A listening socket. Clients that connect before the server is ready wait until it is.

    Raises Unavailable if another process uses the port, StartImpossible if the address is not one of this machine.
    """
    family = AF_INET6 if ":" in host else AF_INET
    try:
        return create_server((host, port), family=family)
    except OSError as why:
        if why.errno == EADDRINUSE:
            where = f"{host} port {port}"
            raise Unavailable(
                f"{where} is already in use by {_process_listening_on(port)}; set another with --port"
            ) from None
        code = why.errno or 0
        text = f"{os.strerror(code)}; {_LISTEN_ADVICE[code]}" if code in _LISTEN_ADVICE else why.strerror
        raise StartImpossible(f"cannot listen at {host} port {port}: {text}") from None


def _process_listening_on(port: int) -> str:
    """The process id and command line of the process that listens on a port; `another process` if they are hidden."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(path.readlink()) in sockets for path in process.glob("fd/*")):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"pid {process.name} ({words[:MAX_COMMAND_LINE]})"
    return "another process"


def _listening_inodes(port: int) -> Iterator[str]:
    """The inodes of the TCP sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in (PROC / "self" / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = row.split()[:10]
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def connection_limit(wanted: int) -> int:
    """The number of client connections to accept: few enough that RESERVED_FILES other files can always be opened.

    Raises the process's soft limit of open files if that permits more connections, up to `wanted`.
    """
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES
    if files not in range(needed):  # the limit suffices, or is RLIM_INFINITY, which is -1
        return wanted
    raised = needed if most == resource.RLIM_INFINITY else min(needed, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return max(MIN_CONNECTIONS, raised - RESERVED_FILES)


def host_resources() -> Resources:
    """The CPUs that this process may use, and all memory of the machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Resources(millicpus=1000 * len(os.sched_getaffinity(0)), memory_mib=pages * size // MIB)


def free_disk(folder: Path) -> int:
    """The free bytes of the folder's file system for users other than root. Raises StoreFailed."""
    try:
        disk = os.statvfs(folder)
    except OSError as why:
        raise StoreFailed(f"the free space of {folder} is unknown: {why}") from why
    return disk.f_bavail * disk.f_frsize


class DiskGuard:
    """Rejects requests that store data while free space is low, so that running jobs can be saved."""

    def __init__(self, *, free: Callable[[], int], min_free: int) -> None:
        """`free` returns the free bytes of the disk, or raises StoreFailed. `min_free` is the minimum in bytes."""
        self._free = free
        self._min_free = min_free

    def free(self) -> int:
        """The free bytes of the disk. Raises StoreFailed if they cannot be read."""
        return self._free()

    def check(self) -> None:
        """Raises DiskFull if less than the minimum is free; StoreFailed if the free space cannot be read."""
        _require_free(self._free(), self._min_free, directory="data directory", rejected=REJECTED)

    @property
    def critical(self) -> bool:
        """Whether less than half of the minimum is free: then not even a line is added to a stored log."""
        return self._free() < self._min_free // 2

    @property
    def problem(self) -> str | None:
        """Why `check` would raise an error; None if it would not."""
        try:
            self.check()
        except (DiskFull, StoreFailed) as why:
            return str(why)
        return None


class NetworkDiskGuard:
    """As DiskGuard, for a directory that may be on a network file system, which may hang.

    The disk is measured in a thread, so a disk that hangs delays the first caller only, and never the event loop.
    """

    def __init__(self, *, free: Callable[[], int], min_free: int, directory: str, rejected: str) -> None:
        """`free` and `min_free` as for DiskGuard; `free` may block.

        `directory` and `rejected` are for the error: the directory on the disk, and what is rejected.
        """
        self._free = free
        self._min_free = min_free
        self._directory, self._rejected = directory, rejected
        #: The last measurement; None before the first one.
        self._measurement: Future[int] | None = None
        #: Whether a caller has waited MAX_DISK_WAIT for the last measurement.
        self._hangs = False

    async def check(self) -> None:
        """Raises DiskFull if less than the minimum is free; StoreFailed if the disk cannot be read or hangs."""
        _require_free(await self._measured(), self._min_free, directory=self._directory, rejected=self._rejected)

    async def _measured(self) -> int:
        """The free bytes. Callers at the same time share one measurement."""
        if self._measurement is None or self._measurement.done():
            self._measurement, self._hangs = self._started(), False
        elif self._hangs:
            raise StoreFailed(f"the disk of the {self._directory} does not respond")
        try:
            async with asyncio.timeout(MAX_DISK_WAIT):
                return await asyncio.shield(asyncio.wrap_future(self._measurement))
        except TimeoutError:
            self._hangs = True
            raise StoreFailed(f"the disk of the {self._directory} does not respond") from None

    def _started(self) -> "Future[int]":
        """A measurement that was started in a thread."""
        measurement: Future[int] = Future()
        try:
            Thread(target=self._measure, args=(measurement,), name="free-space", daemon=True).start()
        except RuntimeError as failure:  # the machine cannot start another thread
            raise StoreFailed(f"the free space of the {self._directory} is unknown: {failure}") from failure
        return measurement

    def _measure(self, measurement: "Future[int]") -> None:
        try:
            measurement.set_result(self._free())
        except (OSError, StoreFailed) as failure:
            measurement.set_exception(failure)


def _require_free(free: int, min_free: int, *, directory: str, rejected: str) -> None:
    """Raises DiskFull if less than the minimum is free; both in bytes."""
    if free < min_free:
        raise DiskFull(
            f"The disk of batchq's {directory} has {free // MIB} MiB of free space. "
            f"Below {min_free // MIB} MiB {rejected}."
        )
