"""The host folders of containers that are not started yet, held open.

The engine mounts a folder by /proc/<this process>/fd/<n>, at the start. So the descriptor is open from before the
create call until the start is answered, or the container is removed; and its number belongs to nothing else.
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

OF_THIS_HOST = "/proc/"  # begins the device of a volume that is a descriptor
MAX_OF_ONE = 64  # host paths of a container
MAX_FILES = 65_536  # that are numbered, where the process may open any number

_NUMBERS = count()


class Resolved(Struct, frozen=True, kw_only=True):
    """The mounts of a container with their real paths. `devices`: what the engine mounts for a path, if open."""

    mounts: tuple[Mount, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)


class OpenMounts:
    def __init__(self) -> None:
        self._held: dict[Tag, tuple[OpenMount, ...]] = {}
        self._created: dict[Tag, tuple[str, ...]] = {}
        self._lock = Lock()

    def resolve(self, launch: LaunchSpec, policy: Policy, *, shares_files: bool) -> Resolved:
        """Opened, or checked again where they are open already. Raises StartRefused and EngineUnknown.

        `shares_files`: the engine sees the files and the processes that this process sees.
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
        """By what is allowed now, which may be less than when they were opened. Raises StartRefused."""
        for it in self._held.get(launch.tag, ()):
            path = it.mount.host_path
            assert path is not None, "it is of the host"
            if it.folder is not None:
                check(path, it.folder, (), policy, launch.allowance)

    def suits(self, tag: Tag, inspected: object) -> bool:
        """Whether each folder that a container is to have is held open. Those of an earlier server are not."""
        held = self._held.get(tag, ())
        return devices_of(inspected) <= {_device(it.folder) for it in held if it.folder is not None}

    def created(self, tag: Tag) -> tuple[str, ...]:
        """The host paths that were created for a container, until it is removed: a second create finds them there."""
        return self._created.get(tag, ())

    def forget(self, tag: Tag) -> None:
        """The container is removed."""
        self.release(tag)
        with self._lock:
            self._created.pop(tag, None)

    def release(self, tag: Tag) -> None:
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
        """Also where another mount is refused then, or the create call fails: the next one finds the path there."""
        assert mount.host_path is not None, "it is of the host"
        with self._lock:
            self._created[tag] = (*self.created(tag), mount.host_path)


def devices_of(inspected: object) -> frozenset[str]:
    """The descriptors among what is mounted in a container."""
    mounted = member(inspected, "HostConfig", "Mounts", of=object)
    found = (_device_in(it) for it in (mounted if isinstance(mounted, list) else []))
    return frozenset(it for it in found if it is not None and it.startswith(OF_THIS_HOST))


def _renumber(folder: Descriptor | None) -> None:
    """To one of the highest numbers, each in turn: a late start of the engine must not find another file there."""
    if folder is None:
        return
    files = _files()
    least = files - files // 4
    try:
        folder.renumber(least + next(_NUMBERS) % (files - least))
    except OSError:  # no number behind it is free
        folder.renumber(least)


def _files() -> int:
    """How many files this process may have open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_FILES if files == resource.RLIM_INFINITY else min(files, MAX_FILES)


def _device_in(mount: object) -> str | None:
    try:
        return member(mount, "VolumeOptions", "DriverConfig", "Options", "device", of=str)
    except EngineUnknown:  # a mount of another kind
        return None


def _device(folder: Descriptor) -> str:
    return f"/proc/{os.getpid()}/fd/{folder.number}"
