"""Builds the pod of a launch, and the Secret with its secret values. Pure.

A pod names a scheduler that does not exist, so it is stored and does not run until it is bound to a node. Its finalizer
keeps the pod until its log is archived, also if another client deletes the pod. In a pod of several containers each has
the held image until its own start.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from batchq.compute.kubernetes.pod_names import (
    ATTEMPT,
    CONTAINERS,
    DNS_LABEL,
    DRAINS,
    FINALIZER,
    GANG,
    HELD_IMAGE,
    INSTANCE,
    JOB,
    MARK,
    NODE,
    REPLACES,
    ContainerMark,
    drain_label,
    gang_name,
    name_in_pod,
    pod_name,
)
from batchq.compute.kubernetes.pod_policy import (
    PodPolicy,
    check_available,
    check_permitted,
    may_run_as_root,
    specs_of,
    uses_host_network,
)
from batchq.domain.access.container_policy import user_and_group
from batchq.domain.container import ContainerSpec, Mount, Secret
from batchq.domain.ids import Tag
from batchq.domain.training import MOUNT_POINT
from batchq.ports.runtime import LaunchSpec
from batchq.settings import MissingHostPaths, Privileged

SCHEDULER = "batchq"
GPU = "nvidia.com/gpu"
MIN_MEMORY_MIB = 6  # what runc needs to start a container; AWS allows 4 MiB
DROPPED_ROOT_CAPABILITIES = ("MKNOD", "NET_RAW", "SETFCAP")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path of the container
READ_BY_ALL = 0o444
AWAY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CLUSTER_DOMAIN = "cluster.local"

Object = dict[str, Any]


def build_pod(
    launch: LaunchSpec, *, instance: str, policy: PodPolicy, namespace: str, replaces: Sequence[str] = ()
) -> Object:
    """Build the pod of a launch. Raises StartRefused for what is not available or not permitted.

    `replaces` are the uids of earlier pods of this node, none of whose containers ran.
    """
    check_available(launch, policy)
    check_permitted(launch, policy)
    name, parts = pod_name(instance, launch.tag), tuple(_parts(launch))
    volumes = _Volumes(name, policy)
    containers = [_container(part, launch, policy, volumes, is_held=len(parts) > 1) for part in parts]
    if launch.checkpoint_directory is not None and policy.checkpoints is not None:
        mount = volumes.checkpoints(policy.checkpoints, PurePath(launch.checkpoint_directory).name)
        for container in containers:
            container["volumeMounts"].append(mount)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": _labels(launch, instance, policy),
            "annotations": _annotations(launch, parts) | ({REPLACES: " ".join(replaces)} if replaces else {}),
            "finalizers": [FINALIZER],
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": policy.drain_grace,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "tolerations": [{"key": taint, "operator": "Exists", "effect": "NoExecute"} for taint in AWAY_TAINTS],
            "containers": containers,
            "volumes": volumes.listed,
            **node_selector(launch.spec),
            **({"shareProcessNamespace": True} if _shares_pids(launch) else {}),
            **_network(launch, instance, policy, namespace),
        },
    }


def build_secret(
    launch: LaunchSpec, *, instance: str, uid: str, values: Sequence[tuple[str, str]]
) -> dict[str, Any] | None:
    """Build the Secret that the pod with this uid owns: values of secrets and files; None: the pod needs no Secret.

    `values` are the names and values of `secrets_of`, in its order.
    """
    keys = [_secret_key(tag, index) for tag, spec in _parts(launch) for index, _ in enumerate(spec.secrets)]
    secrets = dict(zip(keys, (value for _, value in values), strict=True))
    files = {
        _file_key(tag, index): path.content for tag, spec in _parts(launch) for index, path in enumerate(spec.files)
    }
    if not secrets and not files:
        return None
    name = pod_name(instance, launch.tag)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {INSTANCE: instance}, "ownerReferences": [_owner(name, uid)]},
        "stringData": secrets | files,
    }


def build_service(launch: LaunchSpec, *, instance: str, uid: str) -> Object:
    """Build the headless Service of an attempt with several nodes, which the pod with this uid owns.

    It gives each node a name from the start of its pod on, whatever the state of its containers.
    """
    name = gang_name(instance, launch.tag)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "labels": {INSTANCE: instance},
            "ownerReferences": [_owner(pod_name(instance, launch.tag), uid)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GANG: name}},
    }


def secrets_of(launch: LaunchSpec) -> tuple[Secret, ...]:
    """The secrets of all containers of the pod."""
    return tuple(secret for _, spec in _parts(launch) for secret in spec.secrets)


def needs_secret(launch: LaunchSpec) -> bool:
    """Whether the pod has a Secret."""
    return any(spec.secrets or spec.files for spec in specs_of(launch))


def node_selector(spec: ContainerSpec) -> dict[str, dict[str, str]]:
    """The member of the pod's spec that names the platform; empty if the job names no platform."""
    if spec.platform is None:
        return {}
    system, _, architecture = spec.platform.partition("/")
    return {"nodeSelector": {"kubernetes.io/os": system, "kubernetes.io/arch": architecture.partition("/")[0]}}


def escape_expansion(text: str) -> str:
    """Escape a text that Kubernetes expands: it replaces `$(NAME)` by a variable, and `$$` by `$`."""
    return text.replace("$", "$$")


def _parts(launch: LaunchSpec) -> Iterator[tuple[Tag, ContainerSpec]]:
    """The containers of the pod, by name, so that the order is the same whichever of them is created first."""
    tag = launch.tag
    if not tag.container_key:
        yield tag, launch.spec
        return
    named = {tag.container: launch.spec} | {container.name: container.spec for container in launch.beside}
    for name in sorted(named):
        yield Tag(job_id=tag.job_id, attempt=tag.attempt, container_key=f"{tag.node}/{name}"), named[name]


def _labels(launch: LaunchSpec, instance: str, policy: PodPolicy) -> dict[str, str]:
    gang = {GANG: gang_name(instance, launch.tag)} if launch.nodes > 1 else {}
    drains = {DRAINS: drain_label(launch.placed_on)} if launch.placed_on in policy.refuses_drains else {}
    return {INSTANCE: instance, **gang, **drains}


def _annotations(launch: LaunchSpec, parts: Sequence[tuple[Tag, ContainerSpec]]) -> dict[str, str]:
    noted = {JOB: launch.tag.job_id, ATTEMPT: str(launch.tag.attempt)}
    if not launch.tag.container_key:
        return noted
    names = {name_in_pod(tag): tag.container for tag, _ in parts}
    noted |= {NODE: str(launch.tag.node), CONTAINERS: json.dumps(names)}
    if len(parts) == 1:
        return noted
    own = name_in_pod(launch.tag)
    return noted | {f"{MARK}{name}": ContainerMark.CREATED if name == own else ContainerMark.HELD for name in names}


def _container(
    part: tuple[Tag, ContainerSpec], launch: LaunchSpec, policy: PodPolicy, volumes: "_Volumes", *, is_held: bool
) -> Object:
    tag, spec = part
    return {
        "name": name_in_pod(tag),
        "image": HELD_IMAGE if is_held else spec.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": [escape_expansion(text) for text in spec.entrypoint]} if spec.entrypoint else {}),
        **({"args": [escape_expansion(text) for text in spec.command]} if spec.command else {}),
        "env": _environment(tag, spec, launch, volumes.pod),
        "resources": _resources(spec),
        "securityContext": _security(spec, launch, policy),
        "volumeMounts": volumes.mounts(tag, spec),
    }


def _environment(tag: Tag, spec: ContainerSpec, launch: LaunchSpec, pod: str) -> list[Object]:
    """Variables in ascending precedence: the job's, its secrets, batchq's."""
    from_secrets = {
        secret.name: {"valueFrom": {"secretKeyRef": {"name": pod, "key": _secret_key(tag, index)}}}
        for index, secret in enumerate(spec.secrets)
    }
    variables: dict[str, Object] = {
        **{variable: {"value": escape_expansion(value)} for variable, value in spec.environment},
        **from_secrets,
        **{variable: {"value": escape_expansion(value)} for variable, value in launch.environment},
    }
    return [{"name": variable} | value for variable, value in variables.items()]


def _resources(spec: ContainerSpec) -> dict[str, dict[str, str]]:
    """The CPU is a share of a busy node, not a limit, as on Docker. Memory is both reserved and limited."""
    memory = f"{max(MIN_MEMORY_MIB, spec.resources.memory_mib)}Mi"
    limits = {"memory": memory} | ({GPU: str(spec.resources.gpus)} if spec.resources.gpus else {})
    return {"requests": {"cpu": f"{spec.resources.millicpus}m", "memory": memory}, "limits": limits}


def _security(spec: ContainerSpec, launch: LaunchSpec, policy: PodPolicy) -> Object:
    privileged = spec.privileged and policy.privileged is Privileged.ALLOW
    dropped: tuple[str, ...] = ()
    if launch.allowances:
        dropped = DROPPED_ROOT_CAPABILITIES if may_run_as_root(launch) else ("ALL",)
    return {
        "privileged": privileged,
        # Disables setuid programs (sudo, su). It would contradict privileged.
        "allowPrivilegeEscalation": privileged,
        "readOnlyRootFilesystem": spec.read_only_root,
        **({"capabilities": {"drop": list(dropped)}} if dropped else {}),
        **_user(spec.user, launch),
    }


def _user(user: str | None, launch: LaunchSpec) -> Object:
    if user is None:
        return {}
    if not may_run_as_root(launch):
        user = user_and_group(user) or user
    uid, _, gid = user.partition(":")
    return {"runAsUser": int(uid)} | ({"runAsGroup": int(gid)} if gid else {})


class _Volumes:
    """Collects the volumes of a pod. A named volume of a job is one volume for all containers of the pod."""

    def __init__(self, pod: str, policy: PodPolicy) -> None:
        self.pod = pod
        self._policy = policy
        self.listed: list[Object] = []
        self._by_name: dict[str, str] = {}

    def mounts(self, tag: Tag, spec: ContainerSpec) -> list[Object]:
        """Add the volumes of a container, and return their mounts in it."""
        mounts = [
            {"name": self._of_mount(mount), "mountPath": mount.container_path, "readOnly": mount.read_only}
            for mount in spec.mounts
        ]
        mounts += [
            {"name": self._add(_memory(tmpfs.size_mib)), "mountPath": tmpfs.container_path} for tmpfs in spec.tmpfs
        ]
        if spec.shared_memory_mib is not None:
            mounts.append({"name": self._add(_memory(spec.shared_memory_mib)), "mountPath": SHARED_MEMORY})
        if not spec.files:
            return mounts
        secret = self._named("files", {"secret": {"secretName": self.pod, "defaultMode": READ_BY_ALL}})
        return mounts + [
            {"name": secret, "mountPath": path.path, "subPath": _file_key(tag, index), "readOnly": True}
            for index, path in enumerate(spec.files)
        ]

    def checkpoints(self, volume: str, job: str) -> Object:
        """The mount of the job's checkpoint directory, which is the folder `job` of the volume.

        A path of the node must have the folder, which batchq has created: the node does not create another one there.
        """
        if volume.startswith("/"):
            host_path = {"path": str(PurePath(volume, job)), "type": "Directory"}
            return {"name": self._named("checkpoints", {"hostPath": host_path}), "mountPath": MOUNT_POINT}
        claim, _, folder = volume.partition("/")
        name = self._named("checkpoints", {"persistentVolumeClaim": {"claimName": claim}})
        return {"name": name, "mountPath": MOUNT_POINT, "subPath": str(PurePath(folder, job))}

    def _of_mount(self, mount: Mount) -> str:
        if mount.host_path is None and mount.volume is not None:
            return self._named(f"volume {mount.volume}", {"emptyDir": {}})
        return self._add(_volume(mount, self._policy))

    def _named(self, name: str, volume: Object) -> str:
        """The volume with this name, which is added once."""
        if name not in self._by_name:
            self._by_name[name] = self._add(volume)
        return self._by_name[name]

    def _add(self, volume: Object) -> str:
        name = f"v{len(self.listed)}"
        self.listed.append({"name": name, **volume})
        return name


def _volume(mount: Mount, policy: PodPolicy) -> Object:
    if mount.host_path is None:
        return {"emptyDir": {}}
    must_exist = mount.must_exist or not (mount.create or policy.missing_host_paths is MissingHostPaths.CREATE)
    return {"hostPath": {"path": mount.host_path, "type": "Directory" if must_exist else ""}}


def _memory(size_mib: int) -> Object:
    return {"emptyDir": {"medium": "Memory", "sizeLimit": f"{size_mib}Mi"}}


def _shares_pids(launch: LaunchSpec) -> bool:
    """Whether process 1 is the pause container, which is the init process of all containers of the pod."""
    return launch.share_pids or any(spec.init for spec in specs_of(launch))


def _network(launch: LaunchSpec, instance: str, policy: PodPolicy, namespace: str) -> Object:
    """The names of the pod, its containers and the nodes of its attempt, or the network of its node."""
    if uses_host_network(launch, policy):
        return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if not launch.tag.container_key:
        return {}
    names = [tag.container for tag, _ in _parts(launch) if DNS_LABEL.fullmatch(tag.container)]
    members: Object = {
        "hostname": f"algo-{launch.tag.node + 1}" if launch.spec.named_nodes else f"node-{launch.tag.node}"
    }
    if names:
        members["hostAliases"] = [{"ip": "127.0.0.1", "hostnames": names}]
    if launch.nodes > 1:
        service = gang_name(instance, launch.tag)
        members |= {
            "subdomain": service,
            "dnsConfig": {"searches": [f"{service}.{namespace}.svc.{CLUSTER_DOMAIN}"]},
        }
    return members


def _secret_key(tag: Tag, index: int) -> str:
    return f"{name_in_pod(tag)}-env-{index}"


def _file_key(tag: Tag, index: int) -> str:
    return f"{name_in_pod(tag)}-file-{index}"


def _owner(name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
