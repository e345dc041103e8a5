"""Start conditions of the containers of an attempt, and which nodes must stop. Pure; only reads the job.

A container waits until the containers that its task's dependsOn names have met their conditions. On a node other than
the main node it also waits until the main node can be found: a container there has an address, or an essential one has
started. The second is for a container that exited before it was seen running, and for engines that give no address.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto

from batchq.domain.container import ContainerSpec
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Part, PartState
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.task import Condition, ContainerDependency, Task, TaskContainer

YET_TO_COME = frozenset({PartState.WAITING, PartState.STARTING})
BEGUN = frozenset({PartState.STARTING, PartState.RUNNING})


class Gate(Enum):
    """Whether a waiting container may start."""

    #: All conditions are met.
    OPEN = auto()
    #: Not yet.
    SHUT = auto()
    #: A condition can no longer be met.
    NEVER = auto()


def task_of(job: Job, node: int) -> Task:
    """The task of a node. AssertionError for a job with one container."""
    task = job.spec.task if job.spec.nodes is None else job.spec.nodes.task(node)
    assert task is not None, f"{job.id} has one container and no task"
    return task


def spec_of(job: Job, tag: Tag) -> ContainerSpec:
    """The spec of the container that `tag` identifies."""
    return task_of(job, int(tag.node)).container(tag.container).spec if tag.part else job.spec.container


def main_node(job: Job) -> int:
    """The index of the main node; 0 for a job on one node."""
    return 0 if job.spec.nodes is None else job.spec.nodes.main


def container_of(job: Job, part: Part) -> TaskContainer:
    """The definition of a container in its task."""
    return task_of(job, part.node).container(part.name)


def keys(job: Job) -> tuple[str, ...]:
    """The keys of an attempt's containers: the main node's first, then by node; within a node in the task's order."""
    main = main_node(job)
    others = range(1 if job.spec.nodes is None else job.spec.nodes.count)
    nodes = (main, *(node for node in others if node != main))
    return tuple(f"{node}/{it.name}" for node in nodes for it in task_of(job, node).containers)


def gates(job: Job) -> dict[str, Gate]:
    """The gate of each waiting container, by key."""
    parts = {part.key: part for part in attempt_of(job).parts}
    main_found = any(_finds(job, it) for it in parts.values() if it.node == main_node(job))
    return {
        it.key: _gate(job, it, parts, main_found=main_found) for it in parts.values() if it.state is PartState.WAITING
    }


def closed(job: Job) -> frozenset[int]:
    """The nodes to stop: those with an essential container that has ended.

    All nodes if that is the main node, or if the job is ordered to stop. A TerminateJob of one node stops that node's
    containers itself, and is not considered here.
    """
    parts = attempt_of(job).parts
    over = {it.node for it in parts if it.state is PartState.ENDED and container_of(job, it).essential}
    everything = job.stop is not None or main_node(job) in over
    return frozenset(it.node for it in parts) if everything else frozenset(over)


def decides(job: Job, part: Part) -> bool:
    """Whether the container decides the attempt: essential, on the main node, and ended after it ran or failed.

    One that ended because it was stopped before it started does not decide.
    """
    failed_or_ran = part.started_at is not None or part.reason is not None
    over = part.state is PartState.ENDED and failed_or_ran
    return over and part.node == main_node(job) and container_of(job, part).essential


def waiting_for(job: Job, part: Part) -> Iterator[tuple[Part, ContainerDependency]]:
    """The containers that wait for `part`, each with the dependency that is not met."""
    for other in attempt_of(job).parts:
        if other.state is PartState.WAITING and other.node == part.node:
            for dependency in container_of(job, other).depends_on:
                if dependency.container == part.name and _condition(dependency, part) is not Gate.OPEN:
                    yield other, dependency


def awaited(job: Job) -> frozenset[str]:
    """The keys of the containers that others wait for, in one pass over all of them."""
    parts = {it.key: it for it in attempt_of(job).parts}
    waits = (
        (it, on) for it in parts.values() if it.state is PartState.WAITING for on in container_of(job, it).depends_on
    )
    keys = ((f"{it.node}/{on.container}", on) for it, on in waits)
    return frozenset(key for key, on in keys if _condition(on, parts[key]) is not Gate.OPEN)


def hopeless(job: Job, part: Part) -> str:
    """The reason of a container whose gate is NEVER. StopIteration for any other."""
    parts = {it.key: it for it in attempt_of(job).parts}
    never = next(
        it
        for it in container_of(job, part).depends_on
        if _condition(it, parts[f"{part.node}/{it.container}"]) is Gate.NEVER
    )
    return f"ContainerDependencyError: container {never.container} will not reach {never.condition}"


def _gate(job: Job, part: Part, parts: Mapping[str, Part], *, main_found: bool) -> Gate:
    found = {_condition(it, parts[f"{part.node}/{it.container}"]) for it in container_of(job, part).depends_on}
    if Gate.NEVER in found:
        return Gate.NEVER
    return Gate.OPEN if found <= {Gate.OPEN} and (main_found or part.node == main_node(job)) else Gate.SHUT


def _finds(job: Job, part: Part) -> bool:
    """Whether the other nodes can find the main node because of this container of it."""
    return part.address is not None or (part.started_at is not None and container_of(job, part).essential)


def _condition(dependency: ContainerDependency, part: Part) -> Gate:
    """The gate of one dependency on `part`. COMPLETE: it ended in any way. SUCCESS: it exited with code 0."""
    over = part.state is PartState.ENDED
    met = {
        Condition.START: part.started_at is not None,
        Condition.COMPLETE: over,
        Condition.SUCCESS: over and part.exit_code == 0,
    }
    if met[dependency.condition]:
        return Gate.OPEN
    return Gate.NEVER if over else Gate.SHUT
