"""Builds the engine's create request of a container, its names and labels, and archives of its files. Pure."""

import io
import logging
import tarfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from batchq.compute.docker.errors import create_forbidden
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.container import ContainerSpec, Device, DevicePermission, Logging, Mount
from batchq.domain.ids import JobId, Tag
from batchq.domain.training import MOUNT_POINT
from batchq.ports.runtime import LaunchSpec
from batchq.settings import Privileged

INSTANCE, JOB, ATTEMPT = "io.batchq.instance", "io.batchq.job", "io.batchq.attempt"
PART, GPUS = "io.batchq.part", "io.batchq.gpus"
VOLUME = "io.batchq.volume"
SHARED_BY = "io.batchq.shared-by"  # the attempt of a network, pause container or volume that its containers share
FAILURE_FILE = "io.batchq.failure-file"  # the path of a file whose content is the reason if the container fails
ENVIRONMENT, ACCOUNT = "io.batchq.environment", "io.batchq.account"  # on a network that jobs share: see SharedNetwork
# Every label that batchq reads.
CONTAINER_LABELS = (INSTANCE, JOB, ATTEMPT, PART, GPUS, VOLUME, SHARED_BY, ENVIRONMENT, ACCOUNT, FAILURE_FILE)
CONTAINER_MODE = "container:"  # the prefix of a namespace mode that names another container

MIB = 2**20
MIN_MEMORY = 6 * MIB  # Docker's minimum; AWS allows 4 MiB
MIN_SHARES = 2  # the kernel's minimum
SHARES_OF_A_CPU = 1024
ROTATED_LOG = {"Type": "json-file", "Config": {"max-size": "100m", "max-file": "5"}}
PERMISSIONS = {DevicePermission.READ: "r", DevicePermission.WRITE: "w", DevicePermission.MKNOD: "m"}

DROPPED_ROOT_CAPABILITIES = ("MKNOD", "NET_RAW", "SETFCAP")

log = logging.getLogger(__name__)


class Namespaces(Struct, frozen=True, kw_only=True):
    """The namespaces of a container that is not on the engine's default network."""

    #: The id of its attempt's network, or `container:` with the id of a pause container, or a mode of the engine.
    network: str
    #: The names by which other nodes find the container; empty: its pause container has them, or there is no name.
    node: tuple[str, ...] = ()
    #: `container:` with the id of a pause container; None: its own IPC namespace.
    ipc: str | None = None
    #: `container:` with the id of a pause container; None: its own PID namespace.
    pid: str | None = None


class SharedNetwork(Struct, frozen=True, kw_only=True):
    """The key of a network that jobs share: docs/decisions/0022."""

    #: The compute environment of the jobs.
    environment: str
    #: The account of the jobs; empty: jobs of all accounts share the network.
    account: str = ""

    def __str__(self) -> str:
        """The text for log lines."""
        account = f", account {self.account}" if self.account else ""
        return f"environment {self.environment}{account}"


class LaunchInputs(Struct, frozen=True, kw_only=True):
    """The values that are looked up for a launch before its create request is built."""

    #: Names and values of environment variables.
    secrets: tuple[tuple[str, str], ...] = ()
    #: Names and values of options of the log driver.
    log_secrets: tuple[tuple[str, str], ...] = ()
    #: All mounts, with real host paths.
    mounts: tuple[Mount, ...] = ()
    #: For each host path whose folder is open: the descriptor's path, which the engine mounts instead.
    devices: Mapping[str, str] = field(default_factory=dict)
    #: None: the user of the spec.
    user: str | None = None
    #: The device ids of its GPUs.
    gpus: tuple[str, ...] = ()
    #: The engine's OCI runtime; None: its default.
    oci_runtime: str | None = None
    #: None: the engine's default network.
    namespaces: Namespaces | None = None
    #: Whether the kernel supports swappiness of containers (cgroup v1).
    supports_swappiness: bool = True


def container_name(instance: str, tag: Tag) -> str:
    """The container's name, unique for a tag and an instance: a repeated create request finds the first container."""
    return (
        f"{attempt_name(instance, tag)}-{tag.node}-{tag.container}"
        if tag.container_key
        else attempt_name(instance, tag)
    )


def attempt_name(instance: str, tag: Tag) -> str:
    """The name of the container of an attempt with a single one, or of the network of an attempt with several."""
    job = tag.job_id.replace(":", "_").replace("#", ".")
    return f"bq-{instance}-{job}-{tag.attempt}"


def pause_container_name(instance: str, tag: Tag) -> str:
    """The name of a node's pause container."""
    return f"{attempt_name(instance, tag)}-{tag.node}"


def container_labels(instance: str, tag: Tag, gpus: Iterable[str] = ()) -> dict[str, str]:
    """The labels of a job's container: every label that batchq reads, empty if it has no value.

    All are set because the engine adds the image's labels, whose values its author chooses; a label in the create
    request takes precedence: docs/decisions/0034.
    """
    return (
        dict.fromkeys(CONTAINER_LABELS, "")
        | attempt_container_labels(instance, tag)
        | {PART: tag.container_key, GPUS: ",".join(gpus)}
    )


def attempt_container_labels(instance: str, tag: Tag) -> dict[str, str]:
    """The labels that all containers of an attempt have in common."""
    return {INSTANCE: instance, JOB: tag.job_id, ATTEMPT: str(tag.attempt)}


def tag_of(labels: Mapping[str, str], instance: str) -> Tag | None:
    """The tag in the labels; None: not a container of a job, or not of this instance."""
    attempt = labels.get(ATTEMPT, "")
    if labels.get(INSTANCE) != instance or not labels.get(JOB) or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(labels[JOB]), attempt=int(attempt), container_key=labels.get(PART, ""))


def attempt_object_labels(instance: str, tag: Tag) -> dict[str, str]:
    """The labels of a network, pause container or volume that the containers of an attempt share."""
    return {INSTANCE: instance, SHARED_BY: f"{tag.job_id}/{tag.attempt}"}


def attempt_in(labels: Mapping[str, str], instance: str) -> Tag | None:
    """The attempt whose containers share the object with these labels, as a tag without a container key.

    None: not such an object, or not of this instance.
    """
    job, _, attempt = labels.get(SHARED_BY, "").rpartition("/")
    if labels.get(INSTANCE) != instance or not job or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(job), attempt=int(attempt))


def shared_network_name(instance: str, shared: SharedNetwork) -> str:
    """The name of a shared network's bridge and of its pause container.

    The account is hashed: its name may have characters that Docker does not allow.
    """
    account = f".{sha256(shared.account.encode()).hexdigest()[:12]}" if shared.account else ""
    return f"bq-{instance}-on.{shared.environment}{account}"


def shared_network_labels(instance: str, shared: SharedNetwork) -> dict[str, str]:
    """The labels of a shared network's bridge and of its pause container."""
    return {INSTANCE: instance, ENVIRONMENT: shared.environment, ACCOUNT: shared.account}


def shared_network_in(labels: Mapping[str, str], instance: str) -> SharedNetwork | None:
    """The shared network in the labels of a bridge or pause container; None: not one of this instance."""
    if labels.get(INSTANCE) != instance or not labels.get(ENVIRONMENT):
        return None
    return SharedNetwork(environment=labels[ENVIRONMENT], account=labels.get(ACCOUNT, ""))


def volume_name(instance: str, tag: Tag, volume: str) -> str:
    """The name of a volume that the containers of a node share, hashed: Docker names a folder by it."""
    return f"{pause_container_name(instance, tag)}-{sha256(volume.encode()).hexdigest()[:12]}"


def shared_volumes(instance: str, launch: LaunchSpec) -> Mapping[str, str]:
    """The engine's names of the volumes that the containers of the launch's node share, by the names in the spec."""
    volumes = (mount.volume for mount in launch.spec.mounts if mount.host_path is None and mount.volume is not None)
    return {volume: volume_name(instance, launch.tag, volume) for volume in volumes}


def build_create_request(
    launch: LaunchSpec, *, instance: str, policy: ServerPolicy, inputs: LaunchInputs
) -> Mapping[str, Any]:
    """Build the body of the create request of a launch. Raises StartRefused if the policy denies it."""
    spec = launch.spec
    user = spec.user if inputs.user is None else inputs.user
    return (
        {
            "Image": spec.image,
            "Env": _environment(launch, inputs),
            "Labels": container_labels(instance, launch.tag, inputs.gpus) | {FAILURE_FILE: spec.failure_file or ""},
            "HostConfig": _host_config(launch, policy, inputs)
            | {"Mounts": _mounts(launch, instance, inputs)}
            | _namespace_modes(inputs.namespaces)
            | _own_names(launch, inputs.namespaces),
        }
        | _endpoint(inputs.namespaces)
        | ({"Entrypoint": list(spec.entrypoint)} if spec.entrypoint else {})
        | ({"Cmd": list(spec.command)} if spec.command else {})
        | ({"User": user} if user is not None else {})
    )


def _environment(launch: LaunchSpec, inputs: LaunchInputs) -> list[str]:
    """`NAME=value`, in ascending precedence: the job's variables, its secrets, batchq's. All override the image's."""
    variables = dict(launch.spec.environment) | dict(inputs.secrets) | dict(launch.environment)
    return [f"{name}={value}" for name, value in variables.items()]


def _host_config(launch: LaunchSpec, policy: ServerPolicy, inputs: LaunchInputs) -> dict[str, Any]:
    spec = launch.spec
    privileged = spec.privileged and _is_granted("privileged", launch, policy)
    return (
        {
            "CpuShares": max(MIN_SHARES, spec.resources.millicpus * SHARES_OF_A_CPU // 1000),
            **_memory(spec, inputs),
            "PidsLimit": policy.pids,
            "Privileged": privileged,
            # Disables setuid programs (sudo, su). It would contradict privileged.
            "SecurityOpt": [] if privileged else ["no-new-privileges"],
            "ReadonlyRootfs": spec.read_only_root,
            "Init": spec.init,
            "Ulimits": [{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in spec.ulimits],
            "Devices": [
                _device(device) for device in spec.devices if _is_granted("linuxParameters.devices", launch, policy)
            ],
            "DeviceRequests": _gpus(inputs.gpus),
            "Tmpfs": {
                tmpfs.container_path: ",".join([f"size={tmpfs.size_mib}m", *tmpfs.options]) for tmpfs in spec.tmpfs
            },
            "LogConfig": _logging(spec.logging, inputs),
            # The container of an attempt starts once, and batchq removes it after its end is stored.
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        }
        | ({} if inputs.oci_runtime is None else {"Runtime": inputs.oci_runtime})
        | ({"ShmSize": spec.shared_memory_mib * MIB} if spec.shared_memory_mib is not None else {})
        | _dropped_capabilities(launch)
    )


def _dropped_capabilities(launch: LaunchSpec) -> dict[str, Any]:
    """The capabilities that a job of a restricted account loses: all of them unless it may run as root.

    With root it loses those with which it could leave devices or files with capabilities in a volume, and NET_RAW.
    """
    if not launch.allowances:
        return {}
    has_root = all(policy.permits_root for policy in launch.allowances)
    return {"CapDrop": list(DROPPED_ROOT_CAPABILITIES) if has_root else ["ALL"]}


def _memory(spec: ContainerSpec, inputs: LaunchInputs) -> dict[str, int]:
    """The memory limits. AWS: without `maxSwap` the container has no swap, and `swappiness` is ignored."""
    memory = max(MIN_MEMORY, spec.resources.memory_mib * MIB)
    if spec.max_swap_mib is None:
        return {"Memory": memory, "MemorySwap": memory}
    limits = {"Memory": memory, "MemorySwap": memory + spec.max_swap_mib * MIB}
    if spec.swappiness is None:
        return limits
    if not inputs.supports_swappiness:
        log.warning("swappiness %d is ignored: cgroup v2 does not support it", spec.swappiness)
        return limits
    return limits | {"MemorySwappiness": spec.swappiness}


def _is_granted(member: str, launch: LaunchSpec, policy: ServerPolicy) -> bool:
    """Whether the policy grants `member`, which gives access to the host: a disk of the host does so like `privileged`.

    Raises StartRefused if the policy is to refuse it; else a denied member is logged and left out.
    """
    if policy.privileged is Privileged.REFUSE:
        raise create_forbidden(f"{member} is refused by this server")
    if policy.privileged is Privileged.DROP:
        log.warning("%s: %s is ignored, as this server is configured with privileged=drop", launch.tag, member)
    return policy.privileged is Privileged.ALLOW


def tar_archive(files: Mapping[str, bytes], *, mode: int = 0o644, folders: Iterable[str] = ()) -> bytes:
    """A tar archive of files of root, by their absolute paths, and of folders that all users can write.

    It has no entries for other folders: in a container they would replace links and permissions of the image.
    """
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for path in folders:
            folder = tarfile.TarInfo(path.lstrip("/"))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(folder)
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def _device(device: Device) -> dict[str, str]:
    permissions = "".join(letter for permission, letter in PERMISSIONS.items() if permission in device.permissions)
    return {
        "PathOnHost": device.host_path,
        "PathInContainer": device.container_path or device.host_path,
        "CgroupPermissions": permissions or "rwm",
    }


def _gpus(ids: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"Driver": "nvidia", "DeviceIDs": list(ids), "Capabilities": [["gpu"]]}] if ids else []


def _mounts(launch: LaunchSpec, instance: str, inputs: LaunchInputs) -> list[dict[str, Any]]:
    """All mounts. The checkpoint directory is mounted by its name: only the server can replace it."""
    mounts = [_mount(mount, instance, launch.tag, inputs.devices) for mount in inputs.mounts]
    if launch.checkpoint_directory is None:
        return mounts
    return [*mounts, {"Type": "bind", "Source": launch.checkpoint_directory, "Target": MOUNT_POINT, "ReadOnly": False}]


def _mount(mount: Mount, instance: str, tag: Tag, devices: Mapping[str, str]) -> dict[str, Any]:
    """One mount. `Mounts` and not `Binds`: a bind is a text with separators, and creates a missing host path."""
    where = {"Target": mount.container_path, "ReadOnly": mount.read_only}
    if mount.host_path is not None and mount.host_path in devices:
        return _open_folder(devices[mount.host_path], mount)
    if mount.host_path is not None:
        return {"Type": "bind", "Source": mount.host_path} | where
    if mount.volume is None or not tag.container_key:
        return {"Type": "volume"} | where
    # A named volume, as an anonymous one would be removed with the first container.
    options = {"Labels": attempt_object_labels(instance, tag) | {VOLUME: mount.volume}}
    return {"Type": "volume", "Source": volume_name(instance, tag, mount.volume), "VolumeOptions": options} | where


def _open_folder(device: str, mount: Mount) -> dict[str, Any]:
    """An anonymous volume on an open descriptor of this process: a bind mount would resolve the path again.

    Read-only is an option (`ro`), as the engine refuses `ReadOnly` here. `rprivate`: unmounting the volume must not
    unmount what is mounted in the folder on the host.
    """
    options = {"type": "none", "device": device, "o": "rbind,rprivate" + (",ro" if mount.read_only else "")}
    volume = {"NoCopy": True, "DriverConfig": {"Name": "local", "Options": options}}
    return {"Type": "volume", "Target": mount.container_path, "VolumeOptions": volume}


def _namespace_modes(namespaces: Namespaces | None) -> dict[str, Any]:
    if namespaces is None:
        return {}
    modes = {"NetworkMode": namespaces.network, "IpcMode": namespaces.ipc, "PidMode": namespaces.pid}
    # In a shared PID namespace the pause container is process 1; an init process would warn that it is not.
    init = {} if namespaces.pid is None else {"Init": False}
    return {name: mode for name, mode in modes.items() if mode is not None} | init


def _own_names(launch: LaunchSpec, namespaces: Namespaces | None) -> dict[str, Any]:
    """A container without a node is `algo-1`. One that joins a pause container has the names of that container."""
    joins = namespaces is not None and namespaces.network.startswith(CONTAINER_MODE)
    if launch.tag.container_key or joins or not launch.spec.named_nodes:
        return {}
    return {"ExtraHosts": [f"{node_names(0)[1]}:127.0.0.1"]}


def node_names(node: int) -> tuple[str, str]:
    """The names by which the node is found: `node-0` and, as in SageMaker, `algo-1`."""
    return f"node-{node}", f"algo-{node + 1}"


def _endpoint(namespaces: Namespaces | None) -> dict[str, Any]:
    if namespaces is None or not namespaces.node:
        return {}
    return {"NetworkingConfig": {"EndpointsConfig": {namespaces.network: {"Aliases": list(namespaces.node)}}}}


def _logging(logging: Logging, inputs: LaunchInputs) -> dict[str, Any]:
    """The log driver. Logs that batchq stores are written by the engine first, in files of bounded size."""
    if logging.captured:
        return ROTATED_LOG
    return {"Type": logging.driver, "Config": dict(logging.options) | dict(inputs.log_secrets)}
