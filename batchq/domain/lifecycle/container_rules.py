"""Rules between the containers of an attempt: when each starts, and what the end of one means for the others. Pure.

A container waits until the containers in its dependsOn have met their conditions (`Gate`). On a node other than the
main node it also waits until the main node can be found: a container of the main node has an address, or an essential
one has started. The second covers a container that exited before it was seen running, and engines that report no
address.

- When an essential container ends, the other containers of its node are stopped; if it is on the main node, those of
  all nodes.
- While the main node is to write a final checkpoint, the started containers of the other nodes continue. They are
  stopped when no container of the main node waits for the checkpoint any more, or an essential one has ended.
- A waiting container whose conditions can no longer be met ends without a start.
- A waiting container whose conditions are all met starts.

Effects are derived by comparing the containers before and after a change (`effects_of_change`).
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum, auto

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.container import ContainerSpec
from batchq.domain.enums import AttemptContainerState
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle import escalation, stopping
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.stop_values import SignalStep
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


def has_task(job: Job) -> bool:
    """Whether the attempt under way is that of a task or of nodes, even if that is only one container."""
    return job.attempt is not None and job.attempt.containers != ()


def task_of(job: Job, node: int) -> Task:
    """The task of a node. AssertionError for a job with one container."""
    task = job.spec.task if job.spec.nodes is None else job.spec.nodes.task(node)
    assert task is not None, f"{job.id} has one container and no task"
    return task


def spec_of(job: Job, tag: Tag) -> ContainerSpec:
    """The spec of the container that `tag` identifies."""
    return task_of(job, int(tag.node)).container(tag.container).spec if tag.container_key else job.spec.container


def leading_tag(job: Job, attempt: int) -> Tag:
    """The container that represents an attempt: its only one, or the first essential one of the main node."""
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
    return tuple(f"{node}/{container.name}" for node in nodes for container in task_of(job, node).containers)


def container_with_key(job: Job, key: str) -> AttemptContainer:
    """The container with this key of the attempt under way. StopIteration if there is none."""
    return next(container for container in attempt_of(job).containers if container.key == key)


def with_container(job: Job, container: AttemptContainer) -> Job:
    """The job with `container` in place of the container with the same key."""
    return each(job, lambda other: container if other.key == container.key else other)


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
    return replace(container, state=AttemptContainerState.ENDED, stopped_at=now, reason=reason)


def gates(job: Job) -> dict[str, Gate]:
    """The gate of each waiting container, by key."""
    containers = {container.key: container for container in attempt_of(job).containers}
    main_found = any(_finds(job, container) for container in containers.values() if container.node == main_node(job))
    return {
        container.key: _gate(job, container, containers, main_found=main_found)
        for container in containers.values()
        if container.state is AttemptContainerState.WAITING
    }


def nodes_to_stop(job: Job) -> frozenset[int]:
    """The nodes to stop: those with an essential container that has ended.

    All nodes if that is the main node, or if the job is ordered to stop and no final checkpoint is awaited any more. A
    TerminateJob for one node stops the containers of that node itself, and is not considered here.
    """
    containers = attempt_of(job).containers
    over = {
        container.node
        for container in containers
        if container.state is AttemptContainerState.ENDED and task_container_of(job, container).essential
    }
    stops = job.stop is not None and not escalation.awaits_checkpoint(job.stop)
    everything = stops or main_node(job) in over
    return frozenset(container.node for container in containers) if everything else frozenset(over)


def decides(job: Job, container: AttemptContainer) -> bool:
    """Whether the container decides the attempt: essential, on the main node, and ended after it ran or failed.

    A container that was stopped before it started does not decide.
    """
    failed_or_ran = container.started_at is not None or container.reason is not None
    over = container.state is AttemptContainerState.ENDED and failed_or_ran
    return over and container.node == main_node(job) and task_container_of(job, container).essential


def waiting_for(job: Job, container: AttemptContainer) -> Iterator[tuple[AttemptContainer, ContainerDependency]]:
    """The containers that wait for `container`, each with the dependency that is not met."""
    containers = {other.key: other for other in attempt_of(job).containers}
    for other in containers.values():
        if other.state is AttemptContainerState.WAITING and other.node == container.node:
            for key, dependency, gate in _conditions(job, other, containers):
                if key == container.key and gate is not Gate.OPEN:
                    yield other, dependency


def awaited(job: Job) -> frozenset[str]:
    """The keys of the containers that others wait for, in one pass over all of them."""
    containers = {container.key: container for container in attempt_of(job).containers}
    waiting = [container for container in containers.values() if container.state is AttemptContainerState.WAITING]
    conditions = (condition for container in waiting for condition in _conditions(job, container, containers))
    return frozenset(key for key, _, gate in conditions if gate is not Gate.OPEN)


def why_never(job: Job, container: AttemptContainer) -> str:
    """The reason of a container whose gate is NEVER. StopIteration for any other."""
    conditions = _conditions(job, container, {other.key: other for other in attempt_of(job).containers})
    never = next(dependency for _, dependency, gate in conditions if gate is Gate.NEVER)
    return f"ContainerDependencyError: container {never.container} will not reach {never.condition}"


def _gate(
    job: Job, container: AttemptContainer, containers: Mapping[str, AttemptContainer], *, main_found: bool
) -> Gate:
    found = {gate for _, _, gate in _conditions(job, container, containers)}
    if Gate.NEVER in found:
        return Gate.NEVER
    return Gate.OPEN if found <= {Gate.OPEN} and (main_found or container.node == main_node(job)) else Gate.WAITING


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
        key = f"{container.node}/{dependency.container}"
        yield key, dependency, _condition(dependency, containers[key])


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


def apply_rules(job: Job, now: datetime) -> Job:
    """Apply the rules until nothing changes. Containers start last, because the other rules may end them first."""
    while (after := _give_up(_close(_end_checkpoint_step(_decide(job), now), now), now)) is not job:
        job = after
    return _open(job, now)


def _decide(job: Job) -> Job:
    attempt = attempt_of(job)
    decider = next((container.key for container in attempt.containers if decides(job, container)), None)
    if attempt.decided_by is not None or decider is None:
        return job
    return replace(job, attempt=replace(attempt, decided_by=decider))


def _end_checkpoint_step(job: Job, now: datetime) -> Job:
    """End the order's step for the final checkpoint when no container of the main node waits for it any more."""
    if job.stop is None or not escalation.awaits_checkpoint(job.stop):
        return job
    if main_node(job) in nodes_to_stop(job):
        job = end_checkpoint_steps(job, now)
    if any(_awaits_checkpoint(container) for container in attempt_of(job).containers):
        return job
    return stopping.with_changed_order(job, lambda order: replace(order, step=order.step + 1))


def end_checkpoint_steps(job: Job, now: datetime) -> Job:
    """End the step of each container that waits for a checkpoint."""
    return each(
        job, lambda container: escalation.advanced(container, now) if _awaits_checkpoint(container) else container
    )


def _awaits_checkpoint(container: AttemptContainer) -> bool:
    return container.state is AttemptContainerState.RUNNING and escalation.awaits_checkpoint(container)


def _close(job: Job, now: datetime) -> Job:
    nodes = nodes_to_stop(job)
    return each(
        job, lambda container: order_container_stop(job, container, now) if container.node in nodes else container
    )


def _give_up(job: Job, now: datetime) -> Job:
    never = {key for key, gate in gates(job).items() if gate is Gate.NEVER}
    return each(
        job,
        lambda container: (
            ended_container(container, now, why_never(job, container)) if container.key in never else container
        ),
    )


def _open(job: Job, now: datetime) -> Job:
    ready = {key for key, gate in gates(job).items() if gate is Gate.OPEN}
    return each(
        job,
        lambda container: (
            replace(container, state=AttemptContainerState.STARTING, start_requested_at=now)
            if container.key in ready
            else container
        ),
    )


def order_container_stop(
    job: Job, container: AttemptContainer, now: datetime, own: on.TerminateRequested | None = None
) -> AttemptContainer:
    """Order a container to stop; a waiting one ends at once. One that has ended or is stopping does not change.

    `own`: the TerminateJob that causes the stop, else None. The grace period is the request's, else the container's
    stopTimeout, else the job's.
    """
    if container.state is AttemptContainerState.ENDED or container.stop_ordered:
        return container
    stops_alone = own is not None and (own.node is not None or own.container is not None)
    alone = stopping.terminate_order(job, own, now) if own is not None and stops_alone else None
    ordered = replace(container, terminated_by=alone)
    if container.state is AttemptContainerState.WAITING:
        return ended_container(ordered, now, None)
    steps = () if alone is not None else container.steps
    return replace(ordered, stop_ordered=True, steps=steps or _steps(job, container, own))


def take_over_stop(
    job: Job, container: AttemptContainer, now: datetime, own: on.TerminateRequested
) -> AttemptContainer:
    """Let a TerminateJob take over the stop of a container that a pause has ordered: the grace period and the signal.

    Unchanged if the container has ended, or another TerminateJob stops it alone.
    """
    if container.state is AttemptContainerState.ENDED or container.terminated_by is not None:
        return container
    if own.node is not None or own.container is not None:
        container = replace(container, terminated_by=stopping.terminate_order(job, own, now))
    if not container.steps or not (own.grace is not None or own.signal):
        return container
    last = _steps(job, container, own)[-1]
    return escalation.with_last_step(container, replace(last, signal=own.signal or container.steps[-1].signal), now)


def order_stop_of_job(
    job: Job, container: AttemptContainer, now: datetime, own: on.TerminateRequested | None = None
) -> AttemptContainer:
    """As `order_container_stop`, for a container of a job that is ordered to stop as a whole.

    A started container outside the main node gets only its steps: `_close` orders its stop once no final checkpoint is
    awaited any more, which is at once if none was requested.
    """
    if container.node == main_node(job) or container.stop_ordered or container.state not in BEGUN:
        return order_container_stop(job, container, now, own)
    return replace(container, steps=_steps(job, container, own))


def _steps(job: Job, container: AttemptContainer, own: on.TerminateRequested | None) -> tuple[SignalStep, ...]:
    """The steps that stop a container.

    A final checkpoint is requested of the running containers of the main node and, if the stop signal is the request,
    of those of all nodes.
    """
    graces = (None if own is None else own.grace, task_container_of(job, container).stop_timeout, job.spec.stop_grace)
    rules = job.spec.checkpoints
    requested = job.stop is not None and job.stop.final_checkpoint_requested and (own is None or own.node is None)
    on_main = container.node == main_node(job) or (rules is not None and rules.signal is None)
    return escalation.ladder(
        rules,
        signal=None if own is None else own.signal,
        grace=next(duration for duration in graces if duration is not None),
        checkpoint=requested and on_main and container.state is AttemptContainerState.RUNNING,
    )


def force_stop(job: Job, container: AttemptContainer, event: on.StopForced, now: datetime) -> AttemptContainer:
    """Kill a running container. A waiting one ends at once, and a starting one is killed once it runs."""
    if container.state is AttemptContainerState.ENDED or (container.stop_ordered and not container.steps):
        return container
    alone = container.terminated_by
    if alone is None and (job.is_pausing or (job.stop is None and not container.stop_ordered)):
        alone = stopping.terminate_order(job, event, now)
    ordered = replace(container, terminated_by=None if alone is None else stopping.forced(alone, event, now))
    if container.state is AttemptContainerState.WAITING:
        return ended_container(ordered, now, None)
    forced = replace(ordered, stop_ordered=True, steps=(), step=0, next_step_at=None)
    return escalation.killed(forced, now) if container.state is AttemptContainerState.RUNNING else forced
