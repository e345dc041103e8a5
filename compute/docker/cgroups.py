"""Reads what containers use from the files of their cgroups, version 1 and 2. Decision 0095.

The paths of a container's files contain its id. The layout of the engine's cgroups is learnt from the cgroup of one
process in a container. Files are opened anew for each sample, because open files would grow with the containers.
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from batchq.domain.ids import Tag
from batchq.domain.use import Use
from batchq.errors import ContainerRuntimeError

log = logging.getLogger(__name__)

LEARN_INTERVAL = timedelta(seconds=60)  # between two inspections while no cgroup of a known layout is found
PROC = Path("/proc")
UNIFIED = ""  # the name of the hierarchy of cgroups of version 2
V1_CONTROLLERS = ("cpuacct", "memory", "blkio")
MAX_BYTES = 65_536  # of one file
#: The directory of a container for each controller, cut where the id of the container stands.
Layout = Mapping[str, tuple[str, str]]

_INACTIVE_V1 = re.compile(r"^total_inactive_file (\d+)$", re.MULTILINE)
_INACTIVE_V2 = re.compile(r"^inactive_file (\d+)$", re.MULTILINE)
_CPU_V2 = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)
_NUMBER = re.compile(r"^(\d+)$", re.MULTILINE)
_READ_V1, _WRITTEN_V1 = (re.compile(rf"^\d+:\d+ {name} (\d+)$", re.MULTILINE) for name in ("Read", "Write"))
_READ_V2, _WRITTEN_V2 = (re.compile(rf"\b{name}=(\d+)") for name in ("rbytes", "wbytes"))


class UseReader:
    """Measures the containers of an engine whose cgroups this process can read."""

    def __init__(self, first_process: Callable[[Tag, str], Awaitable[int]], *, proc: Path = PROC) -> None:
        """`first_process` asks the engine for the process id of a container's first process; 0: it does not run."""
        self._first_process = first_process
        self._proc = proc
        self._layout: Layout | None = None
        #: When the engine was last asked for a process id.
        self._asked_at: datetime | None = None
        #: Whether the warning that nothing is measured was logged.
        self._has_warned = False

    async def measure(self, containers: Mapping[Tag, str], at: datetime) -> Mapping[Tag, Use] | None:
        """As `measure` of the port. All files are read by one call of a thread.

        The layout is learnt again when no cgroup is found: the engine may have been replaced or configured anew.
        `containers` is empty if a server has several engines, and all containers are on another one.
        """
        if not containers:
            return {}
        found: Mapping[Tag, Use] = {}
        if self._layout is not None:
            found = await asyncio.to_thread(read_uses, self._layout, containers, at)
        is_due = self._layout is None or self._asked_at is None or at - self._asked_at >= LEARN_INTERVAL
        return found or (await self._learn(containers, at) if is_due else {})

    async def _learn(self, containers: Mapping[Tag, str], at: datetime) -> Mapping[Tag, Use] | None:
        """Learn the layout from one container, and measure the containers. None: their cgroups cannot be read."""
        self._asked_at = at
        tag, container_id = next(iter(containers.items()))
        try:
            pid = await self._first_process(tag, container_id)
            layout = await asyncio.to_thread(find_layout, container_id, pid, proc=self._proc)
            if layout is None and (not pid or await self._first_process(tag, container_id) != pid):
                return {}  # the container has ended
        except ContainerRuntimeError:  # the container is removed, or the engine is away
            return {}
        self._layout = layout
        if layout is not None:
            return await asyncio.to_thread(read_uses, layout, containers, at)
        if not self._has_warned:
            log.warning("CPU time and memory of containers are not measured: this process cannot read their cgroups")
        self._has_warned = True
        return None


class MountedHierarchy(NamedTuple):
    """A mounted hierarchy of cgroups."""

    #: The directory of the hierarchy that is mounted.
    root: str
    #: Where the directory is mounted.
    point: str


def find_layout(container_id: str, pid: int, *, proc: Path) -> Layout | None:
    """The layout, from a process in the container `container_id`. None if no directory of the container is readable."""
    try:
        mounts = _mounts((proc / "self" / "mountinfo").read_text())
        paths = _paths((proc / str(pid) / "cgroup").read_text())
    except (OSError, ValueError):
        return None
    found = {name: _directory(container_id, paths.get(name), mounts.get(name)) for name in V1_CONTROLLERS}
    layout = {name: parts for name, parts in found.items() if parts is not None}
    unified = _directory(container_id, paths.get(UNIFIED), mounts.get(UNIFIED))
    return layout or (None if unified is None else {UNIFIED: unified})


def _mounts(text: str) -> Mapping[str, MountedHierarchy]:
    """The mounted hierarchies by controller."""
    mounts: dict[str, MountedHierarchy] = {}
    for line in text.splitlines():
        own, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = own.split(" ")[3:5]
        names = (UNIFIED,) if kind == "cgroup2" else options.split(",") if kind == "cgroup" else ()
        for name in names:
            mounts.setdefault(name, MountedHierarchy(root=root, point=point))
    return mounts


def _paths(text: str) -> Mapping[str, str]:
    """The cgroups of a process by controller, from lines as `4:memory:/docker/ID`."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _directory(container_id: str, path: str | None, mount: MountedHierarchy | None) -> tuple[str, str] | None:
    """The directory of the container in a hierarchy, without directories below it; None if it is not mounted."""
    if path is None or mount is None or not path.startswith(mount.root) or container_id not in path:
        return None
    before, _, after = f"{mount.point}/{path[len(mount.root) :].lstrip('/')}".partition(container_id)
    parts = before, after.partition("/")[0]
    return parts if os.path.isdir(container_id.join(parts)) else None  # noqa: PTH112 - the parts are texts


def read_uses(layout: Layout, containers: Mapping[Tag, str], at: datetime) -> Mapping[Tag, Use]:
    """The use of each container whose cgroup exists. Blocks for some microseconds for each file."""
    found = ((tag, _use(layout, container_id, at)) for tag, container_id in containers.items())
    return {tag: use for tag, use in found if use is not None}


def _use(layout: Layout, container_id: str, at: datetime) -> Use | None:
    def read(controller: str, file: str) -> str:
        parts = layout.get(controller)
        return "" if parts is None else _text(f"{parts[0]}{container_id}{parts[1]}/{file}")

    use = _unified_use(read, at) if UNIFIED in layout else _v1_use(read, at)
    return None if use == Use(sampled_at=at) else use


def _v1_use(read: Callable[[str, str], str], at: datetime) -> Use:
    """Without a line of a device the kernel may not count I/O at all, so the I/O is not measured."""
    nanoseconds = _number(_NUMBER, read("cpuacct", "cpuacct.usage"))
    current = _number(_NUMBER, read("memory", "memory.usage_in_bytes"))
    io = read("blkio", "blkio.throttle.io_service_bytes")
    return Use(
        sampled_at=at,
        cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
        peak_memory=_number(_NUMBER, read("memory", "memory.max_usage_in_bytes")),
        working_set=_working_set(current, _number(_INACTIVE_V1, read("memory", "memory.stat"))),
        bytes_read=_sum(_READ_V1, io),
        bytes_written=_sum(_WRITTEN_V1, io),
    )


def _unified_use(read: Callable[[str, str], str], at: datetime) -> Use:
    """Before Linux 5.19 the peak is the largest sample, because `memory.peak` does not exist."""
    microseconds = _number(_CPU_V2, read(UNIFIED, "cpu.stat"))
    current = _number(_NUMBER, read(UNIFIED, "memory.current"))
    peak = _number(_NUMBER, read(UNIFIED, "memory.peak"))
    io = read(UNIFIED, "io.stat")
    return Use(
        sampled_at=at,
        cpu_seconds=None if microseconds is None else microseconds / 1e6,
        peak_memory=current if peak is None else peak,
        working_set=_working_set(current, _number(_INACTIVE_V2, read(UNIFIED, "memory.stat"))),
        bytes_read=_sum(_READ_V2, io),
        bytes_written=_sum(_WRITTEN_V2, io),
    )


def _working_set(current: int | None, inactive: int | None) -> int | None:
    return None if current is None or inactive is None else max(0, current - inactive)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(match[1])


def _sum(pattern: re.Pattern[str], text: str) -> int | None:
    numbers: Sequence[str] = pattern.findall(text)
    return sum(map(int, numbers)) if numbers else None


def _text(path: str) -> str:
    """The content of a file; empty if it cannot be read, as of a container that has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, MAX_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
