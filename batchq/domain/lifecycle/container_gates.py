"""What the containers of an attempt wait for, and what closes their node. Pure, and it changes nothing.

Within a node a container waits for what its task says of the others; on every other node also for the main node's
address. One that was over before it was seen to run tells none; so an essential one will do, on an engine without any.
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
    """NEVER: what the container waits for can no longer come true."""

    OPEN = auto()
    SHUT = auto()
    NEVER = auto()


def task_of(job: Job, node: int) -> Task:
    task = job.spec.task if job.spec.nodes is None else job.spec.nodes.task(node)
    assert task is not None, f"{job.id} has one container and no task"
    return task


def spec_of(job: Job, tag: Tag) -> ContainerSpec:
    """Of the container that a tag of the job names."""
    return task_of(job, int(tag.node)).container(tag.container).spec if tag.part else job.spec.container


def main_node(job: Job) -> int:
    return 0 if job.spec.nodes is None else job.spec.nodes.main


def container_of(job: Job, part: Part) -> TaskContainer:
    return task_of(job, part.node).container(part.name)


def keys(job: Job) -> tuple[str, ...]:
    """The containers of an attempt, the main node's first, else by node."""
    main = main_node(job)
    others = range(1 if job.spec.nodes is None else job.spec.nodes.count)
    nodes = (main, *(node for node in others if node != main))
    return tuple(f"{node}/{it.name}" for node in nodes for it in task_of(job, node).containers)


def gates(job: Job) -> dict[str, Gate]:
    """Those of the containers that wait."""
    parts = {part.key: part for part in attempt_of(job).parts}
    main_found = any(_finds(job, it) for it in parts.values() if it.node == main_node(job))
    return {
        it.key: _gate(job, it, parts, main_found=main_found) for it in parts.values() if it.state is PartState.WAITING
    }


def closed(job: Job) -> frozenset[int]:
    """The nodes that are to end: an essential container of theirs is over, or all are to. Who is told alone is told."""
    parts = attempt_of(job).parts
    over = {it.node for it in parts if it.state is PartState.ENDED and container_of(job, it).essential}
    everything = job.stop is not None or main_node(job) in over
    return frozenset(it.node for it in parts) if everything else frozenset(over)


def decides(job: Job, part: Part) -> bool:
    """Whether its end is the attempt's: essential, of the main node, over, and not only given up."""
    failed_or_ran = part.started_at is not None or part.reason is not None
    over = part.state is PartState.ENDED and failed_or_ran
    return over and part.node == main_node(job) and container_of(job, part).essential


def waiting_for(job: Job, part: Part) -> Iterator[tuple[Part, ContainerDependency]]:
    """The containers that still wait for this one, and for what of it."""
    for other in attempt_of(job).parts:
        if other.state is PartState.WAITING and other.node == part.node:
            for dependency in container_of(job, other).depends_on:
                if dependency.container == part.name and _condition(dependency, part) is not Gate.OPEN:
                    yield other, dependency


def awaited(job: Job) -> frozenset[str]:
    """The containers that others still wait for, by one look at each."""
    parts = {it.key: it for it in attempt_of(job).parts}
    waits = (
        (it, on) for it in parts.values() if it.state is PartState.WAITING for on in container_of(job, it).depends_on
    )
    keys = ((f"{it.node}/{on.container}", on) for it, on in waits)
    return frozenset(key for key, on in keys if _condition(on, parts[key]) is not Gate.OPEN)


def hopeless(job: Job, part: Part) -> str:
    """Why a container whose gate will never open is given up."""
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
    """Whether by this container of the main node the others find it."""
    return part.address is not None or (part.started_at is not None and container_of(job, part).essential)


def _condition(dependency: ContainerDependency, part: Part) -> Gate:
    """One that ended in whatever way is COMPLETE; only one that ran and exited with 0 is a SUCCESS."""
    over = part.state is PartState.ENDED
    met = {
        Condition.START: part.started_at is not None,
        Condition.COMPLETE: over,
        Condition.SUCCESS: over and part.exit_code == 0,
    }
    if met[dependency.condition]:
        return Gate.OPEN
    return Gate.NEVER if over else Gate.SHUT
