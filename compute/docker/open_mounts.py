"""Holds the host folders of containers open until they have started: docs/decisions/0030.

The engine mounts a folder as /proc/<pid of this process>/fd/<n> at the start. So the descriptor is open from before the
create request until the reply to the start, or the removal of the container, and no other file gets its number.
"""

import os
import resource
from collections.abc import Mapping
from itertools import count
from threading import Lock

from msgspec import Struct, field

from batchq.compute.docker.host_paths import Descriptor
from batchq.compute.docker.inspection import member
from batchq.compute.docker.mounts import OpenMount, check_open_path, mount_by_name, open_mount
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.container import Mount
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown, StartRefused
from batchq.ports.runtime import LaunchSpec

DESCRIPTOR_PREFIX = "/proc/"  # the prefix of the device of a volume that is a descriptor
MAX_HOST_MOUNTS = 64  # host paths of a container
MAX_FILES = 65_536  # a higher limit of file descriptors, or no limit, counts as this one

_NUMBERS = count()


class ResolvedMounts(Struct, frozen=True, kw_only=True):
    """The checked mounts of a container."""

    #: All its mounts, with real host paths.
    mounts: tuple[Mount, ...] = ()
    #: For each host path whose folder is open: the descriptor's path, which the engine mounts instead.
    devices: Mapping[str, str] = field(default_factory=dict)


class OpenMounts:
    """The open folders of all containers that have not started."""

    def __init__(self) -> None:
        #: The checked host mounts of each container, in the order of its spec.
        self._opened: dict[Tag, tuple[OpenMount, ...]] = {}
        #: The host paths that were created for each container.
        self._created: dict[Tag, tuple[str, ...]] = {}
        self._lock = Lock()

    def resolve(self, launch: LaunchSpec, policy: ServerPolicy, *, shares_files: bool) -> ResolvedMounts:
        """Open the host paths of a launch, or check them again if they are open. Raises StartRefused and EngineUnknown.

        `shares_files`: the engine is in the mount and PID namespaces of this process.
        """
        host_mounts = [it for it in launch.spec.mounts if it.host_path is not None]
        if not host_mounts:
            return ResolvedMounts(mounts=launch.spec.mounts)
        self.check(launch, policy)
        opened = self._opened.get(launch.tag)
        if opened is None:
            opened = self._open(host_mounts, launch, policy, shares_files=shares_files)
            with self._lock:
                self._opened[launch.tag] = opened
        real = iter(opened)
        return ResolvedMounts(
            mounts=tuple(it if it.host_path is None else next(real).mount for it in launch.spec.mounts),
            devices={str(it.mount.host_path): _device(it.folder) for it in opened if it.folder is not None},
        )

    def check(self, launch: LaunchSpec, policy: ServerPolicy) -> None:
        """Check the open folders again: less may be permitted than when they were opened. Raises StartRefused."""
        for it in self._opened.get(launch.tag, ()):
            path = it.mount.host_path
            assert path is not None, "it is of the host"
            if it.folder is not None:
                check_open_path(path, it.folder, (), policy, launch.allowance)

    def are_open(self, tag: Tag, inspected: object) -> bool:
        """Whether every folder that the container mounts by a descriptor is open; not if an earlier server created it.

        `inspected` is the engine's inspection.
        """
        opened = self._opened.get(tag, ())
        return descriptor_paths_of(inspected) <= {_device(it.folder) for it in opened if it.folder is not None}

    def created(self, tag: Tag) -> tuple[str, ...]:
        """The host paths that were created for the container, also by an earlier `resolve`, until `forget`."""
        return self._created.get(tag, ())

    def forget(self, tag: Tag) -> None:
        """Release everything of a container that was removed."""
        self.release(tag)
        with self._lock:
            self._created.pop(tag, None)

    def release(self, tag: Tag) -> None:
        """Close the folders of the container."""
        with self._lock:
            opened = self._opened.pop(tag, ())
        for it in opened:
            it.close()

    def close(self) -> None:
        for tag in tuple(self._opened):
            self.release(tag)

    def _open(
        self, host_mounts: list[Mount], launch: LaunchSpec, policy: ServerPolicy, *, shares_files: bool
    ) -> tuple[OpenMount, ...]:
        if len(host_mounts) > MAX_HOST_MOUNTS:
            raise StartRefused(f"CannotCreateContainerError: more than {MAX_HOST_MOUNTS} mounts of host paths")
        if sum(map(len, tuple(self._opened.values()))) + len(host_mounts) > _max_files() // 4:
            raise EngineUnknown("create: too many starts at once have host folders open")
        opened: list[OpenMount] = []
        open_one = open_mount if shares_files else mount_by_name
        try:
            for mount in host_mounts:
                opened.append(open_one(mount, policy, launch.allowance))
                if opened[-1].created:
                    self._record_created(launch.tag, mount)
                _renumber(opened[-1].folder)
        except BaseException:
            for it in opened:
                it.close()
            raise
        return tuple(opened)

    def _record_created(self, tag: Tag, mount: Mount) -> None:
        """Record a created path at once: if the launch fails later, the next `resolve` finds the path existing."""
        assert mount.host_path is not None, "it is of the host"
        with self._lock:
            self._created[tag] = (*self.created(tag), mount.host_path)


def descriptor_paths_of(inspected: object) -> frozenset[str]:
    """The paths of the descriptors that the inspected container mounts."""
    mounted = member(inspected, "HostConfig", "Mounts", of=object)
    found = (_device_in(it) for it in (mounted if isinstance(mounted, list) else []))
    return frozenset(it for it in found if it is not None and it.startswith(DESCRIPTOR_PREFIX))


def _renumber(folder: Descriptor | None) -> None:
    """Move the descriptor to the highest quarter of the numbers, in rotation.

    So a delayed start by the engine, after the descriptor was closed, does not find another file under its number.
    """
    if folder is None:
        return
    max_files = _max_files()
    minimum = max_files - max_files // 4
    try:
        folder.renumber(minimum + next(_NUMBERS) % (max_files - minimum))
    except OSError:  # no number from there on is free
        folder.renumber(minimum)


def _max_files() -> int:
    """The number of file descriptors that this process may have."""
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_FILES if max_files == resource.RLIM_INFINITY else min(max_files, MAX_FILES)


def _device_in(mount: object) -> str | None:
    try:
        return member(mount, "VolumeOptions", "DriverConfig", "Options", "device", of=str)
    except EngineUnknown:  # a mount of another kind
        return None


def _device(folder: Descriptor) -> str:
    return f"/proc/{os.getpid()}/fd/{folder.number}"
