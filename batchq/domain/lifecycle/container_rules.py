"""Rules between the containers of an attempt: when each starts, and what the end of one means for the others. Pure.

A container waits until the containers in its dependsOn have met their conditions (`Gate`). On a node other than the
main node it also waits until the main node can be found: a container of the main node has an address, or an essential
one has started. The second covers a container that exited before it was seen running, and engines that report no
address.

- When an essential container ends, the other containers of its node are stopped; if it is on the main node, those of
  all nodes. So a job with one container ends with it.
- While the main node is to write a final checkpoint, the started containers of the other nodes continue. They are
  stopped when no container of the main node waits for the checkpoint any more, or an essential one has ended.
- A waiting container whose conditions can no longer be met ends without a start.
- A waiting container whose conditions are all met starts.

Effects are derived by comparing the containers before and after a change (`containers.follow`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto

from msgspec.structs import replace

from batchq.domain.enums import AttemptContainerState
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import escalation
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.task import Condition, ContainerDependency, TaskContainer

#: The states of a container. A lookup of a member in its enumeration takes ten times as long.
WAITING, STARTING, RUNNING, ENDED = AttemptContainerState
YET_TO_COME = (WAITING, STARTING)
BEGUN = (STARTING, RUNNING)


class Gate(Enum):
    """Whether a waiting container may start."""

    #: All conditions are met.
    OPEN = auto()
    #: Not yet.
    WAITING = auto()
    #: A condition can no longer be met.
    NEVER = auto()


def is_captured(job: Job, tag: Tag) -> bool:
    """Whether the output of the container is stored. So is that of a container whose spec was damaged."""
    container = job.spec.nodes.containers.get(tag.container_key)
    return container is None or container.spec.logging.captured


def task_container_of(job: Job, container: AttemptContainer) -> TaskContainer:
    """The definition of a container in its task."""
    return job.spec.nodes.containers[container.key]


def leading_tag(job: Job, attempt: int) -> Tag:
    """The container that represents an attempt: the first essential one of the main node."""
    nodes = job.spec.nodes
    return Tag(job_id=job.id, attempt=attempt, container_key=nodes.key(nodes.main, nodes.leading.name))


def container_with_key(job: Job, key: str) -> AttemptContainer:
    """The container with this key of the attempt under way. StopIteration if there is none."""
    return next(container for container in attempt_of(job).containers if container.key == key)


def with_container(job: Job, container: AttemptContainer) -> Job:
    """The job with `container` in place of the container with the same key. Returns the same job if nothing changes."""
    attempt = attempt_of(job)
    containers = containers_with(attempt, container)
    return job if containers == attempt.containers else replace(job, attempt=replace(attempt, containers=containers))


def containers_with(attempt: Attempt, container: AttemptContainer) -> tuple[AttemptContainer, ...]:
    """The containers of the attempt, with `container` in place of the container with the same key."""
    return tuple([container if other.key == container.key else other for other in attempt.containers])


def each(job: Job, change: Callable[[AttemptContainer], AttemptContainer]) -> Job:
    """Apply `change` to each container of the attempt under way. Returns the same object if nothing changes."""
    containers = attempt_of(job).containers
    changed = tuple(change(container) for container in containers)
    return job if changed == containers else with_containers(job, changed)


def with_containers(job: Job, containers: tuple[AttemptContainer, ...]) -> Job:
    """The job with these containers in its attempt under way."""
    return replace(job, attempt=replace(attempt_of(job), containers=containers))


def ended_container(container: AttemptContainer, now: datetime, reason: str | None) -> AttemptContainer:
    """The container as ended at `now`; `reason` None: it did not fail."""
    return replace(container, state=ENDED, stopped_at=now, reason=reason)


def gates(job: Job) -> tuple[Sequence[str], Sequence[str]]:
    """The keys of the waiting containers that never start, and of those that start now."""
    listed, nodes = attempt_of(job).containers, job.spec.nodes
    by_key: Mapping[str, AttemptContainer] = {}
    hopeless, ready, main_found = [], [], None
    for container in listed:
        if container.state is not WAITING:
            continue
        gate, on_main = Gate.OPEN, nodes.count == 1 or container.node == nodes.main
        if nodes.containers[container.key].depends_on:
            by_key = by_key or {other.key: other for other in listed}
            gate = _gate(job, container, by_key)
        if gate is Gate.NEVER:
            hopeless.append(container.key)
        elif gate is Gate.OPEN:
            if main_found is None and not on_main:
                main_found = any(other.node == nodes.main and _finds(job, other) for other in listed)
            if main_found or on_main:
                ready.append(container.key)
    return hopeless, ready


def nodes_to_stop(job: Job) -> frozenset[int]:
    """The nodes to stop: those with an essential container that has ended.

    All nodes if that is the main node, or if the job is ordered to stop and no final checkpoint is awaited any more. A
    TerminateJob for one node stops the containers of that node itself, and is not considered here.
    """
    containers = attempt_of(job).containers
    ended = [container for container in containers if container.state is ENDED]
    over = frozenset([container.node for container in ended if task_container_of(job, container).essential])
    stops = job.stop is not None and not any_awaits_checkpoint(job)
    everything = stops or job.spec.nodes.main in over
    return frozenset([container.node for container in containers]) if everything else over


def any_awaits_checkpoint(job: Job) -> bool:
    """Whether a container of the attempt under way runs and waits for a final checkpoint. Only the main node's do."""
    return job.attempt is not None and any(map(_awaits_checkpoint, job.attempt.containers))


def waiting_for(job: Job, container: AttemptContainer) -> Iterator[tuple[AttemptContainer, ContainerDependency]]:
    """The containers that wait for `container`, each with the dependency that is not met."""
    containers = {other.key: other for other in attempt_of(job).containers}
    for other in containers.values():
        if other.state is WAITING and other.node == container.node:
            for key, dependency, gate in _conditions(job, other, containers):
                if key == container.key and gate is not Gate.OPEN:
                    yield other, dependency


def awaited(job: Job) -> frozenset[str]:
    """The keys of the containers that others wait for, in one pass over all of them."""
    listed = attempt_of(job).containers
    waiting = [container for container in listed if container.state is WAITING]
    if not waiting:
        return frozenset()
    containers = {container.key: container for container in listed}
    conditions = (condition for container in waiting for condition in _conditions(job, container, containers))
    return frozenset(key for key, _, gate in conditions if gate is not Gate.OPEN)


def why_never(job: Job, container: AttemptContainer) -> str:
    """The reason of a container whose gate is NEVER. StopIteration for any other."""
    conditions = _conditions(job, container, {other.key: other for other in attempt_of(job).containers})
    never = next(dependency for _, dependency, gate in conditions if gate is Gate.NEVER)
    return f"ContainerDependencyError: container {never.container} will not reach {never.condition}"


def _gate(job: Job, container: AttemptContainer, containers: Mapping[str, AttemptContainer]) -> Gate:
    """The gate of a container by its dependencies alone."""
    found = Gate.OPEN
    for _, _, gate in _conditions(job, container, containers):
        if gate is Gate.NEVER:
            return gate
        found = found if gate is Gate.OPEN else gate
    return found


def _finds(job: Job, container: AttemptContainer) -> bool:
    """Whether the other nodes can find the main node because of this container of the main node."""
    return container.address is not None or (
        container.started_at is not None and task_container_of(job, container).essential
    )


def _conditions(
    job: Job, container: AttemptContainer, containers: Mapping[str, AttemptContainer]
) -> Iterator[tuple[str, ContainerDependency, Gate]]:
    """The dependencies of a container: the key of the other container, the dependency, and its gate."""
    for dependency in task_container_of(job, container).depends_on:
        key = job.spec.nodes.key(container.node, dependency.container)
        yield key, dependency, _condition(dependency, containers[key])


def _condition(dependency: ContainerDependency, container: AttemptContainer) -> Gate:
    """The gate of one dependency on `container`. COMPLETE: it ended in any way. SUCCESS: it exited with code 0."""
    over = container.state is ENDED
    met = {
        Condition.START: container.started_at is not None,
        Condition.COMPLETE: over,
        Condition.SUCCESS: over and container.exit_code == 0,
    }
    if met[dependency.condition]:
        return Gate.OPEN
    return Gate.NEVER if over else Gate.WAITING


def is_last_to_start(job: Job, key: str) -> bool:
    """Whether no container of the attempt under way but this one has still to start."""
    others = [container.state for container in attempt_of(job).containers if container.key != key]
    return WAITING not in others and STARTING not in others


def decider(job: Job, attempt: Attempt) -> str | None:
    """The key of the container that decides the attempt under way; None: no container does yet.

    The first essential container of the main node that has ended, and ran or failed, decides. A container that was
    stopped before it started does not.
    """
    if attempt.decided_by is not None:
        return attempt.decided_by
    for container in attempt.containers:
        over = container.state is ENDED and container.node == job.spec.nodes.main
        ran_or_failed = container.started_at is not None or container.reason is not None
        if over and ran_or_failed and task_container_of(job, container).essential:
            return container.key
    return None


def decided(job: Job) -> Job:
    """The job with the container that decides its attempt, if one does."""
    attempt = attempt_of(job)
    key = decider(job, attempt)
    return job if key == attempt.decided_by else replace(job, attempt=replace(attempt, decided_by=key))


def with_ended_checkpoint_steps(job: Job, now: datetime) -> Job:
    """End the step of each container that waits for a checkpoint."""
    if not any_awaits_checkpoint(job):
        return job
    return each(
        job, lambda container: escalation.advanced(container, now) if _awaits_checkpoint(container) else container
    )


def _awaits_checkpoint(container: AttemptContainer) -> bool:
    return container.state is RUNNING and escalation.awaits_checkpoint(container)


def newly_started(before: Job, after: Job) -> tuple[Tag, ...]:
    """The containers that started to run between two versions of a job, including those that have ended since."""
    if before.attempt is None:
        return ()
    attempt = after.latest_attempt
    if attempt is None or attempt.number != before.attempt.number:
        return ()
    started = []
    for old, new in zip(before.attempt.containers, attempt.containers, strict=True):
        if old.started_at is None and new.started_at is not None:
            started.append(Tag(job_id=after.id, attempt=attempt.number, container_key=new.key))
    return tuple(started)


def with_hopeless_ended(job: Job, hopeless: Collection[str], now: datetime) -> Job:
    """End the waiting containers with these keys: their conditions can no longer be met."""

    def end(container: AttemptContainer) -> AttemptContainer:
        return ended_container(container, now, why_never(job, container)) if container.key in hopeless else container

    return each(job, end)


def with_started(job: Job, ready: Collection[str], now: datetime) -> Job:
    """Start the waiting containers with these keys."""
    attempt = attempt_of(job)
    containers = [
        replace(container, state=STARTING, start_requested_at=now) if container.key in ready else container
        for container in attempt.containers
    ]
    return replace(job, attempt=replace(attempt, containers=tuple(containers)))
