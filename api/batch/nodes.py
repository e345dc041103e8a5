"""Jobs of several containers: ecsProperties to the domain's task, and nodeProperties to the domain's gang of nodes."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import containers, resources, validation
from batchq.api.batch.arns import BatchArns
from batchq.api.batch.consumable_resources import ConsumableResourceProperties, to_needs
from batchq.api.batch.containers import (
    ContainerOverrides,
    ContainerProperties,
    EphemeralStorage,
    FargatePlatformConfiguration,
    KeyValuePair,
    LinuxParameters,
    LogConfiguration,
    MountPoint,
    NetworkConfiguration,
    RepositoryCredentials,
    RuntimePlatform,
    SecretShape,
    UlimitShape,
    Volume,
    to_single_container,
)
from batchq.api.batch.resources import ResourceRequirement
from batchq.api.batch.validation import Integer, OmittedIfEmpty, Text, Unsupported, WireModel
from batchq.domain.catalog import RangeTerms, require_unique
from batchq.domain.container import ContainerSpec
from batchq.domain.node_ranges import make_nodes, node_bounds
from batchq.domain.overrides import check_memory, check_resources
from batchq.domain.task import Condition, ContainerDependency, Nodes, Task, TaskContainer
from batchq.errors import Invalid, NotSupported

MAX_CONTAINERS = 10
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
_NETWORKS = {None, "", "awsvpc", "bridge"}
Seconds = Annotated[int, Field(ge=2, le=120)]


class TaskContainerDependency(WireModel):
    containerName: Text | None = None
    condition: Text | None = None


class FirelensConfiguration(WireModel):
    type: Literal["fluentd", "fluentbit"]
    options: dict[Text, Text] | None = None


class TaskContainerProperties(WireModel):
    command: list[Text] | None = None
    dependsOn: list[TaskContainerDependency] | None = None
    environment: list[KeyValuePair] | None = None
    essential: bool | None = None
    firelensConfiguration: FirelensConfiguration | None = None
    image: Text
    linuxParameters: LinuxParameters | None = None
    logConfiguration: LogConfiguration | None = None
    mountPoints: list[MountPoint] | None = None
    name: Text | None = None
    privileged: bool | None = None
    readonlyRootFilesystem: bool | None = None
    repositoryCredentials: RepositoryCredentials | None = None
    resourceRequirements: list[ResourceRequirement] | None = None
    secrets: list[SecretShape] | None = None
    ulimits: list[UlimitShape] | None = None
    user: Text | None = None
    startTimeout: Seconds | None = None
    stopTimeout: Seconds | None = None


class EcsTaskProperties(WireModel):
    containers: list[TaskContainerProperties]
    ephemeralStorage: EphemeralStorage | None = None
    executionRoleArn: Text | None = None
    platformVersion: Text | None = None
    ipcMode: Text | None = None
    taskRoleArn: Text | None = None
    pidMode: Text | None = None
    networkConfiguration: NetworkConfiguration | None = None
    runtimePlatform: RuntimePlatform | None = None
    volumes: list[Volume] | None = None
    enableExecuteCommand: bool | None = None
    networkMode: Text | None = None


class EcsProperties(WireModel):
    taskProperties: list[EcsTaskProperties]


class TaskContainerOverrides(WireModel):
    command: list[Text] | None = None
    environment: list[KeyValuePair] | None = None
    name: Text | None = None
    resourceRequirements: list[ResourceRequirement] | None = None


class TaskPropertiesOverride(WireModel):
    containers: list[TaskContainerOverrides] | None = None


class EcsPropertiesOverride(WireModel):
    taskProperties: list[TaskPropertiesOverride] | None = None


def to_task(given: EcsProperties, *, on_fargate: bool) -> Task:
    """AWS: exactly one task, of 1 to 10 containers, at least one of them essential. Raises Invalid."""
    if len(given.taskProperties) != 1:
        raise Invalid("taskProperties must have exactly 1 element.")
    (properties,) = given.taskProperties
    if not 1 <= len(properties.containers) <= MAX_CONTAINERS:
        raise Invalid(f"A task must have 1 to {MAX_CONTAINERS} containers.")
    _check_modes(properties)
    made = tuple(_container(container, properties, on_fargate=on_fargate) for container in properties.containers)
    require_unique((container.name for container in made), "The name of a container")
    if not any(container.essential for container in made):
        raise Invalid("At least one container of a task must be essential.")
    _check_dependencies(made)
    whole = Task(containers=made, share_ipc=properties.ipcMode == "task", share_pids=properties.pidMode == "task")
    check_resources(whole.resources, fargate=on_fargate)
    return whole


def _check_modes(given: EcsTaskProperties) -> None:
    """The host's namespaces would expose all other jobs, so no job gets them. Raises Invalid."""
    for member, mode, known in (
        ("ipcMode", given.ipcMode, ("host", "task", "none")),
        ("pidMode", given.pidMode, ("host", "task")),
        ("networkMode", given.networkMode, ("awsvpc", "bridge", "host", "none")),
    ):
        if mode and mode not in known:
            raise Invalid(f"{member} must be one of {', '.join(known)}.")
    if "host" in {given.ipcMode, given.pidMode} or given.networkMode not in _NETWORKS:
        raise NotSupported("The modes of a task that give it the host's namespaces, or no network, are not supported.")


def _container(given: TaskContainerProperties, within: EcsTaskProperties, *, on_fargate: bool) -> TaskContainer:
    validation.refuse_unsupported({"firelensConfiguration": given.firelensConfiguration is not None})
    properties = _properties(given, within)
    reserved = resources.to_resources(properties)
    check_memory(reserved)
    return TaskContainer(
        name=_name(given.name, alone=len(within.containers) == 1),
        spec=_sharing(containers.batch_container(properties, reserved=reserved, on_fargate=on_fargate), properties),
        essential=given.essential is not False,
        depends_on=tuple(_dependency(dependency) for dependency in given.dependsOn or ()),
        start_timeout=None if given.startTimeout is None else timedelta(seconds=given.startTimeout),
        stop_timeout=None if given.stopTimeout is None else timedelta(seconds=given.stopTimeout),
    )


def _properties(given: TaskContainerProperties, within: EcsTaskProperties) -> ContainerProperties:
    """The properties of a task's container, in the form of containerProperties."""
    own = {name: value for name, value in given if name in ContainerProperties.model_fields}
    version = within.platformVersion
    return ContainerProperties(
        **own,
        executionRoleArn=within.executionRoleArn,
        volumes=within.volumes,
        networkConfiguration=within.networkConfiguration,
        runtimePlatform=within.runtimePlatform,
        ephemeralStorage=within.ephemeralStorage,
        fargatePlatformConfiguration=FargatePlatformConfiguration(platformVersion=version) if version else None,
    )


def _sharing(spec: ContainerSpec, properties: ContainerProperties) -> ContainerSpec:
    """The containers of a task share volumes of the same name. Volumes with a host path are shared by it."""
    named = {point.containerPath: point.sourceVolume for point in properties.mountPoints or ()}
    mounts = [
        mount if mount.host_path is not None else replace(mount, volume=named[mount.container_path])
        for mount in spec.mounts
    ]
    return replace(spec, mounts=tuple(mounts))


def _name(text: str | None, *, alone: bool) -> str:
    """AWS: the name is optional. batchq: only for a task's only container, because names identify containers."""
    if not text and alone:
        return "default"
    if not _NAME.fullmatch(text or ""):
        raise Invalid("The name of a container must be 1 to 255 letters, digits, hyphens and underscores.")
    return text or ""


def _dependency(given: TaskContainerDependency) -> ContainerDependency:
    if given.condition not in set(Condition):
        raise Invalid(f"The condition of a container's dependsOn must be one of {', '.join(Condition)}.")
    return ContainerDependency(container=given.containerName or "", condition=Condition(given.condition))


def _check_dependencies(made: tuple[TaskContainer, ...]) -> None:
    """AWS: no container may wait for the exit of an essential one, because that exit ends the task. Raises Invalid."""
    known = {container.name: container for container in made}
    for container in made:
        require_unique((dependency.container for dependency in container.depends_on), "A container in dependsOn")
        for dependency in container.depends_on:
            if dependency.container not in known:
                raise Invalid(f"Container '{dependency.container}' in dependsOn of '{container.name}' does not exist.")
            if dependency.condition is not Condition.START and known[dependency.container].essential:
                raise Invalid(
                    f"The condition {dependency.condition} cannot be set on '{dependency.container}': it is essential."
                )
    _check_cycles({container.name: {on.container for on in container.depends_on} for container in made})


def _check_cycles(waiting: dict[str, set[str]]) -> None:
    while free := [name for name, others in waiting.items() if not others & waiting.keys()]:
        for name in free:
            del waiting[name]
    if waiting:
        raise Invalid(f"The containers {', '.join(sorted(waiting))} depend on each other in a cycle.")


class NodeRangeProperty(WireModel):
    targetNodes: Text
    container: Annotated[ContainerProperties | None, OmittedIfEmpty] = None
    instanceTypes: list[Text] | None = None
    ecsProperties: Annotated[EcsProperties | None, OmittedIfEmpty] = None
    eksProperties: Unsupported | None = None
    consumableResourceProperties: ConsumableResourceProperties | None = None


class NodeProperties(WireModel):
    numNodes: Integer
    mainNode: Integer
    nodeRangeProperties: list[NodeRangeProperty]


class NodePropertyOverride(WireModel):
    targetNodes: Text
    containerOverrides: ContainerOverrides | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    instanceTypes: list[Text] | None = None
    eksPropertiesOverride: Unsupported | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


class NodeOverrides(WireModel):
    numNodes: Integer | None = None
    nodePropertyOverrides: list[NodePropertyOverride] | None = None


def to_gang(given: NodeProperties) -> Nodes:
    """The gang of a job definition. Raises Invalid."""
    ranges = [(properties.targetNodes, _task(properties)) for properties in given.nodeRangeProperties]
    made = make_nodes(ranges, count=given.numNodes, main=given.mainNode)
    for target, _ in ranges:
        if (node_bounds(target)[1] or 0) >= made.count:
            raise Invalid(f"targetNodes {target} must be within 0:{made.count - 1}.")
    return made


def to_range_terms(given: NodeRangeProperty, arns: BatchArns) -> RangeTerms:
    """What SubmitJob's overrides of the range depend on. Raises Invalid, and NotFound."""
    return RangeTerms(
        target=given.targetNodes,
        has_task=given.ecsProperties is not None,
        older_members=resources.older_members(given.container),
        needs=to_needs(given.consumableResourceProperties, arns),
    )


def _task(given: NodeRangeProperty) -> Task:
    """The task of the nodes of a range. One container becomes a task with one container, named `default`."""
    validation.refuse_unsupported({"eksProperties": given.eksProperties}, validation.KUBERNETES)
    if (given.container is None) == (given.ecsProperties is None):
        raise Invalid("A node range must have exactly one of container and ecsProperties.")
    if given.ecsProperties is not None:
        return to_task(given.ecsProperties, on_fargate=False)
    assert given.container is not None
    return Task(containers=(TaskContainer(spec=to_single_container(given.container, on_fargate=False)),))
