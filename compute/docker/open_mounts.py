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
from batchq.compute.docker.mounts import OpenMount, check, mount_by_name, open_mount
from batchq.compute.docker.policy import Policy
from batchq.domain.container import Mount
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown, StartRefused
from batchq.ports.runtime import LaunchSpec

OF_THIS_HOST = "/proc/"  # the prefix of the device of a volume that is a descriptor
MAX_OF_ONE = 64  # host paths of a container
MAX_FILES = 65_536  # a higher limit of file descriptors, or no limit, counts as this one

_NUMBERS = count()


class Resolved(Struct, frozen=True, kw_only=True):
    """The checked mounts of a container."""

    #: All its mounts, with real host paths.
    mounts: tuple[Mount, ...] = ()
    #: For each host path whose folder is open: the descriptor's path, which the engine mounts instead.
    devices: Mapping[str, str] = field(default_factory=dict)


class OpenMounts:
    """The open folders of all containers that have not started."""

    def __init__(self) -> None:
        #: The checked host mounts of each container, in the order of its spec.
        self._held: dict[Tag, tuple[OpenMount, ...]] = {}
        #: The host paths that were created for each container.
        self._created: dict[Tag, tuple[str, ...]] = {}
        self._lock = Lock()

    def resolve(self, launch: LaunchSpec, policy: Policy, *, shares_files: bool) -> Resolved:
        """Open the host paths of a launch, or check them again if they are open. Raises StartRefused and EngineUnknown.

        `shares_files`: the engine is in the mount and PID namespaces of this process.
        """
        of_host = [it for it in launch.spec.mounts if it.host_path is not None]
        if not of_host:
            return Resolved(mounts=launch.spec.mounts)
        self.check(launch, policy)
        held = self._held.get(launch.tag)
        if held is None:
            held = self._open(of_host, launch, policy, shares_files=shares_files)
            with self._lock:
                self._held[launch.tag] = held
        real = iter(held)
        return Resolved(
            mounts=tuple(it if it.host_path is None else next(real).mount for it in launch.spec.mounts),
            devices={str(it.mount.host_path): _device(it.folder) for it in held if it.folder is not None},
        )

    def check(self, launch: LaunchSpec, policy: Policy) -> None:
        """Check the open folders again: less may be permitted than when they were opened. Raises StartRefused."""
        for it in self._held.get(launch.tag, ()):
            path = it.mount.host_path
            assert path is not None, "it is of the host"
            if it.folder is not None:
                check(path, it.folder, (), policy, launch.allowance)

    def suits(self, tag: Tag, inspected: object) -> bool:
        """Whether every folder that the container mounts by a descriptor is open; not if an earlier server created it.

        `inspected` is the engine's inspection.
        """
        held = self._held.get(tag, ())
        return devices_of(inspected) <= {_device(it.folder) for it in held if it.folder is not None}

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
            held = self._held.pop(tag, ())
        for it in held:
            it.close()

    def close(self) -> None:
        for tag in tuple(self._held):
            self.release(tag)

    def _open(
        self, of_host: list[Mount], launch: LaunchSpec, policy: Policy, *, shares_files: bool
    ) -> tuple[OpenMount, ...]:
        if len(of_host) > MAX_OF_ONE:
            raise StartRefused(f"CannotCreateContainerError: more than {MAX_OF_ONE} mounts of host paths")
        if sum(map(len, tuple(self._held.values()))) + len(of_host) > _files() // 4:
            raise EngineUnknown("create: too many starts at once have host folders open")
        opened: list[OpenMount] = []
        opens = open_mount if shares_files else mount_by_name
        try:
            for mount in of_host:
                opened.append(opens(mount, policy, launch.allowance))
                if opened[-1].created:
                    self._note_created(launch.tag, mount)
                _renumber(opened[-1].folder)
        except BaseException:
            for it in opened:
                it.close()
            raise
        return tuple(opened)

    def _note_created(self, tag: Tag, mount: Mount) -> None:
        """Record a created path at once: if the launch fails later, the next `resolve` finds the path existing."""
        assert mount.host_path is not None, "it is of the host"
        with self._lock:
            self._created[tag] = (*self.created(tag), mount.host_path)


def devices_of(inspected: object) -> frozenset[str]:
    """The paths of the descriptors that the inspected container mounts."""
    mounted = member(inspected, "HostConfig", "Mounts", of=object)
    found = (_device_in(it) for it in (mounted if isinstance(mounted, list) else []))
    return frozenset(it for it in found if it is not None and it.startswith(OF_THIS_HOST))


def _renumber(folder: Descriptor | None) -> None:
    """Move the descriptor to the highest quarter of the numbers, in rotation.

    So a delayed start by the engine, after the descriptor was closed, does not find another file under its number.
    """
    if folder is None:
        return
    files = _files()
    least = files - files // 4
    try:
        folder.renumber(least + next(_NUMBERS) % (files - least))
    except OSError:  # no number from there on is free
        folder.renumber(least)


def _files() -> int:
    """The number of file descriptors that this process may have."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_FILES if files == resource.RLIM_INFINITY else min(files, MAX_FILES)


def _device_in(mount: object) -> str | None:
    try:
        return member(mount, "VolumeOptions", "DriverConfig", "Options", "device", of=str)
    except EngineUnknown:  # a mount of another kind
        return None


def _device(folder: Descriptor) -> str:
    return f"/proc/{os.getpid()}/fd/{folder.number}"
