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
    container: str
    condition: Condition


class TaskContainer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container of a task. When an essential one ends, the others are stopped.

    AWS: within `start_timeout` it must reach what others wait for, or the task is given up; `stop_timeout` is its
    grace, None the job's.
    """

    name: str
    spec: ContainerSpec
    essential: bool = True
    depends_on: tuple[ContainerDependency, ...] = ()
    start_timeout: timedelta | None = None
    stop_timeout: timedelta | None = None


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Containers that run side by side and share a network, and with `share_ipc` and `share_pids` those namespaces.

    At least one is essential. A mount of theirs with a `volume` is of a volume that they share.
    """

    containers: tuple[TaskContainer, ...]
    share_ipc: bool = False
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
    """The nodes `first` to `last`, both included, and what each of them runs."""

    first: int
    last: int
    task: Task


class Nodes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gang of `count` nodes, placed all or none. Every node has a range; AWS: the narrower range wins."""

    count: int
    main: int
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
