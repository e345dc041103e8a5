"""What batchq wants of a container, in the words of the engine's create call. Pure."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchq.domain.container import ContainerSpec, Device, DevicePermission, Logging, Mount
from batchq.domain.names import JobId, Tag
from batchq.errors import StartRefused
from batchq.settings import Privileged
from batchq.values import Launch
from compute.policy import Policy

INSTANCE, JOB, ATTEMPT = "io.batchq.instance", "io.batchq.job", "io.batchq.attempt"
GPUS = "io.batchq.gpus"

MIB = 2**20
LEAST_MEMORY = 6 * MIB  # of Docker; AWS allows 4 MiB
LEAST_SHARES = 2  # of the kernel
SHARES_OF_A_CPU = 1024
KEPT_BY_BATCHQ = frozenset({None, "awslogs", "json-file"})
ROTATED = {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}}
PERMISSIONS = {DevicePermission.READ: "r", DevicePermission.WRITE: "w", DevicePermission.MKNOD: "m"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A create call: the container's name and the body."""

    name: str
    platform: str | None
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What has been looked up for a launch: secrets, real paths, GPUs, and whether the kernel knows swappiness."""

    secrets: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    gpus: tuple[str, ...] = ()
    knows_swappiness: bool = True


def name_of(instance: str, tag: Tag) -> str:
    """The container's name: one attempt of one job of one server, so that a create asked twice makes one container."""
    job = tag.job_id.replace(":", "_").replace("#", ".")
    return f"bq-{instance}-{job}-{tag.attempt}"


def labels_of(instance: str, tag: Tag) -> dict[str, str]:
    return {INSTANCE: instance, JOB: tag.job_id, ATTEMPT: str(tag.attempt)}


def tag_of(labels: Mapping[str, str], instance: str) -> Tag | None:
    """Which attempt a container belongs to, None if it is not of this instance."""
    attempt = labels.get(ATTEMPT, "")
    if labels.get(INSTANCE) != instance or JOB not in labels or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(labels[JOB]), attempt=int(attempt))


def creation(launch: Launch, *, instance: str, policy: Policy, looked: Looked) -> Creation:
    """Raises StartRefused where the policy refuses it."""
    spec = launch.spec
    return Creation(
        name=name_of(instance, launch.tag),
        platform=spec.platform,
        config={
            "Image": spec.image,
            "Env": _environment(launch, looked),
            "Labels": labels_of(instance, launch.tag) | ({GPUS: ",".join(looked.gpus)} if looked.gpus else {}),
            "HostConfig": _host(launch, policy, looked),
        }
        | ({"Cmd": list(spec.command)} if spec.command else {})
        | ({"User": spec.user} if spec.user is not None else {}),
    )


def _environment(launch: Launch, looked: Looked) -> list[str]:
    """Over the image's own: the job's, over them its secrets, over them batchq's."""
    variables = dict(launch.spec.environment) | dict(looked.secrets) | dict(launch.environment)
    return [f"{name}={value}" for name, value in variables.items()]


def _host(launch: Launch, policy: Policy, looked: Looked) -> dict[str, Any]:
    spec = launch.spec
    privileged = _privileged(launch, policy)
    return {
        "CpuShares": max(LEAST_SHARES, spec.resources.millicpus * SHARES_OF_A_CPU // 1000),
        **_memory(spec, looked),
        "PidsLimit": policy.pids,
        "Privileged": privileged,
        # The two contradict each other.
        "SecurityOpt": ["no-new-privileges"] if policy.no_new_privileges and not privileged else [],
        "ReadonlyRootfs": spec.read_only_root,
        "Init": spec.init,
        "Ulimits": [{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in spec.ulimits],
        "Devices": [_device(device) for device in spec.devices],
        "DeviceRequests": _gpus(looked.gpus),
        "Tmpfs": {it.container_path: ",".join([f"size={it.size_mib}m", *it.options]) for it in spec.tmpfs},
        # Not Binds: they are text to be taken apart, and the engine would make what is missing.
        "Mounts": [_mount(mount) for mount in looked.mounts],
        "LogConfig": _logging(spec.logging),
        # An attempt is one container that starts once, and it is removed when its end is known.
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
    } | ({"ShmSize": spec.shared_memory_mib * MIB} if spec.shared_memory_mib is not None else {})


def _memory(spec: ContainerSpec, looked: Looked) -> dict[str, int]:
    """A hard limit. Without maxSwap there is no swap, and swappiness has no meaning."""
    memory = max(LEAST_MEMORY, spec.resources.memory_mib * MIB)
    if spec.max_swap_mib is None:
        return {"Memory": memory, "MemorySwap": memory}
    limits = {"Memory": memory, "MemorySwap": memory + spec.max_swap_mib * MIB}
    if spec.swappiness is None:
        return limits
    if not looked.knows_swappiness:
        log.warning("swappiness %d is left out: cgroup v2 knows none", spec.swappiness)
        return limits
    return limits | {"MemorySwappiness": spec.swappiness}


def _privileged(launch: Launch, policy: Policy) -> bool:
    if not launch.spec.privileged or policy.privileged is Privileged.ALLOW:
        return launch.spec.privileged
    if policy.privileged is Privileged.REFUSE:
        raise StartRefused("CannotCreateContainerError: this server refuses privileged containers")
    log.warning("%s: privileged is left out, as this server is told to", launch.tag)
    return False


def _device(device: Device) -> dict[str, str]:
    permissions = "".join(letter for it, letter in PERMISSIONS.items() if it in device.permissions)
    return {
        "PathOnHost": device.host_path,
        "PathInContainer": device.container_path or device.host_path,
        "CgroupPermissions": permissions or "rwm",
    }


def _gpus(ids: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"Driver": "nvidia", "DeviceIDs": list(ids), "Capabilities": [["gpu"]]}] if ids else []


def _mount(mount: Mount) -> dict[str, Any]:
    kind = {"Type": "volume"} if mount.host_path is None else {"Type": "bind", "Source": mount.host_path}
    return kind | {"Target": mount.container_path, "ReadOnly": mount.read_only}


def _logging(logging: Logging) -> dict[str, Any]:
    """What batchq keeps the engine keeps first, in files of a bounded size."""
    if logging.driver in KEPT_BY_BATCHQ:
        return ROTATED
    return {"Type": logging.driver, "Config": dict(logging.options)}
