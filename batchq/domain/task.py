"""Specs of jobs with several containers or several nodes: AWS's ecsProperties and nodeProperties. Pure."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.container import ContainerSpec, Overrides, Resources, creating_host_paths, effective


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
    name: str
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
        return total(container.spec.resources for container in self.containers)

    @property
    def leading(self) -> TaskContainer:
        """The first essential container, which represents the task where only one container can be shown."""
        return next(container for container in self.containers if container.essential)

    def container(self, name: str) -> TaskContainer:
        """The container of this name. StopIteration if there is none."""
        return next(container for container in self.containers if container.name == name)


class NodeRange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes that run the same task."""

    #: The index of the first node.
    first: int
    #: The index of the last node, included.
    last: int
    task: Task


class Nodes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a multi-node parallel job. They are placed together."""

    #: How many nodes there are.
    count: int
    #: The index of the main node.
    main: int
    #: Every node is in at least one range. AWS: the narrower range wins.
    ranges: tuple[NodeRange, ...]

    def range_of(self, node: int) -> NodeRange:
        """The narrowest range that contains the node."""
        holding = [node_range for node_range in self.ranges if node_range.first <= node <= node_range.last]
        return min(holding, key=lambda node_range: node_range.last - node_range.first)

    def task(self, node: int) -> Task:
        """The task of a node."""
        return self.range_of(node).task

    @property
    def leading(self) -> TaskContainer:
        """The first essential container of the main node."""
        return self.task(self.main).leading

    @property
    def resources(self) -> Resources:
        """The sum of all nodes' resources."""
        return total(self.task(node).resources for node in range(self.count))


class Runnable(Protocol):
    """What a job, or a job definition, runs: one container, a task, or the tasks of nodes."""

    @property
    def container(self) -> ContainerSpec: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def nodes(self) -> Nodes | None: ...


def resources_of(work: Runnable) -> Resources:
    """The resources that the work reserves: the sum of all its containers on all its nodes."""
    if work.nodes is not None:
        return work.nodes.resources
    return work.container.resources if work.task is None else work.task.resources


ByName = Mapping[str, Overrides]
"""The overrides of a task's containers, by container name."""

ByRange = Mapping[tuple[int, int], ByName]
"""The overrides of a multi-node job, by the first and last node of a range."""

#: Names and values for `Ref::name`.
Parameters = tuple[tuple[str, str], ...]


def effective_task(task: Task, overrides: ByName, parameters: Parameters) -> Task:
    """The task of a job: each container with its overrides applied, then `Ref::name` replaced."""
    containers = tuple(
        replace(container, spec=effective(container.spec, overrides.get(container.name, Overrides()), parameters))
        for container in task.containers
    )
    return replace(task, containers=containers)


def effective_nodes(nodes: Nodes, overrides: ByRange, parameters: Parameters) -> Nodes:
    """The nodes of a job: the task of each range as by `effective_task`."""
    ranges = tuple(
        replace(
            node_range,
            task=effective_task(node_range.task, overrides.get((node_range.first, node_range.last), {}), parameters),
        )
        for node_range in nodes.ranges
    )
    return replace(nodes, ranges=ranges)


def task_creating_host_paths(task: Task) -> Task:
    """The task with mounts that create missing host paths."""
    containers = tuple(replace(container, spec=creating_host_paths(container.spec)) for container in task.containers)
    return replace(task, containers=containers)


def nodes_creating_host_paths(nodes: Nodes) -> Nodes:
    """The nodes with mounts that create missing host paths."""
    ranges = tuple(replace(node_range, task=task_creating_host_paths(node_range.task)) for node_range in nodes.ranges)
    return replace(nodes, ranges=ranges)


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
    return Resources(
        millicpus=sum(resources.millicpus for resources in listed),
        memory_mib=sum(resources.memory_mib for resources in listed),
        gpus=sum(resources.gpus for resources in listed),
    )
