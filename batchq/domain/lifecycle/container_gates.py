"""Start conditions of the containers of an attempt, and which nodes must stop. Pure; only reads the job.

A container waits until the containers that its task's dependsOn names have met their conditions. On a node other than
the main node it also waits until the main node can be found: a container there has an address, or an essential one has
started. The second is for a container that exited before it was seen running, and for engines that give no address.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto

from msgspec.structs import replace

from batchq.domain.container import ContainerSpec
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer, AttemptContainerState, Job
from batchq.domain.lifecycle.ladder import awaits_checkpoint
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.task import Condition, ContainerDependency, Task, TaskContainer

YET_TO_COME = frozenset({AttemptContainerState.WAITING, AttemptContainerState.STARTING})
BEGUN = frozenset({AttemptContainerState.STARTING, AttemptContainerState.RUNNING})


class Gate(Enum):
    """Whether a waiting container may start."""

    #: All conditions are met.
    OPEN = auto()
    #: Not yet.
    WAITING = auto()
    #: A condition can no longer be met.
    NEVER = auto()


def task_of(job: Job, node: int) -> Task:
    """The task of a node. AssertionError for a job with one container."""
    task = job.spec.task if job.spec.nodes is None else job.spec.nodes.task(node)
    assert task is not None, f"{job.id} has one container and no task"
    return task


def spec_of(job: Job, tag: Tag) -> ContainerSpec:
    """The spec of the container that `tag` identifies."""
    return task_of(job, int(tag.node)).container(tag.container).spec if tag.container_key else job.spec.container


def leading_tag(job: Job, attempt: int) -> Tag:
    """The container that stands for an attempt: its only one, or the first essential one of the main node."""
    tag = Tag(job_id=job.id, attempt=attempt)
    if job.spec.task is None and job.spec.nodes is None:
        return tag
    node = main_node(job)
    return replace(tag, container_key=f"{node}/{task_of(job, node).leading.name}")


def main_node(job: Job) -> int:
    """The index of the main node; 0 for a job on one node."""
    return 0 if job.spec.nodes is None else job.spec.nodes.main


def task_container_of(job: Job, container: AttemptContainer) -> TaskContainer:
    """The definition of a container in its task."""
    return task_of(job, container.node).container(container.name)


def keys(job: Job) -> tuple[str, ...]:
    """The keys of an attempt's containers: the main node's first, then by node; within a node in the task's order."""
    main = main_node(job)
    others = range(1 if job.spec.nodes is None else job.spec.nodes.count)
    nodes = (main, *(node for node in others if node != main))
    return tuple(f"{node}/{it.name}" for node in nodes for it in task_of(job, node).containers)


def gates(job: Job) -> dict[str, Gate]:
    """The gate of each waiting container, by key."""
    containers = {container.key: container for container in attempt_of(job).containers}
    main_found = any(_finds(job, it) for it in containers.values() if it.node == main_node(job))
    return {
        it.key: _gate(job, it, containers, main_found=main_found)
        for it in containers.values()
        if it.state is AttemptContainerState.WAITING
    }


def closed(job: Job) -> frozenset[int]:
    """The nodes to stop: those with an essential container that has ended.

    All nodes if that is the main node, or if the job is ordered to stop and no final checkpoint is awaited any more. A
    TerminateJob of one node stops that node's containers itself, and is not considered here.
    """
    containers = attempt_of(job).containers
    over = {
        it.node for it in containers if it.state is AttemptContainerState.ENDED and task_container_of(job, it).essential
    }
    stops = job.stop is not None and not awaits_checkpoint(job.stop)
    everything = stops or main_node(job) in over
    return frozenset(it.node for it in containers) if everything else frozenset(over)


def decides(job: Job, container: AttemptContainer) -> bool:
    """Whether the container decides the attempt: essential, on the main node, and ended after it ran or failed.

    One that ended because it was stopped before it started does not decide.
    """
    failed_or_ran = container.started_at is not None or container.reason is not None
    over = container.state is AttemptContainerState.ENDED and failed_or_ran
    return over and container.node == main_node(job) and task_container_of(job, container).essential


def waiting_for(job: Job, container: AttemptContainer) -> Iterator[tuple[AttemptContainer, ContainerDependency]]:
    """The containers that wait for `container`, each with the dependency that is not met."""
    for other in attempt_of(job).containers:
        if other.state is AttemptContainerState.WAITING and other.node == container.node:
            for dependency in task_container_of(job, other).depends_on:
                if dependency.container == container.name and _condition(dependency, container) is not Gate.OPEN:
                    yield other, dependency


def awaited(job: Job) -> frozenset[str]:
    """The keys of the containers that others wait for, in one pass over all of them."""
    containers = {it.key: it for it in attempt_of(job).containers}
    waits = (
        (it, on)
        for it in containers.values()
        if it.state is AttemptContainerState.WAITING
        for on in task_container_of(job, it).depends_on
    )
    keys = ((f"{it.node}/{on.container}", on) for it, on in waits)
    return frozenset(key for key, on in keys if _condition(on, containers[key]) is not Gate.OPEN)


def why_never(job: Job, container: AttemptContainer) -> str:
    """The reason of a container whose gate is NEVER. StopIteration for any other."""
    containers = {it.key: it for it in attempt_of(job).containers}
    never = next(
        it
        for it in task_container_of(job, container).depends_on
        if _condition(it, containers[f"{container.node}/{it.container}"]) is Gate.NEVER
    )
    return f"ContainerDependencyError: container {never.container} will not reach {never.condition}"


def _gate(
    job: Job, container: AttemptContainer, containers: Mapping[str, AttemptContainer], *, main_found: bool
) -> Gate:
    found = {
        _condition(it, containers[f"{container.node}/{it.container}"])
        for it in task_container_of(job, container).depends_on
    }
    if Gate.NEVER in found:
        return Gate.NEVER
    return Gate.OPEN if found <= {Gate.OPEN} and (main_found or container.node == main_node(job)) else Gate.WAITING


def _finds(job: Job, container: AttemptContainer) -> bool:
    """Whether the other nodes can find the main node because of this container of it."""
    return container.address is not None or (
        container.started_at is not None and task_container_of(job, container).essential
    )


def _condition(dependency: ContainerDependency, container: AttemptContainer) -> Gate:
    """The gate of one dependency on `container`. COMPLETE: it ended in any way. SUCCESS: it exited with code 0."""
    over = container.state is AttemptContainerState.ENDED
    met = {
        Condition.START: container.started_at is not None,
        Condition.COMPLETE: over,
        Condition.SUCCESS: over and container.exit_code == 0,
    }
    if met[dependency.condition]:
        return Gate.OPEN
    return Gate.NEVER if over else Gate.WAITING
