"""Checks the host paths of a container, and holds its folders open until it has started: docs/decisions/0030.

A missing path is refused, unless its mount or the server creates it (`--missing-host-paths create`, decision 0075).
Symlinks in it are followed, and their target is checked. These are never mounted, nor what contains them or lies below
them, by whatever path or bind mount: the engine's socket (it gives root access) and root directory, /proc, /sys, /dev,
and batchq's own files.

The engine mounts a folder as /proc/<pid of this process>/fd/<n> at the start. So the descriptor is open from before the
create request until the reply to the start, or the removal of the container, and is not soon used for another file.
"""

import errno
import logging
import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from batchq.compute.docker.engine_socket import check_socket, names_socket
from batchq.compute.docker.errors import create_forbidden, create_refused
from batchq.compute.docker.host_paths import (
    Descriptor,
    FilesystemPosition,
    MountTable,
    create_folders,
    open_path,
    real_path,
)
from batchq.compute.docker.inspection import member
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.access.container_policy import ENGINES, KERNEL, LINKED, plain_path
from batchq.domain.container import CREATE_HOST_PATHS_TAG, Device, Mount
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown, StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import MissingHostPaths

DESCRIPTOR_PREFIX = "/proc/"  # the prefix of the device of a volume that is a descriptor
MAX_HOST_MOUNTS = 64  # host paths of a container
MAX_FILES = 65_536  # a higher limit of file descriptors, or no limit, counts as this one
_NUMBERS = count()
FORBIDDEN_PATHS = tuple(map(Path, (*ENGINES, LINKED, *KERNEL, "/var/lib/docker")))
# Each mount of proc is a file system of its own: it is found by its type, not by the position of /proc.
KERNEL_FILESYSTEMS = frozenset(
    {"cgroup", "cgroup2", "debugfs", "devpts", "devtmpfs", "proc", "securityfs", "sysfs", "tracefs"}
)
DESCRIPTOR_LIMIT_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE})

log = logging.getLogger(__name__)


ResolvedMounts = tuple[tuple[Mount, ...], Mapping[str, str]]
"""All mounts of a container, with real host paths; and for each host path whose folder is open: the path of the
descriptor, which the engine mounts instead."""


class OpenMount(Struct, frozen=True, kw_only=True):
    """A checked mount of a host path."""

    #: The mount with its real path on the host.
    mount: Mount
    #: The open folder; None: the engine mounts the path by its name.
    folder: Descriptor | None
    #: The host path did not exist, and was created.
    created: bool = False

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()


class OpenMounts:
    """The open folders of all containers that have not started."""

    def __init__(self) -> None:
        #: The checked host mounts of each container, in the order of its spec.
        self._opened: dict[Tag, tuple[OpenMount, ...]] = {}
        #: The host paths that were created for each container.
        self._created: dict[Tag, tuple[str, ...]] = {}
        self._lock = Lock()

    def resolve(self, launch: LaunchSpec, policy: ServerPolicy, *, shares_files: bool) -> ResolvedMounts:
        """Open the host paths of a launch, or check open ones again. Raises StartRefused and RuntimeUnknown.

        `shares_files`: the engine is in the mount and PID namespaces of this process.
        """
        host_mounts = [mount for mount in launch.spec.mounts if mount.host_path is not None]
        self.check(launch, policy)
        opened = self._opened.get(launch.tag)
        if opened is None:
            opened = self._open(host_mounts, launch, policy, shares_files=shares_files)
            with self._lock:
                self._opened[launch.tag] = opened
        real = iter(opened)
        mounts = tuple(mount if mount.host_path is None else next(real).mount for mount in launch.spec.mounts)
        return mounts, {
            str(mount.mount.host_path): _device(mount.folder) for mount in opened if mount.folder is not None
        }

    def check(self, launch: LaunchSpec, policy: ServerPolicy) -> None:
        """Check the open folders again: less may be permitted than when they were opened. Raises StartRefused."""
        for mount in self._opened.get(launch.tag, ()):
            path = mount.mount.host_path
            assert path is not None, "it is of the host"
            if mount.folder is not None:
                check_open_path(path, mount.folder, (), policy, launch.allowances)

    def are_open(self, tag: Tag, inspected: object) -> bool:
        """Whether the descriptors that the inspected container mounts are open in this process.

        They are not if another process of batchq created the container, or if `release` was called since.
        """
        open_now = {_device(mount.folder) for mount in self._opened.get(tag, ()) if mount.folder is not None}
        return descriptor_paths_of(inspected) <= open_now

    def created(self, tag: Tag) -> tuple[str, ...]:
        """The host paths that any `resolve` has created for the container; empty after `forget`."""
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
        for mount in opened:
            mount.close()

    def close(self) -> None:
        for tag in tuple(self._opened):
            self.release(tag)

    def _open(
        self, host_mounts: list[Mount], launch: LaunchSpec, policy: ServerPolicy, *, shares_files: bool
    ) -> tuple[OpenMount, ...]:
        if len(host_mounts) > MAX_HOST_MOUNTS:
            raise create_refused(f"more than {MAX_HOST_MOUNTS} mounts of host paths")
        if sum(map(len, tuple(self._opened.values()))) + len(host_mounts) > _max_files() // 4:
            raise RuntimeUnknown("create: too many starts at once have host folders open")
        opened: list[OpenMount] = []
        open_one = open_mount if shares_files else mount_by_name
        try:
            for mount in host_mounts:
                opened.append(open_one(mount, policy, launch.allowances))
                if opened[-1].created:
                    self._record_created(launch.tag, mount)
                _renumber(opened[-1].folder)
        except BaseException:
            for each in opened:
                each.close()
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
    found = (_device_in(item) for item in (mounted if isinstance(mounted, list) else []))
    return frozenset(text for text in found if text is not None and text.startswith(DESCRIPTOR_PREFIX))


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
    except RuntimeUnknown:  # a mount of another kind
        return None


def _device(folder: Descriptor) -> str:
    return f"/proc/{os.getpid()}/fd/{folder.number}"


def open_mount(mount: Mount, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> OpenMount:
    """Check and open the host path of a mount; a missing one is created or refused. The caller closes the result.

    Raises StartRefused, and RuntimeUnknown if the process has no free file descriptor.
    """
    host_path = _absolute(mount)
    if names_socket(host_path, policy):
        return _engine_socket(mount, policy, allowances)
    try:
        creates = mount.create or policy.missing_host_paths is MissingHostPaths.CREATE
        at, created = _open(host_path, policy, allowances, creates=creates and not mount.must_exist)
        try:
            real = replace(mount, host_path=str(at.path))
            if at.is_folder:
                return OpenMount(mount=real, folder=at, created=created)
            _check_protected(host_path, at.path, policy)
        except BaseException:
            at.close()
            raise
        at.close()
        return OpenMount(mount=real, folder=None)
    except (OSError, ValueError, LookupError) as error:
        if isinstance(error, OSError) and error.errno in DESCRIPTOR_LIMIT_ERRNOS:
            raise RuntimeUnknown(f"create: {error}") from error
        raise create_refused(f"host path {host_path!r} cannot be used: {error}") from error


def mount_by_name(mount: Mount, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> OpenMount:
    """Check a mount without opening or creating anything. Raises StartRefused.

    For an engine that does not share the mount and PID namespaces of this process.
    """
    host_path = _absolute(mount)
    if names_socket(host_path, policy):
        return _engine_socket(mount, policy, allowances)
    real = Path(plain_path(host_path))
    check_name(host_path, real, policy, allowances)
    return OpenMount(mount=replace(mount, host_path=str(real)), folder=None)


def check_open_path(
    given_path: str,
    at: Descriptor,
    missing: tuple[str, ...],
    policy: ServerPolicy,
    allowances: Sequence[ContainerPolicy],
) -> None:
    """Check an open path, and the folders `missing` that are to be created below it. Raises StartRefused and OSError.

    `given_path` is the path as the job gave it, for error messages.
    """
    real = at.path.joinpath(*missing)
    check_path(given_path, real, policy, allowances)
    mount_table = MountTable()
    if at.path.joinpath(*missing) != real:
        raise OSError(errno.EBUSY, "moved during the check")
    position = mount_table.position(at)
    seen = (FilesystemPosition(position.device, position.path.joinpath(*missing)), *mount_table.below(real))
    for path in (*FORBIDDEN_PATHS, *policy.private):
        forbidden = _position(path, mount_table)
        if forbidden is not None and any(forbidden.overlaps(position) for position in seen):
            raise _forbidden_path(given_path, path)
    for place in seen:
        if mount_table.filesystem(place) in KERNEL_FILESYSTEMS:
            raise _forbidden_path(given_path, f"a {mount_table.filesystem(place)} file system of the kernel")


def check_path(given_path: str, real: Path, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> None:
    """Check the real path by its name alone. `given_path` is the path as the job gave it. Raises StartRefused."""
    if not _is_below(real, policy.volumes, policy):
        raise create_forbidden(f"host path {given_path!r} is not below a path that this server permits")
    if not all(_is_below(real, map(Path, allowance.volumes), policy) for allowance in allowances):
        raise create_forbidden(f"host path {given_path!r} is not below a path that the accounts of the job permit")
    for path in (*FORBIDDEN_PATHS, *policy.private):
        forbidden = path.resolve()
        if real.is_relative_to(forbidden) or forbidden.is_relative_to(real):
            raise _forbidden_path(given_path, path)


def check_name(given_path: str, real: Path, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> None:
    """Check a path that the engine resolves by its name at the mount. Raises StartRefused."""
    if names_socket(given_path, policy):
        check_socket(given_path, policy, allowances)
        return
    check_path(given_path, real, policy, allowances)
    _check_protected(given_path, real, policy)


def _engine_socket(mount: Mount, policy: ServerPolicy, allowances: Sequence[ContainerPolicy]) -> OpenMount:
    """The mount of the engine's socket, by its name: only root can replace it."""
    socket = check_socket(_absolute(mount), policy, allowances)
    return OpenMount(mount=replace(mount, host_path=str(socket)), folder=None)


def check_device(device: Device, allowances: Sequence[ContainerPolicy]) -> None:
    """Check that the job may use the device; symlinks are resolved first. Raises StartRefused."""
    if not allowances:
        return
    try:
        real = Path(device.host_path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise create_forbidden(f"device {device.host_path!r} cannot be used: {error}") from error
    if not all(
        any(real.is_relative_to(Path(allowed).resolve()) for allowed in policy.devices) for policy in allowances
    ):
        raise create_forbidden(f"device {device.host_path!r} is not allowed for the accounts of the job")


def _absolute(mount: Mount) -> str:
    assert mount.host_path is not None, "it has one"
    if not mount.host_path.startswith("/"):
        raise create_refused(f"host path {mount.host_path!r} is not an absolute path")
    return mount.host_path


def _open(
    host_path: str, policy: ServerPolicy, allowances: Sequence[ContainerPolicy], *, creates: bool
) -> tuple[Descriptor, bool]:
    """The open path, and whether it was created."""
    at, missing = open_path(str(plain_path(host_path)), follows=lambda _: True)
    try:
        check_open_path(host_path, at, missing, policy, allowances)
        if missing:
            _check_creatable(host_path, creates=creates)
            at = create_folders(at, missing)
            check_open_path(host_path, at, (), policy, allowances)
    except BaseException:
        at.close()
        raise
    return at, bool(missing)


def _check_creatable(host_path: str, *, creates: bool) -> None:
    if not creates:
        advice = f"create it, or submit the job with --create-host-paths (tag {CREATE_HOST_PATHS_TAG}: true)"
        raise create_refused(f"host path {host_path!r} does not exist: {advice}")
    log.info("host path %r: created, as it did not exist", host_path)


def _check_protected(given_path: str, real: Path, policy: ServerPolicy) -> None:
    """Refuse a path in a folder that jobs can write: a job could replace the path between this check and the mount."""
    if not _is_protected(_writable(policy), real.parent):
        raise create_forbidden(
            f"host path {given_path!r} is in a folder that jobs can change, so a job could replace it before the "
            "mount: mount the whole folder"
        )


def _is_below(real: Path, allowed: Iterable[Path], policy: ServerPolicy) -> bool:
    """Whether the path is one of the allowed ones or below.

    In an allowed path, symlinks in folders that jobs can write are not followed: a job could have made them.
    """
    is_protected = partial(_is_protected, _writable(policy))
    for path in allowed:
        try:
            root = real_path(path, follows=is_protected)
        except OSError:
            continue
        if real.is_relative_to(root):
            return True
    return False


def _writable(policy: ServerPolicy) -> frozenset[Path]:
    """The folders that jobs of accounts can write: the paths given to accounts, and their real paths."""
    given = frozenset(map(Path, policy.given()))
    return given | {path.resolve() for path in given}


def _is_protected(writable: frozenset[Path], folder: Path) -> bool:
    """Whether no job can change the entries of the folder."""
    return not any(folder.is_relative_to(path) for path in writable)


def _position(path: Path, mount_table: MountTable) -> FilesystemPosition | None:
    """The position of a path in its file system; None: the path does not exist or cannot be opened."""
    try:
        with closing(Descriptor(os.open(path, os.O_PATH | os.O_CLOEXEC))) as status:
            return mount_table.position(status)
    except (OSError, ValueError, LookupError):
        return None


def _forbidden_path(given_path: str, path: object) -> StartRefused:
    why = f"host path {given_path!r} is, contains or is below {path}, which no job may mount"
    return create_forbidden(why)
