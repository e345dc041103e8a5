"""Builds the pod of a launch, its names and annotations, and the Secret with its secret values. Pure.

A pod names a scheduler that does not exist, so it is stored and does not run until it is bound to a node. Its finalizer
keeps the pod until its log is archived, also if another client deletes the pod.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from batchq.domain.access import container_policy
from batchq.domain.access.container_policy import user_and_group
from batchq.domain.catalog import Network
from batchq.domain.container import ContainerSpec, Mount
from batchq.domain.ids import JobId, Tag
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import MissingHostPaths, Privileged

FINALIZER = "batchq.io/kept"
SCHEDULER = "batchq"
CONTAINER = "main"
INSTANCE = "io.batchq.instance"
# Annotations: the values of labels may contain neither `:` nor `#`.
JOB, ATTEMPT, PART = "io.batchq.job", "io.batchq.attempt", "io.batchq.part"
#: The annotation that batchq sets before it deletes a bound pod: why it does. A pod that is deleted without the
#: annotation was deleted by another client.
DELETED_FOR = "io.batchq.deleted-for"
ENVIRONMENT_LABEL = "batchq.environment"  # of a node: the compute environment whose jobs it runs

GPU = "nvidia.com/gpu"
MIN_MEMORY_MIB = 6  # what runc needs to start a container; AWS allows 4 MiB
DROPPED_ROOT_CAPABILITIES = ("MKNOD", "NET_RAW", "SETFCAP")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path of the container
READ_BY_ALL = 0o444
MAX_REASON = 1024  # characters of an attempt's reason
AWAY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodPolicy(Struct, frozen=True, kw_only=True):
    """What the pods of this server may use of the nodes, whatever their accounts permit."""

    privileged: Privileged = Privileged.REFUSE
    #: Host paths that a pod may mount, with all paths below them.
    volumes: tuple[Path, ...] = ()
    #: Host paths that are never mounted, with all that contains them or lies below them.
    private: tuple[Path, ...] = ()
    missing_host_paths: MissingHostPaths = MissingHostPaths.CREATE
    #: The registries of this server's jobs, each with or without a path; None: any.
    registries: tuple[str, ...] | None = None
    #: The default network of launches.
    network: Network = Network.SHARED
    #: Seconds between SIGTERM and SIGKILL when Kubernetes itself stops a pod, as for the drain of a node.
    drain_grace: int = 1


def pod_name(instance: str, tag: Tag) -> str:
    """The name of the pod, unique for a tag and an instance: a repeated create finds the first pod."""
    job = tag.job_id.replace(":", ".").replace("#", ".")
    return f"bq-{instance}-{job}-{tag.attempt}"


def tag_of_pod(pod: object, instance: str) -> Tag | None:
    """The tag in the annotations of a pod; None: not a pod of a job, or not of this instance."""
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    labels, noted = (_texts(metadata, name) for name in ("labels", "annotations"))
    attempt = noted.get(ATTEMPT, "")
    if labels.get(INSTANCE) != instance or not noted.get(JOB) or not attempt.isdecimal():
        return None
    return Tag(job_id=JobId(noted[JOB]), attempt=int(attempt), container_key=noted.get(PART, ""))


def build_pod(launch: LaunchSpec, *, instance: str, policy: PodPolicy) -> dict[str, Any]:
    """Build the pod of a launch. Raises StartRefused for what is not available or not permitted."""
    check_available(launch, policy)
    _check_permitted(launch, policy)
    spec, name = launch.spec, pod_name(instance, launch.tag)
    volumes, mounts = _volumes(launch, name, policy)
    container = {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": [escape_expansion(text) for text in spec.entrypoint]} if spec.entrypoint else {}),
        **({"args": [escape_expansion(text) for text in spec.command]} if spec.command else {}),
        "env": _environment(launch, name),
        "resources": _resources(spec),
        "securityContext": _security(launch, policy),
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {INSTANCE: instance},
            "annotations": {JOB: launch.tag.job_id, ATTEMPT: str(launch.tag.attempt)},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": policy.drain_grace,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "tolerations": [{"key": taint, "operator": "Exists", "effect": "NoExecute"} for taint in AWAY_TAINTS],
            "containers": [container],
            "volumes": volumes,
            **node_selector(spec),
            **({"shareProcessNamespace": True} if spec.init else {}),
            **_network(launch, policy),
        },
    }


def build_secret(
    launch: LaunchSpec, *, instance: str, uid: str, secrets: Sequence[tuple[str, str]]
) -> dict[str, Any] | None:
    """Build the Secret that the pod with this uid owns: values of secrets and files; None: the pod needs no Secret."""
    values = {f"env-{index}": value for index, (_, value) in enumerate(secrets)}
    files = {f"file-{index}": path.content for index, path in enumerate(launch.spec.files)}
    if not values and not files:
        return None
    name = pod_name(instance, launch.tag)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {INSTANCE: instance}, "ownerReferences": [owner]},
        "stringData": values | files,
    }


def needs_secret(spec: ContainerSpec) -> bool:
    """Whether the pod has a Secret."""
    return bool(spec.secrets or spec.files)


def node_selector(spec: ContainerSpec) -> dict[str, dict[str, str]]:
    """The member of the pod's spec that names the platform; empty if the job names no platform."""
    if spec.platform is None:
        return {}
    system, _, architecture = spec.platform.partition("/")
    return {"nodeSelector": {"kubernetes.io/os": system, "kubernetes.io/arch": architecture.partition("/")[0]}}


def escape_expansion(text: str) -> str:
    """Escape a text that Kubernetes expands: it replaces `$(NAME)` by a variable, and `$$` by `$`."""
    return text.replace("$", "$$")


def check_available(launch: LaunchSpec, policy: PodPolicy) -> None:
    """Raises StartRefused, certain, for a launch with what Kubernetes does not have."""
    why = next(_unavailable(launch, policy), None)
    if why is not None:
        raise StartRefused(f"CannotCreateContainerError: {why} is not available on Kubernetes"[:MAX_REASON])


def _unavailable(launch: LaunchSpec, policy: PodPolicy) -> Iterator[str]:
    spec = launch.spec
    if launch.tag.container_key:
        yield "a job of several containers or nodes"
    if spec.user is not None and not _is_numeric(spec.user):
        yield f"the user name {spec.user!r} in place of numbers"
    refused = {
        "ulimits": spec.ulimits,
        "linuxParameters.devices": spec.devices,
        "linuxParameters.maxSwap": spec.max_swap_mib is not None,
        "linuxParameters.swappiness": spec.swappiness is not None,
        "a checkpoint directory": launch.checkpoint_directory is not None,
        "a failure file": spec.failure_file is not None,
        "a folder that every user can write": spec.folders,
    }
    yield from (what for what, is_requested in refused.items() if is_requested)
    yield from (f"option {tmpfs.options[0]!r} of a tmpfs" for tmpfs in spec.tmpfs if tmpfs.options)
    if not spec.logging.captured:
        yield f"log driver {spec.logging.driver!r}"
    if (launch.network or policy.network) is Network.NONE:
        yield "a container without a network"


def _check_permitted(launch: LaunchSpec, policy: PodPolicy) -> None:
    """Raises StartRefused for what the server or the account does not permit.

    The rules of the account that need neither a node nor an image are checked before each create.
    """
    spec, allowances = launch.spec, launch.allowances
    if policy.registries is not None and not container_policy.is_image_permitted(spec.image, policy.registries):
        registry = container_policy.registry_of(spec.image)
        raise _forbidden(f"registry {registry!r} of image {spec.image!r} is not allowed by this server")
    if spec.privileged and policy.privileged is Privileged.REFUSE:
        raise _forbidden("privileged is refused by this server")
    if _uses_host_network(launch, policy) and not all(allowance.host_network for allowance in allowances):
        raise _forbidden("the host network of its compute environment is not allowed for the accounts of the job")
    if not _permits_root(launch) and user_and_group(spec.user or "") is None:
        raise _forbidden("the accounts of the job may not run containers as root: set a user with a number above 0")
    for path in (mount.host_path for mount in spec.mounts if mount.host_path is not None):
        if allowances:
            # A link on a node could lead anywhere, and the server does not see the node's files.
            raise _forbidden(f"host path {path!r} of a node is not allowed for a restricted account")
        if not container_policy.below(path, map(str, policy.volumes)) or _is_private(path, policy.private):
            raise _forbidden(f"host path {path!r} is not allowed by this server")


def _permits_root(launch: LaunchSpec) -> bool:
    """Whether all accounts of the job permit containers as root."""
    return all(allowance.permits_root for allowance in launch.allowances)


def _is_private(path: str, private: Iterable[Path]) -> bool:
    plain = container_policy.plain_path(path)
    return any(
        plain.is_relative_to(str(other_path)) or PurePosixPath(other_path).is_relative_to(plain)
        for other_path in private
    )


def _forbidden(why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: {why}"[:MAX_REASON], forbidden=True)


def _environment(launch: LaunchSpec, name: str) -> list[dict[str, Any]]:
    """Variables in ascending precedence: the job's, its secrets, batchq's."""
    from_secrets = {
        secret.name: {"valueFrom": {"secretKeyRef": {"name": name, "key": f"env-{index}"}}}
        for index, secret in enumerate(launch.spec.secrets)
    }
    variables: dict[str, dict[str, Any]] = {
        **{variable: {"value": escape_expansion(value)} for variable, value in launch.spec.environment},
        **from_secrets,
        **{variable: {"value": escape_expansion(value)} for variable, value in launch.environment},
    }
    return [{"name": variable} | value for variable, value in variables.items()]


def _resources(spec: ContainerSpec) -> dict[str, dict[str, str]]:
    """The CPU is a share of a busy node, not a limit, as on Docker. Memory is both reserved and limited."""
    memory = f"{max(MIN_MEMORY_MIB, spec.resources.memory_mib)}Mi"
    limits = {"memory": memory} | ({GPU: str(spec.resources.gpus)} if spec.resources.gpus else {})
    return {"requests": {"cpu": f"{spec.resources.millicpus}m", "memory": memory}, "limits": limits}


def _security(launch: LaunchSpec, policy: PodPolicy) -> dict[str, Any]:
    spec = launch.spec
    privileged = spec.privileged and policy.privileged is Privileged.ALLOW
    dropped: tuple[str, ...] = ()
    if launch.allowances:
        dropped = DROPPED_ROOT_CAPABILITIES if _permits_root(launch) else ("ALL",)
    return {
        "privileged": privileged,
        # Disables setuid programs (sudo, su). It would contradict privileged.
        "allowPrivilegeEscalation": privileged,
        "readOnlyRootFilesystem": spec.read_only_root,
        **({"capabilities": {"drop": list(dropped)}} if dropped else {}),
        **_user(launch),
    }


def _user(launch: LaunchSpec) -> dict[str, Any]:
    user = launch.spec.user
    if user is None:
        return {}
    if not _permits_root(launch):
        user = user_and_group(user) or user
    uid, _, gid = user.partition(":")
    return {"runAsUser": int(uid)} | ({"runAsGroup": int(gid)} if gid else {})


def _is_numeric(user: str) -> bool:
    uid, colon, gid = user.partition(":")
    return all(text.isascii() and text.isdecimal() for text in ([uid, gid] if colon else [uid]))


def _volumes(launch: LaunchSpec, name: str, policy: PodPolicy) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of the pod, and their mounts in the container."""
    spec = launch.spec
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (_volume(mount, policy), {"mountPath": mount.container_path, "readOnly": mount.read_only})
        for mount in spec.mounts
    ]
    parts += [(_memory(tmpfs.size_mib), {"mountPath": tmpfs.container_path}) for tmpfs in spec.tmpfs]
    if spec.shared_memory_mib is not None:
        parts.append((_memory(spec.shared_memory_mib), {"mountPath": SHARED_MEMORY}))
    volumes = [{"name": f"v{index}", **volume} for index, (volume, _) in enumerate(parts)]
    mounts = [{"name": f"v{index}", **mount} for index, (_, mount) in enumerate(parts)]
    if spec.files:
        volumes.append({"name": "files", "secret": {"secretName": name, "defaultMode": READ_BY_ALL}})
        mounts += [
            {"name": "files", "mountPath": path.path, "subPath": f"file-{index}", "readOnly": True}
            for index, path in enumerate(spec.files)
        ]
    return volumes, mounts


def _volume(mount: Mount, policy: PodPolicy) -> dict[str, Any]:
    if mount.host_path is None:
        return {"emptyDir": {}}
    must_exist = mount.must_exist or not (mount.create or policy.missing_host_paths is MissingHostPaths.CREATE)
    return {"hostPath": {"path": mount.host_path, "type": "Directory" if must_exist else ""}}


def _memory(size_mib: int) -> dict[str, Any]:
    return {"emptyDir": {"medium": "Memory", "sizeLimit": f"{size_mib}Mi"}}


def _uses_host_network(launch: LaunchSpec, policy: PodPolicy) -> bool:
    return (launch.network or policy.network) is Network.HOST


def _network(launch: LaunchSpec, policy: PodPolicy) -> dict[str, Any]:
    if not _uses_host_network(launch, policy):
        return {}
    return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}


def _texts(metadata: object, member: str) -> Mapping[str, str]:
    texts = metadata.get(member) if isinstance(metadata, dict) else None
    return texts if isinstance(texts, dict) else {}
