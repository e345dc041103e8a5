"""What a job runs: at least one container on at least one node. Pure.

AWS writes this in three forms: containerProperties (one container), ecsProperties (a task: containers on one node) and
nodeProperties (the tasks of several nodes). All three are `Nodes`, with the form beside them for answers.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.container import ContainerSpec, Overrides, Resources, effective
from batchq.domain.ids import DEFAULT_CONTAINER


class Condition(StrEnum):
    """The event of another container that a container waits for."""

    #: It started.
    START = "START"
    #: It ended.
    COMPLETE = "COMPLETE"
    #: It exited with code 0.
    SUCCESS = "SUCCESS"


class ContainerDependency(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a container's dependsOn."""

    #: The name of the other container of the task.
    container: str
    condition: Condition


class TaskContainer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container of a task."""

    #: Unique in the task.
    name: str = DEFAULT_CONTAINER
    spec: ContainerSpec
    #: Whether the other containers are stopped when it ends.
    essential: bool = True
    depends_on: tuple[ContainerDependency, ...] = ()
    #: AWS: the time in which it must meet the conditions of others, or the task fails; None: without limit.
    start_timeout: timedelta | None = None
    #: The time between its stop signal and its kill; None: the job's.
    stop_timeout: timedelta | None = None


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Containers that run side by side on one node and share a network."""

    #: At least one is essential.
    containers: tuple[TaskContainer, ...]
    #: Whether they share one IPC namespace.
    share_ipc: bool = False
    #: Whether they share one PID namespace.
    share_pids: bool = False

    @property
    def resources(self) -> Resources:
        """The sum of its containers' resources."""
        return total([container.spec.resources for container in self.containers])

    @property
    def leading(self) -> TaskContainer:
        """The first essential container, which represents the task where only one container can be shown."""
        for container in self.containers:
            if container.essential:
                return container
        raise AssertionError("the task has no essential container")

    def container(self, name: str) -> TaskContainer:
        """The container of this name. AssertionError if there is none."""
        for container in self.containers:
            if container.name == name:
                return container
        raise AssertionError(f"the task has no container {name}")


class NodeRange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes that run the same task."""

    #: The index of the first node.
    first: int = 0
    #: The index of the last node, included.
    last: int = 0
    task: Task


class NodeRun(Struct, frozen=True, kw_only=True):
    """Nodes next to each other that request the same."""

    #: How many nodes there are.
    count: int = 1
    #: What each of them requests.
    resources: Resources


class DefinitionForm(StrEnum):
    """The member of a job definition in which the client described the containers. Answers have the same member."""

    #: AWS's containerProperties.
    CONTAINER = "CONTAINER"
    #: AWS's ecsProperties.
    TASK = "TASK"
    #: AWS's nodeProperties.
    NODES = "NODES"


class Nodes(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The nodes of a job, which are placed together, and the containers of each. Most jobs have one of both.

    Sums and keys are computed once for each value: the life of a plain job reads them ten times.
    """

    #: Every node is in at least one range. AWS: the narrower range wins.
    ranges: tuple[NodeRange, ...]
    #: How many nodes there are.
    count: int = 1
    #: The index of the main node.
    main: int = 0
    #: CONTAINER only with one node and one container of the default name.
    form: DefinitionForm = DefinitionForm.CONTAINER

    def range_of(self, node: int) -> NodeRange:
        """The narrowest range that contains the node."""
        holding = [node_range for node_range in self.ranges if node_range.first <= node <= node_range.last]
        return min(holding, key=lambda node_range: node_range.last - node_range.first)

    def task(self, node: int) -> Task:
        """The task of a node."""
        return self.ranges[0].task if len(self.ranges) == 1 else self.range_of(node).task

    def key(self, node: int, container: str) -> str:
        """The `Tag.container_key` of a container. Empty in the form CONTAINER, as it is in the names of its logs."""
        return "" if self.form is DefinitionForm.CONTAINER else f"{node}/{container}"

    @cached_property
    def containers(self) -> Mapping[str, TaskContainer]:
        """All containers by key: the main node's first, then by node; within a node in the task's order."""
        order = [self.main, *[node for node in range(self.count) if node != self.main]]
        return {self.key(node, container.name): container for node in order for container in self.task(node).containers}

    @property
    def leading(self) -> TaskContainer:
        """The first essential container of the main node."""
        return self.task(self.main).leading

    @cached_property
    def resources(self) -> Resources:
        """The sum of all nodes' resources."""
        return total([self.task(node).resources for node in range(self.count)])

    @cached_property
    def runs(self) -> tuple[NodeRun, ...]:
        """What the nodes request, in their order."""
        found: list[NodeRun] = []
        for node in range(self.count):
            resources = self.task(node).resources
            if found and found[-1].resources == resources:
                found[-1] = NodeRun(count=found[-1].count + 1, resources=resources)
            else:
                found.append(NodeRun(resources=resources))
        return tuple(found)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The task of each range."""
        return tuple(node_range.task for node_range in self.ranges)

    def with_specs(self, change: Callable[[NodeRange, TaskContainer], ContainerSpec]) -> "Nodes":
        """The nodes with another spec of each container."""
        ranges = []
        for part in self.ranges:
            containers = [replace(container, spec=change(part, container)) for container in part.task.containers]
            ranges.append(replace(part, task=replace(part.task, containers=tuple(containers))))
        return replace(self, ranges=tuple(ranges))


def one_container(spec: ContainerSpec) -> Nodes:
    """The nodes of a job that is submitted as a single container."""
    return Nodes(ranges=(NodeRange(task=Task(containers=(TaskContainer(spec=spec),))),))


def one_task(task: Task) -> Nodes:
    """The nodes of a job that is submitted as a task."""
    return Nodes(ranges=(NodeRange(task=task),), form=DefinitionForm.TASK)


ByName = Mapping[str, Overrides]
"""The overrides of a task's containers, by container name."""

ByRange = Mapping[tuple[int, int], ByName]
"""The overrides of a job, by the first and last node of a range."""

#: Names and values for `Ref::name`.
Parameters = tuple[tuple[str, str], ...]


def effective_nodes(nodes: Nodes, overrides: ByRange, parameters: Parameters) -> Nodes:
    """The nodes of a job: each container with its overrides applied, then `Ref::name` replaced."""

    def changed(part: NodeRange, container: TaskContainer) -> ContainerSpec:
        by_name = overrides.get((part.first, part.last), {})
        return effective(container.spec, by_name.get(container.name, Overrides()), parameters)

    return nodes.with_specs(changed)


def together(each: Iterable[Overrides]) -> Overrides:
    """The commands and variables of all overrides in one: AWS limits the length of a task's overrides as a whole."""
    listed = list(each)
    return Overrides(
        command=tuple(word for overrides in listed for word in overrides.command or ()) or None,
        environment=tuple(pair for overrides in listed for pair in overrides.environment),
    )


def total(each: Iterable[Resources]) -> Resources:
    """The sum in each dimension."""
    listed = list(each)
    if len(listed) == 1:
        return listed[0]
    return Resources(
        millicpus=sum(resources.millicpus for resources in listed),
        memory_mib=sum(resources.memory_mib for resources in listed),
        gpus=sum(resources.gpus for resources in listed),
    )
