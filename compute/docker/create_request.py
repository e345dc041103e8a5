"""What batchq wants of a container, in the words of the engine's create call. Pure."""

import logging
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from batchq.compute.docker.policy import Policy
from batchq.domain.container import ContainerSpec, Device, DevicePermission, Logging, Mount
from batchq.domain.ids import JobId, Tag
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged

INSTANCE, JOB, ATTEMPT = "io.batchq.instance", "io.batchq.job", "io.batchq.attempt"
PART, GPUS = "io.batchq.part", "io.batchq.gpus"
VOLUME = "io.batchq.volume"
KEEPS = "io.batchq.keeps"  # on what the containers of an attempt share: which attempt's it is
COMMONS, ACCOUNT = "io.batchq.environment", "io.batchq.account"  # on what jobs share: see SharedNetwork
# Every label that batchq reads.
CONTAINER_LABELS = (INSTANCE, JOB, ATTEMPT, PART, GPUS, VOLUME, KEEPS, COMMONS, ACCOUNT)
BESIDE = "container:"  # begins the network mode of a container that is on another's

MIB = 2**20
LEAST_MEMORY = 6 * MIB  # of Docker; AWS allows 4 MiB
LEAST_SHARES = 2  # of the kernel
SHARES_OF_A_CPU = 1024
ROTATED = {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}}
PERMISSIONS = {DevicePermission.READ: "r", DevicePermission.WRITE: "w", DevicePermission.MKNOD: "m"}

DROPPED_OF_ROOT = ("MKNOD", "NET_RAW", "SETFCAP")

log = logging.getLogger(__name__)


class Creation(Struct, frozen=True, kw_only=True):
    """A create call: the container's name and the body."""

    name: str
    platform: str | None
    config: Mapping[str, Any]


class Place(Struct, frozen=True, kw_only=True):
    """Where a container is put that does not have the engine's usual network.

    `network` is that of its attempt, by its id, or `container:` with the id of a keeper, or a mode of the engine's.
    `node` is the name by which other nodes find it, None where the keeper has it. `ipc` and `pid` are `container:`
    likewise, or None.
    """

    network: str
    node: str | None = None
    ipc: str | None = None
    pid: str | None = None


class SharedNetwork(Struct, frozen=True, kw_only=True):
    """Which jobs share a network: those on a compute environment that are of one account, or all where it is empty."""

    environment: str
    account: str = ""

    def __str__(self) -> str:
        """For an operator."""
        account = f", account {self.account}" if self.account else ""
        return f"environment {self.environment}{account}"


class LookedUp(Struct, frozen=True, kw_only=True):
    """What has been looked up for a launch: secrets, real paths, GPUs, its place, and what the kernel knows.

    `devices`: what the engine mounts for a host path whose folder is open, by that path.
    `user` None is that of the spec.
    """

    secrets: tuple[tuple[str, str], ...] = ()
    log_secrets: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    gpus: tuple[str, ...] = ()
    place: Place | None = None
    knows_swappiness: bool = True


def name_of(instance: str, tag: Tag) -> str:
    """The container's name: one attempt of one job of one server, so that a create asked twice makes one container."""
    return f"{attempt_name(instance, tag)}-{tag.node}-{tag.container}" if tag.part else attempt_name(instance, tag)


def attempt_name(instance: str, tag: Tag) -> str:
    job = tag.job_id.replace(":", "_").replace("#", ".")
    return f"bq-{instance}-{job}-{tag.attempt}"


def keeper_name(instance: str, tag: Tag) -> str:
    return f"{attempt_name(instance, tag)}-{tag.node}"


def labels_of(instance: str, tag: Tag, gpus: Iterable[str] = ()) -> dict[str, str]:
    """Of a job's container: every label that batchq reads, empty where it has no value.

    The engine adds the labels of the image, which its author chose; a label that the create call sets wins.
    """
    return dict.fromkeys(CONTAINER_LABELS, "") | attempt_labels(instance, tag) | {PART: tag.part, GPUS: ",".join(gpus)}


def attempt_labels(instance: str, tag: Tag) -> dict[str, str]:
    """Those that all containers of an attempt have in common."""
    return {INSTANCE: instance, JOB: tag.job_id, ATTEMPT: str(tag.attempt)}


def tag_of(labels: Mapping[str, str], instance: str) -> Tag | None:
    """Which container of which attempt it is, None if it is no job's, or not of this instance."""
    attempt = labels.get(ATTEMPT, "")
    if labels.get(INSTANCE) != instance or not labels.get(JOB) or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(labels[JOB]), attempt=int(attempt), part=labels.get(PART, ""))


def shared_labels(instance: str, tag: Tag) -> dict[str, str]:
    """Of what the containers of an attempt share."""
    return {INSTANCE: instance, KEEPS: f"{tag.job_id}/{tag.attempt}"}


def kept_for(labels: Mapping[str, str], instance: str) -> Tag | None:
    """The attempt whose containers share it, as a tag without a part; None if it is nothing shared, or of others."""
    job, _, attempt = labels.get(KEEPS, "").rpartition("/")
    if labels.get(INSTANCE) != instance or not job or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(job), attempt=int(attempt))


def commons_name(instance: str, shared: SharedNetwork) -> str:
    """Of its bridge and of its pause container. The name of an account may have letters that Docker refuses."""
    account = f".{sha256(shared.account.encode()).hexdigest()[:12]}" if shared.account else ""
    return f"bq-{instance}-on.{shared.environment}{account}"


def commons_labels(instance: str, shared: SharedNetwork) -> dict[str, str]:
    return {INSTANCE: instance, COMMONS: shared.environment, ACCOUNT: shared.account}


def commons_of(labels: Mapping[str, str], instance: str) -> SharedNetwork | None:
    """The network that it is, or holds; None if it is nothing of the kind, or of others."""
    if labels.get(INSTANCE) != instance or not labels.get(COMMONS):
        return None
    return SharedNetwork(environment=labels[COMMONS], account=labels.get(ACCOUNT, ""))


def volume_name(instance: str, tag: Tag, volume: str) -> str:
    """Of a volume that the containers of a node share; it is a folder of the engine's, whose name must be short."""
    return f"{keeper_name(instance, tag)}-{sha256(volume.encode()).hexdigest()[:12]}"


def creation(launch: LaunchSpec, *, instance: str, policy: Policy, looked: LookedUp) -> Creation:
    """Raises StartRefused where the policy refuses it."""
    spec = launch.spec
    user = spec.user if looked.user is None else looked.user
    return Creation(
        name=name_of(instance, launch.tag),
        platform=spec.platform,
        config={
            "Image": spec.image,
            "Env": _environment(launch, looked),
            "Labels": labels_of(instance, launch.tag, looked.gpus),
            "HostConfig": _host(launch, policy, looked)
            | {"Mounts": [_mount(mount, instance, launch.tag, looked.devices) for mount in looked.mounts]}
            | _namespaces(looked.place),
        }
        | _endpoint(looked.place)
        | ({"Cmd": list(spec.command)} if spec.command else {})
        | ({"User": user} if user is not None else {}),
    )


def _environment(launch: LaunchSpec, looked: LookedUp) -> list[str]:
    """Over the image's own: the job's, over them its secrets, over them batchq's."""
    variables = dict(launch.spec.environment) | dict(looked.secrets) | dict(launch.environment)
    return [f"{name}={value}" for name, value in variables.items()]


def _host(launch: LaunchSpec, policy: Policy, looked: LookedUp) -> dict[str, Any]:
    spec = launch.spec
    privileged = spec.privileged and _is_given("privileged", launch, policy)
    return (
        {
            "CpuShares": max(LEAST_SHARES, spec.resources.millicpus * SHARES_OF_A_CPU // 1000),
            **_memory(spec, looked),
            "PidsLimit": policy.pids,
            "Privileged": privileged,
            # The two contradict each other.
            "SecurityOpt": ["no-new-privileges"] if policy.no_new_privileges and not privileged else [],
            "ReadonlyRootfs": spec.read_only_root,
            "Init": spec.init,
            "Ulimits": [{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in spec.ulimits],
            "Devices": [
                _device(device) for device in spec.devices if _is_given("linuxParameters.devices", launch, policy)
            ],
            "DeviceRequests": _gpus(looked.gpus),
            "Tmpfs": {it.container_path: ",".join([f"size={it.size_mib}m", *it.options]) for it in spec.tmpfs},
            "LogConfig": _logging(spec.logging, looked),
            # An attempt is one container that starts once, and it is removed when its end is known.
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        }
        | ({"ShmSize": spec.shared_memory_mib * MIB} if spec.shared_memory_mib is not None else {})
        | _confined(launch)
    )


def _confined(launch: LaunchSpec) -> dict[str, Any]:
    """Without root no capability. With it none by which a job of an account leaves devices or powers in a volume."""
    if launch.allowance is None:
        return {}
    return {"CapDrop": list(DROPPED_OF_ROOT) if launch.allowance.permits_root else ["ALL"]}


def _memory(spec: ContainerSpec, looked: LookedUp) -> dict[str, int]:
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


def _is_given(member: str, launch: LaunchSpec, policy: Policy) -> bool:
    """What opens the machine to a container: who has a disk of the host's is as good as privileged."""
    if policy.privileged is Privileged.REFUSE:
        raise StartRefused(f"CannotCreateContainerError: {member} is refused by this server", forbidden=True)
    if policy.privileged is Privileged.DROP:
        log.warning("%s: %s is left out, as this server is told to", launch.tag, member)
    return policy.privileged is Privileged.ALLOW


def _device(device: Device) -> dict[str, str]:
    permissions = "".join(letter for it, letter in PERMISSIONS.items() if it in device.permissions)
    return {
        "PathOnHost": device.host_path,
        "PathInContainer": device.container_path or device.host_path,
        "CgroupPermissions": permissions or "rwm",
    }


def _gpus(ids: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"Driver": "nvidia", "DeviceIDs": list(ids), "Capabilities": [["gpu"]]}] if ids else []


def _mount(mount: Mount, instance: str, tag: Tag, devices: Mapping[str, str]) -> dict[str, Any]:
    """Not one of Binds: they are text to be taken apart, and the engine would make what is missing."""
    where = {"Target": mount.container_path, "ReadOnly": mount.read_only}
    if mount.host_path is not None and mount.host_path in devices:
        return _open_folder(devices[mount.host_path], mount)
    if mount.host_path is not None:
        return {"Type": "bind", "Source": mount.host_path} | where
    if mount.volume is None or not tag.part:
        return {"Type": "volume"} | where
    # Named, it does not go with the first container that is removed.
    options = {"Labels": shared_labels(instance, tag) | {VOLUME: mount.volume}}
    return {"Type": "volume", "Source": volume_name(instance, tag, mount.volume), "VolumeOptions": options} | where


def _open_folder(device: str, mount: Mount) -> dict[str, Any]:
    """An anonymous volume on a descriptor of batchq's: a bind by name would look the path up again.

    The engine refuses `ReadOnly` for it. Private, for what is mounted in the folder must not be unmounted with it.
    """
    options = {"type": "none", "device": device, "o": "rbind,rprivate" + (",ro" if mount.read_only else "")}
    volume = {"NoCopy": True, "DriverConfig": {"Name": "local", "Options": options}}
    return {"Type": "volume", "Target": mount.container_path, "VolumeOptions": volume}


def _namespaces(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    modes = {"NetworkMode": place.network, "IpcMode": place.ipc, "PidMode": place.pid}
    # Where processes are shared the keeper is the first of them; another would but complain that it is not.
    init = {} if place.pid is None else {"Init": False}
    return {name: mode for name, mode in modes.items() if mode is not None} | init


def _endpoint(place: Place | None) -> dict[str, Any]:
    if place is None or place.node is None:
        return {}
    return {"NetworkingConfig": {"EndpointsConfig": {place.network: {"Aliases": [place.node]}}}}


def _logging(logging: Logging, looked: LookedUp) -> dict[str, Any]:
    """What batchq keeps the engine keeps first, in files of a bounded size."""
    if logging.captured:
        return ROTATED
    return {"Type": logging.driver, "Config": dict(logging.options) | dict(looked.log_secrets)}
