"""Jobs of several containers, and of several nodes: AWS's ecsProperties and nodeProperties, without the wire."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.container import ContainerSpec, Overrides, Resources, effective


class Condition(StrEnum):
    """What of another container must have happened: it started; it ended; it ended with exit code 0."""

    START = "START"
    COMPLETE = "COMPLETE"
    SUCCESS = "SUCCESS"


class ContainerDependency(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        return total(it.spec.resources for it in self.containers)

    @property
    def leading(self) -> TaskContainer:
        """The first essential one: what is told of a task in one line is told of it."""
        return next(it for it in self.containers if it.essential)

    def container(self, name: str) -> TaskContainer:
        return next(it for it in self.containers if it.name == name)


class NodeRange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes that run the same task."""

    #: The index of the first node.
    first: int
    #: The index of the last node, included.
    last: int
    task: Task


class Nodes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a multi-node parallel job: all of them are placed, or none."""

    #: How many nodes there are.
    count: int
    #: The index of the main node.
    main: int
    #: Every node is in at least one range. AWS: the narrower range wins.
    ranges: tuple[NodeRange, ...]

    def range_of(self, node: int) -> NodeRange:
        holding = [it for it in self.ranges if it.first <= node <= it.last]
        return min(holding, key=lambda it: it.last - it.first)

    def task(self, node: int) -> Task:
        return self.range_of(node).task

    @property
    def leading(self) -> TaskContainer:
        """The first essential container of the main node."""
        return self.task(self.main).leading

    @property
    def resources(self) -> Resources:
        return total(self.task(node).resources for node in range(self.count))


ByName = Mapping[str, Overrides]
"""The overrides of a task's containers."""

ByRange = Mapping[tuple[int, int], ByName]
"""The overrides of a gang, by the first and last node of a range."""

Parameters = tuple[tuple[str, str], ...]


def effective_task(task: Task, overrides: ByName, parameters: Parameters) -> Task:
    """The task a job really gets: each container's overrides laid over it, and `Ref::name` filled in."""
    containers = tuple(
        replace(it, spec=effective(it.spec, overrides.get(it.name, Overrides()), parameters)) for it in task.containers
    )
    return replace(task, containers=containers)


def effective_nodes(nodes: Nodes, overrides: ByRange, parameters: Parameters) -> Nodes:
    """The same of each range of a gang."""
    ranges = tuple(
        replace(it, task=effective_task(it.task, overrides.get((it.first, it.last), {}), parameters))
        for it in nodes.ranges
    )
    return replace(nodes, ranges=ranges)


def together(each: Iterable[Overrides]) -> Overrides:
    """All commands and variables in one: AWS measures the overrides of a task as a whole."""
    listed = list(each)
    return Overrides(
        command=tuple(word for it in listed for word in it.command or ()) or None,
        environment=tuple(pair for it in listed for pair in it.environment),
    )


def total(each: Iterable[Resources]) -> Resources:
    listed = list(each)
    return Resources(
        millicpus=sum(it.millicpus for it in listed),
        memory_mib=sum(it.memory_mib for it in listed),
        gpus=sum(it.gpus for it in listed),
    )
