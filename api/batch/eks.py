"""eksProperties: a job definition of one container, written as a pod of Kubernetes.

It is another spelling of containerProperties. The job runs on any container engine, and its answers have the members of
both spellings. Members of a pod that batchq does not carry out are refused, or kept and shown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.containers import ContainerProperties, KeyValuePair, environment_variables, to_single_container
from batchq.api.batch.resources import ResourceRequirement
from batchq.api.batch.validation import Long, Text, Unsupported, WireModel
from batchq.domain.catalog import require_unique
from batchq.domain.container import ContainerSpec, Mount, Overrides, Resources, Tmpfs
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.views import leading_key, shown_container_reason, shown_task
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, NotSupported

GPU = "nvidia.com/gpu"
_CPU = re.compile(r"([0-9]{1,9})(m|\.[0-9]{1,3})?")
_SIZE = re.compile(r"([0-9]{1,9})(Mi|Gi)")
_WHOLE = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
Id = Annotated[int, Field(ge=0, lt=2**31)]


class EksVariable(WireModel):
    name: Text
    value: Text | None = None


class EksResources(WireModel):
    limits: dict[Text, Text] | None = None
    requests: dict[Text, Text] | None = None


class EksVolumeMount(WireModel):
    name: Text | None = None
    mountPath: Text | None = None
    subPath: Text | None = None
    readOnly: bool | None = None


class EksContainerSecurity(WireModel):
    runAsUser: Id | None = None
    runAsGroup: Id | None = None
    privileged: bool | None = None
    allowPrivilegeEscalation: bool | None = None
    readOnlyRootFilesystem: bool | None = None
    runAsNonRoot: bool | None = None
    capabilities: Unsupported | None = None
    seccompProfile: Unsupported | None = None


class EksContainer(WireModel):
    name: Text | None = None
    image: Text
    imagePullPolicy: Text | None = None
    command: list[Text] | None = None
    args: list[Text] | None = None
    env: list[EksVariable] | None = None
    resources: EksResources | None = None
    volumeMounts: list[EksVolumeMount] | None = None
    securityContext: EksContainerSecurity | None = None


class EksHostPath(WireModel):
    path: Text | None = None


class EksEmptyDir(WireModel):
    medium: Text | None = None
    sizeLimit: Text | None = None


class EksVolume(WireModel):
    name: Text
    hostPath: EksHostPath | None = None
    emptyDir: EksEmptyDir | None = None
    secret: Unsupported | None = None
    persistentVolumeClaim: Unsupported | None = None


class EksMetadata(WireModel):
    labels: dict[Text, Text] | None = None
    annotations: dict[Text, Text] | None = None
    namespace: Text | None = None


class EksPullSecret(WireModel):
    name: Text


class EksPodSecurity(WireModel):
    runAsUser: Id | None = None
    runAsGroup: Id | None = None
    runAsNonRoot: bool | None = None
    seccompProfile: Unsupported | None = None
    fsGroup: Long | None = None


class EksPod(WireModel):
    serviceAccountName: Text | None = None
    hostNetwork: bool | None = None
    dnsPolicy: Text | None = None
    imagePullSecrets: list[EksPullSecret] | None = None
    containers: list[EksContainer] | None = None
    initContainers: list[Unsupported] | None = None
    volumes: list[EksVolume] | None = None
    metadata: EksMetadata | None = None
    shareProcessNamespace: bool | None = None
    securityContext: EksPodSecurity | None = None


class EksProperties(WireModel):
    podProperties: EksPod | None = None


class EksContainerOverride(WireModel):
    name: Text | None = None
    image: Text | None = None
    command: list[Text] | None = None
    args: list[Text] | None = None
    env: list[EksVariable] | None = None
    resources: EksResources | None = None


class EksPodOverride(WireModel):
    containers: list[EksContainerOverride] | None = None
    initContainers: list[Unsupported] | None = None
    metadata: EksMetadata | None = None


class EksPropertiesOverride(WireModel):
    podProperties: EksPodOverride | None = None


def to_container(given: EksProperties) -> ContainerSpec:
    """The container of a pod. Raises Invalid and NotSupported."""
    pod = given.podProperties or EksPod()
    containers = pod.containers or []
    if pod.initContainers or len(containers) != 1:
        raise NotSupported("podProperties must have exactly 1 container, and no initContainers, on this server.")
    (container,) = containers
    if container.name is not None and not _NAME.fullmatch(container.name):
        raise Invalid("The name of a container of a pod must be 1 to 63 lower case letters, digits and hyphens.")
    security, whole = container.securityContext or EksContainerSecurity(), pod.securityContext or EksPodSecurity()
    validation.refuse_unsupported(
        {
            "capabilities": security.capabilities,
            "seccompProfile": security.seccompProfile or whole.seccompProfile,
            "fsGroup": whole.fsGroup is not None,
        }
    )
    made = to_single_container(_properties(container), on_fargate=False)
    mounts, tmpfs = _mounts(container.volumeMounts or (), pod.volumes or ())
    return replace(
        made,
        entrypoint=tuple(container.command or ()),
        user=_user(security, whole),
        privileged=bool(security.privileged),
        read_only_root=bool(security.readOnlyRootFilesystem),
        init=bool(pod.shareProcessNamespace),
        mounts=mounts,
        tmpfs=tmpfs,
    )


def to_overrides(given: EksPropertiesOverride) -> Overrides | None:
    """The overrides of the only container of a pod; None: nothing is overridden. Raises Invalid and NotSupported."""
    pod = given.podProperties
    containers = (pod and pod.containers) or []
    if pod is None or not (containers or pod.initContainers):
        return None
    if pod.initContainers or len(containers) != 1:
        raise NotSupported(
            "eksPropertiesOverride must have exactly 1 container, and no initContainers, on this server."
        )
    (container,) = containers
    validation.refuse_unsupported({"image": container.image, "command": container.command})
    if "" in (container.args or ()):
        raise Invalid("The args of eksPropertiesOverride must not have empty elements.")
    amounts = _amounts(container.resources)
    return Overrides(
        command=tuple(container.args) if container.args else None,
        environment=environment_variables(_variables(container.env)),
        millicpus=amounts.get("cpu"),
        memory_mib=amounts.get("memory"),
        gpus=amounts.get(GPU),
    )


def job_members(job: Job, document: Mapping[str, Any]) -> dict[str, object]:
    """The members eksProperties and eksAttempts of a job; empty if its definition has no eksProperties."""
    if "eksProperties" not in document:
        return {}
    pod, spec, run = document["eksProperties"]["podProperties"], shown_task(job).leading.spec, job.latest_attempt
    (container,) = pod["containers"]
    effective = {
        **container,
        "args": list(spec.command),
        "env": [{"name": name, "value": value} for name, value in spec.environment],
        "resources": _shown_resources(container.get("resources", {}), spec.resources),
        **(_end(job, run) if run is not None else {}),
    }
    node = {} if run is None else _node(job, run)
    return {
        "eksProperties": {"podProperties": {**pod, "containers": [effective], **node}},
        "eksAttempts": [_attempt(job, attempt, container.get("name")) for attempt in job.attempts],
    }


def _properties(given: EksContainer) -> ContainerProperties:
    """The members that both spellings have. The args of a pod are the command of containerProperties."""
    amounts = _amounts(given.resources)
    kinds: tuple[tuple[Literal["VCPU", "MEMORY", "GPU"], str], ...] = (
        ("VCPU", "cpu"),
        ("MEMORY", "memory"),
        ("GPU", GPU),
    )
    return ContainerProperties(
        image=given.image,
        command=given.args,
        environment=_variables(given.env),
        resourceRequirements=[
            ResourceRequirement(type=kind, value=_amount_text(kind, amounts[name]))
            for kind, name in kinds
            if name in amounts
        ],
    )


def _variables(given: Sequence[EksVariable] | None) -> list[KeyValuePair]:
    return [KeyValuePair(name=variable.name, value=variable.value) for variable in given or ()]


def _amount_text(kind: str, amount: int) -> str:
    return f"{amount // 1000}.{amount % 1000:03}" if kind == "VCPU" else str(amount)


def _amounts(given: EksResources | None) -> dict[str, int]:
    """What is reserved: thousandths of a vCPU, MiB, GPUs. `requests` takes precedence over `limits`. Raises Invalid.

    AWS: memory and GPUs of both are equal; the limit of cpu may be higher.
    """
    limits, requests = (given and given.limits) or {}, (given and given.requests) or {}
    most, least = ({name: _quantity(name, text) for name, text in one.items()} for one in (limits, requests))
    for name in most.keys() & least.keys():
        if most[name] < least[name] or (name != "cpu" and most[name] != least[name]):
            raise Invalid(
                f"The {name} in limits and requests of a container must be equal; cpu may have a higher limit."
            )
    return most | least


def _quantity(name: str, text: str) -> int:
    if name == "cpu" and (found := _CPU.fullmatch(text)) is not None:
        part = found[2] or ""
        amount = int(found[1]) if part == "m" else int(found[1]) * 1000 + int(part[1:].ljust(3, "0") or 0)
        if amount:
            return amount
    elif name == "memory" and (found := _SIZE.fullmatch(text)) is not None:
        return int(found[1]) * (1024 if found[2] == "Gi" else 1)
    elif name == GPU and _WHOLE.fullmatch(text):
        return int(text)
    known = f"cpu as 0.5 or 500m, memory as 512Mi or 2Gi, {GPU} as 1"
    raise Invalid(f"{name[:100]} {text[:100]} is not a resource of a container: use {known}.")


def _shown_resources(registered: Mapping[str, Mapping[str, str]], reserved: Resources) -> Mapping[str, Any]:
    """The registered resources, unless the job overrides them."""
    amounts = {"cpu": reserved.millicpus, "memory": reserved.memory_mib, GPU: reserved.gpus}
    if _amounts(EksResources.model_validate(registered)) == {
        name: amount for name, amount in amounts.items() if amount
    }:
        return registered
    texts = {"cpu": f"{reserved.millicpus}m", "memory": f"{reserved.memory_mib}Mi"}
    texts |= {GPU: str(reserved.gpus)} if reserved.gpus else {}
    return {"limits": texts, "requests": texts}


def _user(own: EksContainerSecurity, whole: EksPodSecurity) -> str | None:
    """`UID` or `UID:GID`; None: the image's user. The container's member takes precedence over the pod's."""
    user = whole.runAsUser if own.runAsUser is None else own.runAsUser
    group = whole.runAsGroup if own.runAsGroup is None else own.runAsGroup
    must_not_be_root = whole.runAsNonRoot if own.runAsNonRoot is None else own.runAsNonRoot
    if must_not_be_root and not user:
        raise NotSupported("runAsNonRoot needs a runAsUser above 0 on this server.")
    if user is None and group is not None:
        raise NotSupported("runAsGroup needs a runAsUser on this server.")
    return None if user is None else f"{user}" if group is None else f"{user}:{group}"


def _mounts(
    points: Sequence[EksVolumeMount], volumes: Sequence[EksVolume]
) -> tuple[tuple[Mount, ...], tuple[Tmpfs, ...]]:
    """The mounts of the container: a tmpfs for an emptyDir in memory. Raises Invalid and NotSupported."""
    known = {_volume(volume).name: volume for volume in volumes}
    require_unique((volume.name for volume in volumes), "The name of a volume")
    require_unique((point.mountPath for point in points), "The mountPath of a volume mount")
    mounts, tmpfs = list[Mount](), list[Tmpfs]()
    for point in points:
        validation.refuse_unsupported({"subPath": point.subPath})
        volume, path = known.get(point.name or ""), validation.path(point.mountPath or "", "mountPath")
        if volume is None:
            raise Invalid(f"The volume '{point.name or ''}' of volumeMounts is not one of the pod's volumes.")
        if volume.emptyDir is not None and volume.emptyDir.medium == "Memory":
            tmpfs.append(Tmpfs(container_path=path, size_mib=_quantity("memory", volume.emptyDir.sizeLimit or "")))
        else:
            source = volume.hostPath.path if volume.hostPath is not None else None
            host_path = None if volume.hostPath is None else validation.path(source or "", "hostPath")
            mounts.append(Mount(container_path=path, host_path=host_path, read_only=bool(point.readOnly)))
    return tuple(mounts), tuple(tmpfs)


def _volume(given: EksVolume) -> EksVolume:
    validation.refuse_unsupported({"secret": given.secret is not None})
    validation.refuse_file_systems(persistentVolumeClaim=given.persistentVolumeClaim)
    if given.emptyDir is not None and given.emptyDir.medium not in (None, "", "Memory"):
        raise Invalid("The medium of an emptyDir must be empty or Memory.")
    if (given.hostPath is None) == (given.emptyDir is None):
        raise Invalid(f"The volume '{given.name}' of a pod must have exactly one of hostPath and emptyDir.")
    return given


def _attempt(job: Job, run: Attempt, name: str | None) -> dict[str, object]:
    times = {"startedAt": run.started_at, "stoppedAt": run.stopped_at}
    return {
        "containers": [{**({"name": name} if name else {}), **_end(job, run)}],
        **_node(job, run),
        **{member: milliseconds(at) for member, at in times.items() if at is not None},
        **({"statusReason": run.status_reason} if run.status_reason else {}),
    }


def _end(job: Job, run: Attempt) -> dict[str, object]:
    """How the container of an attempt ended; empty until then."""
    own = next((container for container in run.containers if container.key == leading_key(job)), None)
    found = {} if own is None else {"exitCode": own.exit_code, "reason": shown_container_reason(own)}
    return {member: value for member, value in found.items() if value is not None}


def _node(job: Job, run: Attempt) -> dict[str, str]:
    """The names of the pod and of its machine; empty on a container engine without pods and with one machine."""
    own = next((container for container in run.containers if container.key == leading_key(job)), None)
    names = {} if own is None else {"podName": own.pod, "nodeName": own.machine}
    return {member: name for member, name in names.items() if name is not None}
