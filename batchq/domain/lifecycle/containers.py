"""Attempts with several containers: a task, or the tasks of all nodes of a multi-node parallel job. Pure.

`TRANSITIONS[container state][event type]` is a rule that changes one container. `container_rules.apply_rules` then
derives what follows for the other containers, and `container_effects.effects_of_change` derives the effects. When all
containers have ended, the attempt ends with the outcome of its deciding container (`Attempt.decided_by`), and
`status.finish` decides what follows for the job.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import escalation, holds, status, stopping
from batchq.domain.lifecycle.container_effects import effects_of_change
from batchq.domain.lifecycle.container_rules import (
    apply_rules,
    container_with_key,
    each,
    end_checkpoint_steps,
    ended_container,
    force_stop,
    has_task,
    keys,
    main_node,
    order_container_stop,
    order_stop_of_job,
    take_over_stop,
    task_container_of,
    task_of,
    waiting_for,
    with_container,
    with_containers,
)
from batchq.domain.lifecycle.status import Outcome, abandon, attempt_of, finish, move_to, with_history
from batchq.domain.task import Condition
from batchq.errors import IllegalTransition

#: A cell of a table: `(job, container, event, now) -> job`; in ORDERS without the container.
Rule = Callable[..., Job]  # type: ignore[explicit-any]  # as in `transitions`

_ORDERS = on.TerminateRequested | on.StopForced | on.PauseRequested


def rules(job: Job, event: on.Event) -> bool:
    """Whether this module handles the event for the job. `transitions` handles all others."""
    return has_task(job) and (on.is_attempt_event(event) or isinstance(event, _ORDERS))


def begin_containers(job: Job, now: datetime) -> Outcome:
    """Create the containers of a job that was placed, and start those that wait for no other."""
    containers = tuple(AttemptContainer(key=key) for key in keys(job))
    placed = with_containers(job, containers)
    return _follow(placed, placed, now)


def step_containers(job: Job, event: on.Event, now: datetime) -> Outcome:
    """Apply an event about a container, or one of ORDERS. Raises IllegalTransition if it cannot happen."""
    order = ORDERS[job.status].get(type(event))
    return _follow(job, _apply_to_container(job, event, now) if order is None else order(job, event, now), now)


def _apply_to_container(job: Job, event: on.Event, now: datetime) -> Job:
    key = getattr(event, "container_key", None)
    container = next((container for container in attempt_of(job).containers if container.key == key), None)
    rule = None if container is None else TRANSITIONS[container.state].get(type(event))
    if rule is None:
        raise IllegalTransition(f"{type(event).__name__} cannot happen to {container} of {with_history(job)}")
    return rule(job, container, event, now)


def _follow(before: Job, after: Job, now: datetime) -> Outcome:
    known = attempt_of(before).containers
    settled = stopping.record_progress(apply_rules(after, now), known, now)
    containers = attempt_of(settled).containers
    effects = tuple(effects_of_change(before.tag, known, containers))
    over = all(container.state is AttemptContainerState.ENDED for container in containers)
    return _finish(settled, now) if over else settled, effects


def _finish(job: Job, now: datetime) -> Job:
    """End the attempt, all of whose containers have ended. AWS: a multi-node job has the times of its main node.

    Without a deciding container and with no container started, the start was abandoned: the attempt does not count.
    """
    attempt = attempt_of(job)
    main = [container for container in attempt.containers if container.node == main_node(job)]
    decider = next((container for container in main if container.key == attempt.decided_by), None)
    if decider is None and attempt.started_at is None:
        return abandon(job, now)
    latest = max(container.stopped_at or now for container in main)
    over = replace(attempt, stopped_at=max(latest, attempt.started_at or latest))
    over, status_reason = (over, status_reasons.EXITED) if decider is None else _verdict(over, decider)
    return finish(job, over, now, status_reason)


def _verdict(over: Attempt, decider: AttemptContainer) -> tuple[Attempt, str]:
    """The attempt with the exit code and reason of its deciding container, and its status reason.

    Both are as for a job with that container alone.
    """
    if decider.started_at is not None and decider.exit_code is None:
        return over, decider.reason or status_reasons.DISAPPEARED
    exited = status_reasons.of_exit(decider.exit_code, host_lost=decider.host_lost)
    status_reason = status_reasons.NOT_STARTED if decider.started_at is None else exited
    return replace(over, exit_code=decider.exit_code, reason=decider.reason), status_reason


def _made(job: Job, container: AttemptContainer, event: on.ContainerCreated, _: datetime) -> Job:
    return with_container(job, status.created(container, event))


def _discard(job: Job, container: AttemptContainer, _: on.ContainerDiscarded, __: datetime) -> Job:
    return with_container(job, replace(container, container_id=None))


def _run(job: Job, container: AttemptContainer, event: on.ContainerStarted, now: datetime) -> Job:
    """The first container that runs makes the job RUNNING."""
    started = status.start_time(event.started_at, requested_at=container.start_requested_at, now=now)
    running = replace(container, state=AttemptContainerState.RUNNING, started_at=started, address=event.address)
    if container.stop_ordered:
        running = escalation.begun(running, now)
    runs = with_container(job, running)
    if runs.status is Status.RUNNING:
        return runs
    attempt = replace(attempt_of(runs), started_at=started)
    return replace(move_to(runs, Status.RUNNING), attempt=attempt, started_at=started, stopped_at=None)


def _learn_address(job: Job, container: AttemptContainer, event: on.ContainerStarted, _: datetime) -> Job:
    return job if container.address is not None else with_container(job, replace(container, address=event.address))


def _not_started(job: Job, container: AttemptContainer, event: on.StartFailed, now: datetime) -> Job:
    attempt = attempt_of(job)
    refused = replace(job, attempt=replace(attempt, forbidden=attempt.forbidden or event.forbidden))
    return with_container(
        refused, replace(ended_container(container, now, event.reason), exit_code=event.exit_code or None)
    )


def _abandoned(job: Job, container: AttemptContainer, _: on.StartAbandoned, now: datetime) -> Job:
    assert container.stop_ordered, f"the start of {container} was abandoned without a stop order: {with_history(job)}"
    return with_container(job, ended_container(container, now, None))


def _exit_unseen_start(job: Job, container: AttemptContainer, event: on.ContainerExited, now: datetime) -> Job:
    """The first report of the container is its exit. It did run, so it passes through RUNNING."""
    started = on.ContainerStarted(attempt=event.attempt, container_key=event.container_key, started_at=event.started_at)
    running = _run(job, container, started, now)
    return _exit(running, container_with_key(running, container.key), event, now)


def _exit(job: Job, container: AttemptContainer, event: on.ContainerExited, now: datetime) -> Job:
    over = status.exited(container, event, requested_at=container.start_requested_at, now=now)
    return with_container(job, replace(over, state=AttemptContainerState.ENDED, host_lost=event.host_lost))


def _lose(job: Job, container: AttemptContainer, event: on.ContainerLost, now: datetime) -> Job:
    return with_container(job, ended_container(container, max(now, container.started_at or now), event.reason))


def _note_request(job: Job, container: AttemptContainer, event: on.CheckpointRequested, now: datetime) -> Job:
    return with_container(job, escalation.requested(container, event.step, now))


def _count_wait(job: Job, container: AttemptContainer, event: on.StopSignalDelivered, now: datetime) -> Job:
    """Start the wait of the step at the first delivery of its signal, as for a job with one container."""
    return with_container(job, escalation.delivered(container, event.step, now))


def _next_step(job: Job, container: AttemptContainer, _: on.GraceExpired, now: datetime) -> Job:
    """Begin the next step. After the last one the kill is repeated until the container exits."""
    if container.next_step_at is None:
        return job
    missed = stopping.miss_checkpoint(job, escalation.under_way(container))
    after = escalation.expired(container, now)
    return stopping.mark_unkillable(with_container(missed, after), after, now)


def _start_timed_out(job: Job, container: AttemptContainer, _: on.StartTimedOut, now: datetime) -> Job:
    """AWS: the containers whose conditions `container` did not meet in its startTimeout give up, and the task stops."""
    waiting = {other_container.key: dependency for other_container, dependency in waiting_for(job, container)}
    limit = task_container_of(job, container).start_timeout
    if not waiting or limit is None:
        return job

    def give_up_or_stop(other_container: AttemptContainer) -> AttemptContainer:
        if other_container.key in waiting:
            return ended_container(
                other_container, now, _too_late(container, waiting[other_container.key].condition, limit)
            )
        return (
            order_container_stop(job, other_container, now)
            if other_container.node == container.node
            else other_container
        )

    return _decided_by(each(job, give_up_or_stop), container.node, tuple(waiting))


def _too_late(container: AttemptContainer, condition: Condition, limit: timedelta) -> str:
    seconds = limit // timedelta(seconds=1)
    return f"DependencyTimeoutError: container {container.name} did not reach {condition} within {seconds} seconds"


def _decided_by(job: Job, node: int, given_up: tuple[str, ...]) -> Job:
    """Let a container that gave up decide the attempt, because the task stops for it; an essential one first.

    Only the main node's containers decide, and only the first decision counts.
    """
    attempt = attempt_of(job)
    if node != main_node(job) or attempt.decided_by is not None:
        return job
    essential = [text for text in given_up if task_container_of(job, container_with_key(job, text)).essential]
    return replace(job, attempt=replace(attempt, decided_by=(*essential, *given_up)[0]))


def _time_out(job: Job, _: on.TimedOut, now: datetime) -> Job:
    """Order the stop. Not for a decided attempt: it ended in time, and its other containers are stopping already."""
    if job.stop is not None or attempt_of(job).decided_by is not None:
        return job
    ordered = stopping.time_out(job, now)
    return each(ordered, lambda container: order_stop_of_job(ordered, container, now))


def _terminate(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """Stop the job if the request names the main node, an essential container of a task, or neither.

    Any other node or container stops alone, and the job continues. A pause is taken over.
    """
    if job.stop is not None and not job.is_pausing:
        return job
    if event.container is not None and not _is_essential(job, event.container):
        return each(
            job,
            lambda container: (
                _stop_container(job, container, event, now) if container.name == event.container else container
            ),
        )
    if not _names_job(job, event.node):
        return each(
            job,
            lambda other_container: (
                _stop_container(job, other_container, event, now)
                if other_container.node == event.node
                else other_container
            ),
        )
    whole, ordered = replace(event, node=None, container=None), stopping.order_stop(job, event, now)
    if not job.is_pausing:
        return each(ordered, lambda one_container: order_stop_of_job(ordered, one_container, now, whole))
    return each(
        ordered,
        lambda item: (
            take_over_stop(ordered, item, now, whole)
            if item.stop_ordered
            else order_stop_of_job(ordered, item, now, whole)
        ),
    )


def _stop_container(
    job: Job, container: AttemptContainer, event: on.TerminateRequested, now: datetime
) -> AttemptContainer:
    """Stop one container alone, also one that a pause stops already."""
    if job.is_pausing and container.stop_ordered:
        return take_over_stop(job, container, now, event)
    return order_container_stop(job, container, now, event)


def _pause(job: Job, event: on.PauseRequested, now: datetime) -> Job:
    """Stop all containers, and hold the job after the attempt."""
    paused = holds.pause_active(job, event, now)
    return paused if job.is_pausing else each(paused, lambda container: order_stop_of_job(paused, container, now))


def _force(job: Job, event: on.StopForced, now: datetime) -> Job:
    """Kill the containers of the whole job, or of the node or the container that the request names."""
    if event.container is not None and not _is_essential(job, event.container):
        return each(
            job,
            lambda container: (
                force_stop(job, container, event, now) if container.name == event.container else container
            ),
        )
    if _names_job(job, event.node):
        ordered = stopping.force(job, event, now)
        return each(ordered, lambda other_container: force_stop(ordered, other_container, event, now))
    return each(
        job,
        lambda one_container: (
            force_stop(job, one_container, event, now) if one_container.node == event.node else one_container
        ),
    )


def _names_job(job: Job, node: int | None) -> bool:
    """Whether a request for this node, None for the job as a whole, concerns the whole job."""
    return node is None or node == main_node(job)


def _is_essential(job: Job, container: str) -> bool:
    """Whether a task ends with the container of this name."""
    return task_of(job, 0).container(container).essential


def _see_checkpoint(job: Job, event: on.CheckpointSeen, now: datetime) -> Job:
    """Store the final checkpoint, and end the steps that wait for it."""
    seen = stopping.see_checkpoint(job, event, now)
    return job if seen is job else end_checkpoint_steps(seen, now)


def _ignored(job: Job, _: AttemptContainer, __: on.AttemptEvent, ___: datetime) -> Job:
    return job


_STARTING: Mapping[type[on.Event], Rule] = {
    on.ContainerCreated: _made,
    on.ContainerDiscarded: _discard,
    on.ContainerStarted: _run,
    on.StartFailed: _not_started,
    on.StartAbandoned: _abandoned,
    on.ContainerExited: _exit_unseen_start,
    on.ContainerLost: _lose,
    on.StartTimedOut: _start_timed_out,
}
_RUNNING: Mapping[type[on.Event], Rule] = {
    on.ContainerStarted: _learn_address,
    on.ContainerExited: _exit,
    on.ContainerLost: _lose,
    on.CheckpointRequested: _note_request,
    on.StopSignalDelivered: _count_wait,
    on.GraceExpired: _next_step,
    on.StartTimedOut: _start_timed_out,
}

#: One row for each state of a container, one cell for each event that is legal in it. After its end, late reports are
#: ignored.
TRANSITIONS: Mapping[AttemptContainerState, Mapping[type[on.Event], Rule]] = {
    AttemptContainerState.WAITING: {},
    AttemptContainerState.STARTING: _STARTING,
    AttemptContainerState.RUNNING: _RUNNING,
    AttemptContainerState.ENDED: dict.fromkeys((*_STARTING, *_RUNNING), _ignored),
}

#: The events that concern all containers, by the status of the job.
ORDERS: Mapping[Status, Mapping[type[on.Event], Rule]] = {
    Status.STARTING: {
        on.CheckpointSeen: _see_checkpoint,
        on.TerminateRequested: _terminate,
        on.StopForced: _force,
        on.PauseRequested: _pause,
    },
    Status.RUNNING: {
        on.CheckpointSeen: _see_checkpoint,
        on.TimedOut: _time_out,
        on.TerminateRequested: _terminate,
        on.StopForced: _force,
        on.PauseRequested: _pause,
    },
}
