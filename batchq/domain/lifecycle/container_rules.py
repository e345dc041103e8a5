"""Rules between the containers of an attempt: what the change of one means for the others. Pure.

- When an essential container ends, its node closes: the node's other containers are stopped. With the main node all
  nodes close.
- While the main node is to write a final checkpoint, the containers of the other nodes that were started run on. They
  are stopped when no container of the main node waits for it any more, or an essential one has ended.
- A waiting container whose dependencies can no longer be met ends without starting.
- A waiting container whose dependencies are all met starts.

Effects are derived by comparing the containers before and after a change (`wanted`).
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer, AttemptContainerState, Job
from batchq.domain.lifecycle import container_gates, ladder, stop_order
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.stop_orders import SignalStep


def apply_rules(job: Job, now: datetime) -> Job:
    """Apply the rules until nothing changes. Containers start last, because the other rules may end them first."""
    while (after := _give_up(_close(_end_checkpoint_step(_decide(job), now), now), now)) is not job:
        job = after
    return _open(job, now)


def _decide(job: Job) -> Job:
    attempt = attempt_of(job)
    decider = next((it.key for it in attempt.containers if container_gates.decides(job, it)), None)
    if attempt.decided_by is not None or decider is None:
        return job
    return replace(job, attempt=replace(attempt, decided_by=decider))


def _end_checkpoint_step(job: Job, now: datetime) -> Job:
    """End the order's step for the final checkpoint when no container of the main node waits for one any more."""
    if job.stop is None or not ladder.awaits_checkpoint(job.stop):
        return job
    if container_gates.main_node(job) in container_gates.closed(job):
        job = end_checkpoint_steps(job, now)
    if any(_awaits_checkpoint(it) for it in attempt_of(job).containers):
        return job
    return stop_order.changed(job, lambda it: replace(it, step=it.step + 1))


def end_checkpoint_steps(job: Job, now: datetime) -> Job:
    """End the step of each container that waits for a checkpoint."""
    return each(job, lambda it: ladder.advanced(it, now) if _awaits_checkpoint(it) else it)


def _awaits_checkpoint(container: AttemptContainer) -> bool:
    return container.state is AttemptContainerState.RUNNING and ladder.awaits_checkpoint(container)


def _close(job: Job, now: datetime) -> Job:
    closed = container_gates.closed(job)
    return each(job, lambda it: order_stop(job, it, now) if it.node in closed else it)


def _give_up(job: Job, now: datetime) -> Job:
    never = {key for key, gate in container_gates.gates(job).items() if gate is container_gates.Gate.NEVER}
    return each(job, lambda it: ended(it, now, container_gates.why_never(job, it)) if it.key in never else it)


def _open(job: Job, now: datetime) -> Job:
    ready = {key for key, gate in container_gates.gates(job).items() if gate is container_gates.Gate.OPEN}
    return each(
        job,
        lambda it: replace(it, state=AttemptContainerState.STARTING, start_requested_at=now) if it.key in ready else it,
    )


def order_stop(
    job: Job, container: AttemptContainer, now: datetime, own: on.TerminateRequested | None = None
) -> AttemptContainer:
    """Order a container to stop; a waiting one ends at once. One that has ended or is stopping does not change.

    `own`: the TerminateJob that causes the stop, else None. The grace period is the request's, else the container's
    stopTimeout, else the job's.
    """
    if container.state is AttemptContainerState.ENDED or container.stop_ordered:
        return container
    stops_alone = own is not None and (own.node is not None or own.container is not None)
    alone = stop_order.terminate_order(job, own, now) if own is not None and stops_alone else None
    ordered = replace(container, terminated_by=alone)
    if container.state is AttemptContainerState.WAITING:
        return ended(ordered, now, None)
    return replace(ordered, stop_ordered=True, steps=container.steps or _steps(job, container, own))


def order_stop_of_job(
    job: Job, container: AttemptContainer, now: datetime, own: on.TerminateRequested | None = None
) -> AttemptContainer:
    """Order a container of a job with a stop order to stop.

    While a final checkpoint is awaited, a started container outside the main node gets its steps, and no signal yet.
    """
    waits = job.stop is not None and ladder.awaits_checkpoint(job.stop)
    if not waits or container.node == container_gates.main_node(job) or container.stop_ordered:
        return order_stop(job, container, now, own)
    begun = container.state in container_gates.BEGUN
    return replace(container, steps=_steps(job, container, own)) if begun else order_stop(job, container, now, own)


def _steps(job: Job, container: AttemptContainer, own: on.TerminateRequested | None) -> tuple[SignalStep, ...]:
    """The steps that stop a container.

    A final checkpoint is requested of the running containers of the main node and, if the stop signal is the request,
    of those of all nodes.
    """
    graces = (
        None if own is None else own.grace,
        container_gates.task_container_of(job, container).stop_timeout,
        job.spec.stop_grace,
    )
    rules = job.spec.checkpoints
    asked = job.stop is not None and job.stop.final_checkpoint_requested and (own is None or own.node is None)
    on_main = container.node == container_gates.main_node(job) or (rules is not None and rules.signal is None)
    return ladder.ladder(
        rules,
        signal=None if own is None else own.signal,
        grace=next(it for it in graces if it is not None),
        checkpoint=asked and on_main and container.state is AttemptContainerState.RUNNING,
    )


def force_stop(job: Job, container: AttemptContainer, event: on.StopForced, now: datetime) -> AttemptContainer:
    """Kill a running container. A waiting one ends at once, and a starting one is killed once it runs."""
    if container.state is AttemptContainerState.ENDED or (container.stop_ordered and not container.steps):
        return container
    alone = container.terminated_by
    if job.stop is None and not container.stop_ordered:
        alone = stop_order.terminate_order(job, stop_order.terminate_request(event), now)
    ordered = replace(container, terminated_by=None if alone is None else stop_order.forced(alone, event, now))
    if container.state is AttemptContainerState.WAITING:
        return ended(ordered, now, None)
    forced = replace(ordered, stop_ordered=True, steps=(), step=0, next_step_at=None)
    return ladder.killed(forced, now) if container.state is AttemptContainerState.RUNNING else forced


def ended(container: AttemptContainer, now: datetime, reason: str | None) -> AttemptContainer:
    """The container as ended at `now`; `reason` None: it did not fail."""
    return replace(container, state=AttemptContainerState.ENDED, stopped_at=now, reason=reason)


def wanted(tag: Tag, before: tuple[AttemptContainer, ...], after: tuple[AttemptContainer, ...]) -> Iterator[do.Effect]:
    """The effects that a change of an attempt's containers requires. `tag`: the attempt's."""
    for old, new in zip(before, after, strict=True):
        effect = _effect(replace(tag, container_key=new.key), old, new)
        if effect is not None:
            yield effect
    gone = cleared(before)
    for key in cleared(after):
        if key not in gone:
            yield do.CleanUpContainer(tag=replace(tag, container_key=key))


def _effect(tag: Tag, old: AttemptContainer, new: AttemptContainer) -> do.Effect | None:
    """The effect that a change of one container requires; None: none.

    A container that runs although it was ordered to stop while it was starting gets its signal.
    """
    match new.state:
        case AttemptContainerState.STARTING if old.state is AttemptContainerState.WAITING:
            return do.StartContainer(tag=tag)
        case AttemptContainerState.STARTING if new.stop_ordered and not old.stop_ordered:
            return do.AbandonStart(tag=tag)
        case AttemptContainerState.RUNNING if new.stop_ordered:
            ran = old.state is AttemptContainerState.RUNNING
            return ladder.next_effect(tag, old if ran and old.stop_ordered else None, new)
        case AttemptContainerState.ENDED if old.state is AttemptContainerState.STARTING and new.started_at is not None:
            # It exited before its start was confirmed: a repeated start would run it twice.
            return do.AbandonStart(tag=tag)
        case _:
            return None


def cleared(containers: tuple[AttemptContainer, ...]) -> tuple[str, ...]:
    """The keys of the ended containers that may be removed: none while any container of the attempt has yet to run.

    The volumes that containers share are removed with the attempt's last container, and a later container may read
    what an earlier one wrote.
    """
    if any(it.state in container_gates.YET_TO_COME for it in containers):
        return ()
    return tuple(
        it.key for it in containers if it.state is AttemptContainerState.ENDED and it.start_requested_at is not None
    )


def container_of(job: Job, key: str) -> AttemptContainer:
    """The container with this key of the attempt under way. StopIteration if there is none."""
    return next(it for it in attempt_of(job).containers if it.key == key)


def with_container(job: Job, container: AttemptContainer) -> Job:
    """The job with `container` in place of the container with the same key."""
    return each(job, lambda it: container if it.key == container.key else it)


def each(job: Job, change: Callable[[AttemptContainer], AttemptContainer]) -> Job:
    """Apply `change` to each container of the attempt under way. Returns the same object if nothing changes."""
    containers = attempt_of(job).containers
    changed = tuple(change(it) for it in containers)
    return job if changed == containers else with_containers(job, changed)


def with_containers(job: Job, containers: tuple[AttemptContainer, ...]) -> Job:
    return replace(job, attempt=replace(attempt_of(job), containers=containers))
