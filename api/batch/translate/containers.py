"""containerProperties to the domain's container. Members that select where AWS runs it have no effect here."""

import re
from collections.abc import Mapping, Sequence

from batchq.api.batch.translate import fargate, resources, validation
from batchq.api.batch.wire.containers import (
    ContainerProperties,
    LinuxParameters,
    LogConfiguration,
    MountPoint,
    RuntimePlatform,
    Secret,
    Volume,
)
from batchq.api.batch.wire.containers import Device as WireDevice
from batchq.api.batch.wire.containers import Tmpfs as WireTmpfs
from batchq.api.batch.wire.containers import Ulimit as WireUlimit
from batchq.domain.container import (
    ContainerSpec,
    Device,
    DevicePermission,
    Logging,
    Mount,
    Resources,
    Tmpfs,
    Ulimit,
)
from batchq.domain.container import Secret as SecretVariable
from batchq.errors import Invalid, NotSupported

# AWS: at most 255 letters, digits and these; an image's digest needs the @. Docker: the first is a letter or digit.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:./#@-]{0,254}")
_USER = re.compile(r"[a-z0-9_][a-z0-9_-]{0,30}")
_VOLUME = re.compile(r"[A-Za-z0-9_-]{1,255}")
_ULIMIT = re.compile(r"[a-z]{1,32}")

PLATFORMS: Mapping[str, str] = {"X86_64": "linux/amd64", "ARM64": "linux/arm64"}
_TMPFS_OPTION = re.compile(
    r"(defaults|r[ow]|(no)?(suid|dev|exec|mand|atime|diratime|relatime|strictatime)|a?sync|dirsync|remount|bind|rbind|"
    r"r?unbindable|r?private|r?shared|r?slave|(mode|uid|gid|nr_inodes|nr_blocks|mpol)(=[A-Za-z0-9:-]+)?)"
)


def alone(given: ContainerProperties, *, on_fargate: bool) -> ContainerSpec:
    """The container of a job or node that has one container. Raises Invalid."""
    return container(given, reserved=resources.required(given, fargate=on_fargate), on_fargate=on_fargate)


def container(given: ContainerProperties, *, reserved: Resources, on_fargate: bool) -> ContainerSpec:
    if on_fargate:
        fargate.check(given)
    elif given.networkConfiguration is not None:
        raise Invalid("networkConfiguration not applicable for EC2.")
    linux = given.linuxParameters or LinuxParameters()
    return ContainerSpec(
        image=_image(given.image or ""),
        resources=reserved,
        command=tuple(given.command or ()),
        environment=validation.pairs(given.environment),
        user=_user(given.user),
        privileged=bool(given.privileged),
        read_only_root=bool(given.readonlyRootFilesystem),
        init=bool(linux.initProcessEnabled),
        ulimits=tuple(_ulimit(it) for it in given.ulimits or ()),
        devices=tuple(_device(it) for it in linux.devices or ()),
        tmpfs=tuple(_tmpfs(it) for it in linux.tmpfs or ()),
        shared_memory_mib=linux.sharedMemorySize,
        max_swap_mib=linux.maxSwap,
        swappiness=None if linux.maxSwap is None else linux.swappiness,  # AWS: ignored without maxSwap
        mounts=_mounts(given.mountPoints or (), given.volumes or ()),
        logging=_logging(given.logConfiguration),
        secrets=tuple(_secret(it) for it in given.secrets or ()),
        platform=_platform(given.runtimePlatform),
    )


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise Invalid("image must be the name of an image: at most 255 letters, digits and - _ : . / # @.")
    return text


def _user(text: str | None) -> str | None:
    if text and not _USER.fullmatch(text):
        raise Invalid(f"User '{text}' does not match regex")
    return text or None


def _ulimit(given: WireUlimit) -> Ulimit:
    if not _ULIMIT.fullmatch(given.name):
        raise Invalid("The name of a ulimit must be lower case letters.")
    if 0 <= given.hardLimit < given.softLimit:
        raise Invalid("The softLimit of a ulimit must not be above its hardLimit.")
    return Ulimit(name=given.name, soft=given.softLimit, hard=given.hardLimit)


def _device(given: WireDevice) -> Device:
    return Device(
        host_path=validation.path(given.hostPath, "hostPath"),
        container_path=validation.path(given.containerPath or given.hostPath, "containerPath"),
        permissions=tuple(DevicePermission(it) for it in given.permissions or ()),
    )


def _tmpfs(given: WireTmpfs) -> Tmpfs:
    options = tuple(given.mountOptions or ())
    if given.size < 1:
        raise Invalid("The size of a tmpfs must be at least 1 MiB.")
    if not all(_TMPFS_OPTION.fullmatch(option) for option in options):
        raise Invalid("mountOptions of a tmpfs has an option that is not known.")
    path = validation.path(given.containerPath, "containerPath")
    return Tmpfs(container_path=path, size_mib=given.size, options=options)


def _mounts(points: Sequence[MountPoint], volumes: Sequence[Volume]) -> tuple[Mount, ...]:
    paths = {_volume(it): _source(it) for it in volumes}
    validation.once((it.name for it in volumes), "The name of a volume")
    validation.once((it.containerPath for it in points), "The containerPath of a mount point")
    for point in points:
        if point.sourceVolume not in paths:
            raise Invalid(f"sourceVolume '{point.sourceVolume or ''}' is not one of the volumes.")
    return tuple(
        Mount(
            container_path=validation.path(point.containerPath or "", "containerPath"),
            host_path=paths[point.sourceVolume or ""],
            read_only=bool(point.readOnly),
        )
        for point in points
    )


def _volume(given: Volume) -> str:
    validation.unserved(
        {
            "efsVolumeConfiguration": given.efsVolumeConfiguration is not None,
            "s3filesVolumeConfiguration": given.s3filesVolumeConfiguration is not None,
        }
    )
    if not _VOLUME.fullmatch(given.name or ""):
        raise Invalid("The name of a volume must be 1 to 255 letters, digits, hyphens and underscores.")
    return given.name or ""


def _source(given: Volume) -> str | None:
    """The host path; None without one. AWS: the engine then assigns a path, and its data is not kept."""
    path = given.host.sourcePath if given.host else None
    return validation.path(path, "sourcePath") if path else None


def _logging(given: LogConfiguration | None) -> Logging:
    """AWS: with awslogs GetLogEvents returns the log. Here it returns what batchq stores for every container."""
    if given is None:
        return Logging()
    if given.logDriver == "awsfirelens":
        raise NotSupported("The log driver awsfirelens is not supported by this server.")
    if given.logDriver == "awslogs":
        return Logging()
    return Logging(
        driver=given.logDriver,
        options=tuple((given.options or {}).items()),
        secret_options=tuple(_secret_option(it) for it in given.secretOptions or ()),
    )


def _secret_option(given: Secret) -> SecretVariable:
    return SecretVariable(
        name=validation.required(given.name, "name"), value_from=validation.required(given.valueFrom, "valueFrom")
    )


def _secret(given: Secret) -> SecretVariable:
    return SecretVariable(
        name=validation.variable(given.name), value_from=validation.required(given.valueFrom, "valueFrom")
    )


def _platform(given: RuntimePlatform | None) -> str | None:
    if given is None:
        return None
    if given.operatingSystemFamily not in {None, "", "LINUX"}:
        raise NotSupported(f"operatingSystemFamily {given.operatingSystemFamily} is not supported by this server.")
    if not given.cpuArchitecture:
        return None
    if given.cpuArchitecture not in PLATFORMS:
        raise Invalid(f"cpuArchitecture must be one of {', '.join(PLATFORMS)}.")
    return PLATFORMS[given.cpuArchitecture]
