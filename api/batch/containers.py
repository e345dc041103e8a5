"""Containers: their shapes, and containerProperties to the domain's container."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch import resources, validation
from batchq.api.batch.resources import ResourceRequirement
from batchq.api.batch.validation import RESERVED_PREFIX, Integer, Text, Unsupported, WireModel
from batchq.domain.catalog import require_unique
from batchq.domain.container import (
    ContainerSpec,
    Device,
    DevicePermission,
    Logging,
    Mount,
    Resources,
    Secret,
    Tmpfs,
    Ulimit,
)
from batchq.domain.overrides import check_resources
from batchq.errors import Invalid, NotSupported

# AWS: at most 255 letters, digits and these; an image's digest needs the @. Docker: the first is a letter or digit.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:./#@-]{0,254}")
_HUB_PAGE = re.compile(r"^hub\.docker\.com/(?:_|r)/")  # the beginning of the page of a repository on Docker Hub
_USER = re.compile(r"[a-z0-9_][a-z0-9_-]{0,30}")
_VOLUME = re.compile(r"[A-Za-z0-9_-]{1,255}")
_ULIMIT = re.compile(r"[a-z]{1,32}")
PLATFORMS: Mapping[str, str] = {"X86_64": "linux/amd64", "ARM64": "linux/arm64"}
_TMPFS_OPTION = re.compile(
    r"(defaults|r[ow]|(no)?(suid|dev|exec|mand|atime|diratime|relatime|strictatime)|a?sync|dirsync|remount|bind|rbind|"
    r"r?unbindable|r?private|r?shared|r?slave|(mode|uid|gid|nr_inodes|nr_blocks|mpol)(=[A-Za-z0-9:-]+)?)"
)
FARGATE_LOG_DRIVERS = ("awslogs", "splunk")


class KeyValuePair(WireModel):
    name: Text | None = None
    value: Text | None = None


class Host(WireModel):
    sourcePath: Text | None = None


class Volume(WireModel):
    name: Text | None = None
    host: Host | None = None
    efsVolumeConfiguration: Unsupported | None = None
    s3filesVolumeConfiguration: Unsupported | None = None


class MountPoint(WireModel):
    containerPath: Text | None = None
    readOnly: bool | None = None
    sourceVolume: Text | None = None


class UlimitShape(WireModel):
    name: Text
    softLimit: Integer
    hardLimit: Integer


class DeviceShape(WireModel):
    hostPath: Text
    containerPath: Text | None = None
    permissions: list[Literal["READ", "WRITE", "MKNOD"]] | None = None


class TmpfsShape(WireModel):
    containerPath: Text
    size: Integer
    mountOptions: list[Text] | None = None


class LinuxParameters(WireModel):
    devices: list[DeviceShape] | None = None
    initProcessEnabled: bool | None = None
    sharedMemorySize: Annotated[Integer, Field(ge=1)] | None = None
    tmpfs: list[TmpfsShape] | None = None
    maxSwap: Annotated[Integer, Field(ge=0)] | None = None
    swappiness: Annotated[int, Field(ge=0, le=100)] | None = None


class SecretShape(WireModel):
    name: Text
    valueFrom: Text


class LogConfiguration(WireModel):
    logDriver: Literal["json-file", "syslog", "journald", "gelf", "fluentd", "awslogs", "splunk", "awsfirelens"]
    options: dict[Text, Text] | None = None
    secretOptions: list[SecretShape] | None = None


class NetworkConfiguration(WireModel):
    assignPublicIp: Literal["ENABLED", "DISABLED"] | None = None


class FargatePlatformConfiguration(WireModel):
    platformVersion: Text | None = None


class EphemeralStorage(WireModel):
    sizeInGiB: Annotated[int, Field(ge=21, le=200)]


class RuntimePlatform(WireModel):
    operatingSystemFamily: Text | None = None
    cpuArchitecture: Text | None = None


class RepositoryCredentials(WireModel):
    credentialsParameter: Text


class ContainerProperties(WireModel):
    image: Text | None = None
    vcpus: Integer | None = None
    memory: Integer | None = None
    command: list[Text] | None = None
    jobRoleArn: Text | None = None
    executionRoleArn: Text | None = None
    volumes: list[Volume] | None = None
    environment: list[KeyValuePair] | None = None
    mountPoints: list[MountPoint] | None = None
    readonlyRootFilesystem: bool | None = None
    privileged: bool | None = None
    ulimits: list[UlimitShape] | None = None
    user: Text | None = None
    instanceType: Text | None = None
    resourceRequirements: list[ResourceRequirement] | None = None
    linuxParameters: LinuxParameters | None = None
    logConfiguration: LogConfiguration | None = None
    secrets: list[SecretShape] | None = None
    networkConfiguration: NetworkConfiguration | None = None
    fargatePlatformConfiguration: FargatePlatformConfiguration | None = None
    enableExecuteCommand: bool | None = None
    ephemeralStorage: EphemeralStorage | None = None
    runtimePlatform: RuntimePlatform | None = None
    repositoryCredentials: RepositoryCredentials | None = None


class ContainerOverrides(WireModel):
    vcpus: Integer | None = None
    memory: Integer | None = None
    command: list[Text] | None = None
    instanceType: Text | None = None
    environment: list[KeyValuePair] | None = None
    resourceRequirements: list[ResourceRequirement] | None = None


def to_single_container(given: ContainerProperties, *, on_fargate: bool) -> ContainerSpec:
    """The container of a job or node that has one container. Raises Invalid."""
    reserved = resources.to_resources(given)
    check_resources(reserved, fargate=on_fargate)
    return batch_container(given, reserved=reserved, on_fargate=on_fargate)


def batch_container(given: ContainerProperties, *, reserved: Resources, on_fargate: bool) -> ContainerSpec:
    if on_fargate:
        check_fargate(given)
    elif given.networkConfiguration is not None:
        raise Invalid("networkConfiguration not applicable for EC2.")
    linux = given.linuxParameters or LinuxParameters()
    return ContainerSpec(
        image=_image(given.image or ""),
        resources=reserved,
        command=tuple(given.command or ()),
        environment=environment_variables(given.environment),
        user=_user(given.user),
        privileged=bool(given.privileged),
        read_only_root=bool(given.readonlyRootFilesystem),
        init=bool(linux.initProcessEnabled),
        ulimits=tuple(_ulimit(shape) for shape in given.ulimits or ()),
        devices=tuple(_device(device) for device in linux.devices or ()),
        tmpfs=tuple(_tmpfs(shape) for shape in linux.tmpfs or ()),
        shared_memory_mib=linux.sharedMemorySize,
        max_swap_mib=linux.maxSwap,
        swappiness=None if linux.maxSwap is None else linux.swappiness,  # AWS: ignored without maxSwap
        mounts=_mounts(given.mountPoints or (), given.volumes or ()),
        logging=_logging(given.logConfiguration),
        secrets=tuple(
            Secret(name=variable_name(secret.name), value_from=validation.required(secret.valueFrom, "valueFrom"))
            for secret in given.secrets or ()
        ),
        platform=_platform(given.runtimePlatform),
    )


def _image(text: str) -> str:
    """The text. Raises Invalid if it is not the name of an image. AWS accepts a URL, which no engine can pull."""
    if not _IMAGE.fullmatch(text):
        raise Invalid("image must be the name of an image: at most 255 letters, digits and - _ : . / # @.")
    if "://" in text:
        name = _HUB_PAGE.sub("", text.partition("://")[2])
        raise Invalid(f"image must be the name of an image and not a URL: write {name} in place of {text}.")
    return text


def _user(text: str | None) -> str | None:
    if text and not _USER.fullmatch(text):
        raise Invalid(f"User '{text}' does not match regex")
    return text or None


def _ulimit(given: UlimitShape) -> Ulimit:
    if not _ULIMIT.fullmatch(given.name):
        raise Invalid("The name of a ulimit must be lower case letters.")
    if 0 <= given.hardLimit < given.softLimit:
        raise Invalid("The softLimit of a ulimit must not be above its hardLimit.")
    return Ulimit(name=given.name, soft=given.softLimit, hard=given.hardLimit)


def _device(given: DeviceShape) -> Device:
    return Device(
        host_path=validation.path(given.hostPath, "hostPath"),
        container_path=validation.path(given.containerPath or given.hostPath, "containerPath"),
        permissions=tuple(DevicePermission(literal) for literal in given.permissions or ()),
    )


def _tmpfs(given: TmpfsShape) -> Tmpfs:
    options = tuple(given.mountOptions or ())
    if given.size < 1:
        raise Invalid("The size of a tmpfs must be at least 1 MiB.")
    if not all(_TMPFS_OPTION.fullmatch(option) for option in options):
        raise Invalid("mountOptions of a tmpfs has an unknown option.")
    path = validation.path(given.containerPath, "containerPath")
    return Tmpfs(container_path=path, size_mib=given.size, options=options)


def _mounts(points: Sequence[MountPoint], volumes: Sequence[Volume]) -> tuple[Mount, ...]:
    paths = {_volume(volume): _source(volume) for volume in volumes}
    require_unique((volume.name for volume in volumes), "The name of a volume")
    require_unique((point.containerPath for point in points), "The containerPath of a mount point")
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
    validation.refuse_file_systems(
        efsVolumeConfiguration=given.efsVolumeConfiguration,
        s3filesVolumeConfiguration=given.s3filesVolumeConfiguration,
    )
    if not _VOLUME.fullmatch(given.name or ""):
        raise Invalid("The name of a volume must be 1 to 255 letters, digits, hyphens and underscores.")
    return given.name or ""


def _source(given: Volume) -> str | None:
    """The host path; None without one. AWS: the container engine then assigns a path, and its data is not kept."""
    path = given.host.sourcePath if given.host else None
    return validation.path(path, "sourcePath") if path else None


def _logging(given: LogConfiguration | None) -> Logging:
    """AWS: with awslogs GetLogEvents returns the log. Here it returns what batchq stores for every container."""
    if given is None:
        return Logging()
    if given.logDriver == "awsfirelens":
        raise NotSupported("The log driver awsfirelens is not supported by this server.")
    if given.logDriver == "awslogs":
        return Logging(group=(given.options or {}).get("awslogs-group") or None)
    return Logging(
        driver=given.logDriver,
        options=tuple((given.options or {}).items()),
        secret_options=tuple(_secret_option(shape) for shape in given.secretOptions or ()),
    )


def _secret_option(given: SecretShape) -> Secret:
    return Secret(
        name=validation.required(given.name, "name"), value_from=validation.required(given.valueFrom, "valueFrom")
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


def check_fargate(given: ContainerProperties) -> None:
    """Raise Invalid for a missing member that Fargate requires, and for one that it does not allow."""
    if not given.executionRoleArn:
        raise Invalid("executionRoleArn is required for Fargate.")
    for member, value in _forbidden_on_fargate(given).items():
        if value:
            raise Invalid(f"{member} is not applicable for Fargate.")
    if given.logConfiguration is not None and given.logConfiguration.logDriver not in FARGATE_LOG_DRIVERS:
        raise Invalid(f"logDriver must be one of {', '.join(FARGATE_LOG_DRIVERS)} for Fargate.")


def _forbidden_on_fargate(given: ContainerProperties) -> dict[str, object]:
    linux = given.linuxParameters or LinuxParameters()
    return {
        "privileged": given.privileged,
        "ulimits": given.ulimits,
        "instanceType": given.instanceType,
        "host volume": any(volume.host is not None and volume.host.sourcePath for volume in given.volumes or ()),
        "devices": linux.devices,
        "sharedMemorySize": linux.sharedMemorySize,
        "tmpfs": linux.tmpfs,
        "maxSwap": linux.maxSwap is not None,
        "swappiness": linux.swappiness is not None,
    }


def environment_variables(entries: Sequence[KeyValuePair] | None) -> tuple[tuple[str, str], ...]:
    """Environment variables; of several with one name the last. AWS: an omitted value is empty. Raises Invalid.

    AWS_BATCH_* variables that batchq sets replace these when the container is created.
    """
    return tuple({variable_name(entry.name or ""): entry.value or "" for entry in entries or ()}.items())


def variable_name(text: str) -> str:
    if not text or "=" in text or text.startswith(RESERVED_PREFIX):
        raise Invalid(
            f"The name of an environment variable must not be empty, contain '=' or begin with '{RESERVED_PREFIX}'."
        )
    return text
