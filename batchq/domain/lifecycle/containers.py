"""The lifecycle of a container: a table of the events that can happen to a container in each state. Pure.

Every attempt has at least one container. `TRANSITIONS[container state][event type]` is a rule: a function
`(job, container, event, now) -> job` that changes one container. A missing cell is an illegal transition. A container
that has ended ignores late reports.

`follow` derives the rest, for one container as for several:

- what the change means for the other containers (`container_rules`, `container_stops`),
- the effects, by a comparison of the containers before and after,
- the end of the attempt, once all its containers have ended. Its outcome is that of the deciding container
  (`Attempt.decided_by`), and `status.finish` decides what follows for the job.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import escalation, status, stopping
from batchq.domain.lifecycle.container_rules import (
    ENDED,
    RUNNING,
    STARTING,
    WAITING,
    YET_TO_COME,
    container_with_key,
    containers_with,
    decided,
    decider,
    each,
    ended_container,
    gates,
    task_container_of,
    waiting_for,
    with_container,
    with_hopeless_ended,
    with_started,
)
from batchq.domain.lifecycle.container_stops import order_container_stop, with_nodes_stopped
from batchq.domain.lifecycle.status import Outcome, abandon, attempt_of, finish, move_to, with_history
from batchq.domain.task import Condition
from batchq.errors import IllegalTransition

#: A cell of the table: `(job, container, event, now) -> job`.
Rule = Callable[..., Job]  # type: ignore[explicit-any]  # as in `transitions`


def change_container(job: Job, event: on.ContainerEvent, now: datetime) -> Job:
    """Apply an event to the container that it names. Raises IllegalTransition if the event cannot happen to it."""
    named = None
    for container in attempt_of(job).containers:
        if container.key == event.container_key:
            named = container
            rule = TRANSITIONS[container.state].get(type(event))
            if rule is not None:
                return rule(job, container, event, now)
    raise IllegalTransition(f"{type(event).__name__} cannot happen to {named} of {with_history(job)}")


#: Events that change neither the state nor the stop of a container: nothing follows from them.
RECORDED = frozenset({on.ContainerCreated, on.ContainerDiscarded})


def follow(before: Job, after: Job, now: datetime) -> Outcome:
    """The changed job with all that follows from the change, and the effects that all changes require."""
    if after.attempt is None:
        if before.attempt is None:
            return after, ()
        return after, _effects_of_change(after.id, before.attempt.containers, after.attempts[-1])
    if after is before:
        return after, ()
    known = (before.attempt or after.attempt).containers
    settled, has_ended = _settled(after, now)
    if settled.stop_orders:
        settled = stopping.record_progress(settled, known, now)
    effects = _effects_of_change(settled.id, known, attempt_of(settled))
    return _finish(settled, now) if has_ended else settled, effects


def _settled(job: Job, now: datetime) -> tuple[Job, bool]:
    """Apply the rules between containers until nothing changes. Also returns whether all containers have ended.

    Containers start last, because the other rules may end them first.
    """
    while True:
        states = [container.state for container in attempt_of(job).containers]
        ended = states.count(ENDED)
        if ended == len(states):
            return job, True
        after = with_nodes_stopped(decided(job), now) if ended or job.stop_orders else job
        if WAITING in states:
            hopeless, ready = gates(after)
            if hopeless:
                after = with_hopeless_ended(after, hopeless, now)
            elif ready and after is job:
                return with_started(job, ready, now), False
        if after is job:
            return job, False
        job = after


def _finish(job: Job, now: datetime) -> Job:
    """End the attempt, all of whose containers have ended. AWS: a multi-node job has the times of its main node.

    Without a deciding container and with no container started, the start was abandoned: the attempt does not count.
    """
    attempt, main = attempt_of(job), job.spec.nodes.main
    key = decider(job, attempt)
    if key is None and attempt.started_at is None:
        return abandon(job, now)
    latest = max([container.stopped_at or now for container in attempt.containers if container.node == main])
    stopped_at = max(latest, attempt.started_at or latest)
    for container in attempt.containers:
        if container.key == key:
            exit_code, reason, status_reason = _outcome_of(container)
            over = replace(attempt, stopped_at=stopped_at, decided_by=key, exit_code=exit_code, reason=reason)
            return finish(job, over, now, status_reason)
    return finish(job, replace(attempt, stopped_at=stopped_at), now, status_reasons.EXITED)


def _outcome_of(decider: AttemptContainer) -> tuple[int | None, str | None, str]:
    """The exit code, the reason and the status reason of an attempt that the container decided.

    Of a container that was lost the reason is the status reason.
    """
    if decider.lost:
        return None, None, decider.reason or status_reasons.DISAPPEARED
    if decider.started_at is None:
        return decider.exit_code, decider.reason, status_reasons.NOT_STARTED
    return decider.exit_code, decider.reason, status_reasons.of_exit(decider.exit_code, host_lost=decider.host_lost)


def _effects_of_change(job_id: JobId, before: tuple[AttemptContainer, ...], after: Attempt) -> tuple[do.Effect, ...]:
    """The effects that a change of an attempt requires. `before`: its containers before the change."""
    effects: list[do.Effect] = []
    has_ended = False
    for old, new in zip(before, after.containers, strict=True):
        has_ended = has_ended or new.state is ENDED
        if new is not old and (new.state is not old.state or new.stop_ordered):
            effect = _effect(Tag(job_id=job_id, attempt=after.number, container_key=new.key), old, new)
            if effect is not None:
                effects.append(effect)
    if has_ended and (keys := removable(after.containers)):
        gone = removable(before)
        tags = [Tag(job_id=job_id, attempt=after.number, container_key=key) for key in keys if key not in gone]
        effects += [do.CleanUpContainer(tag=tag) for tag in tags]
    return tuple(effects)


def _effect(tag: Tag, old: AttemptContainer, new: AttemptContainer) -> do.Effect | None:
    """The effect that a change of one container requires; None: no effect.

    A container that runs although it was ordered to stop while it was starting gets its signal.
    """
    if new.state is STARTING:
        if old.state is WAITING:
            return do.StartContainer(tag=tag)
        return do.AbandonStart(tag=tag) if new.stop_ordered and not old.stop_ordered else None
    if new.state is RUNNING and new.stop_ordered:
        return escalation.next_effect(tag, old if old.state is RUNNING and old.stop_ordered else None, new)
    if new.state is ENDED and old.state is STARTING and new.started_at is not None:
        # It exited before its start was confirmed: a repeated start would run it twice.
        return do.AbandonStart(tag=tag)
    return None


def removable(containers: tuple[AttemptContainer, ...]) -> tuple[str, ...]:
    """The keys of the ended containers that may be removed: none while any container of the attempt has yet to run.

    The volumes that containers share are removed with the attempt's last container, and a later container may read
    what an earlier one wrote.
    """
    for container in containers:
        if container.state in YET_TO_COME:
            return ()
    return ended_keys(containers)


def ended_keys(containers: tuple[AttemptContainer, ...]) -> tuple[str, ...]:
    """The keys of the containers that have ended, without those whose start was never requested."""
    return tuple(
        [
            container.key
            for container in containers
            if container.state is ENDED and container.start_requested_at is not None
        ]
    )


def _made(job: Job, container: AttemptContainer, event: on.ContainerCreated, _: datetime) -> Job:
    """Store the container's id before the container is started."""
    return with_container(job, status.created(container, event))


def _discard(job: Job, container: AttemptContainer, _: on.ContainerDiscarded, __: datetime) -> Job:
    """Clear the container's id before the container is removed."""
    return with_container(job, replace(container, container_id=None))


def _run(job: Job, container: AttemptContainer, event: on.ContainerStarted, now: datetime) -> Job:
    """The container runs. A stop that was ordered while it was starting begins now.

    The first container that runs makes the job RUNNING.
    """
    started = status.start_time(event.started_at, requested_at=container.start_requested_at, now=now)
    running = replace(container, state=RUNNING, started_at=started, address=event.address)
    if container.stop_ordered:
        running = escalation.begun(running, now)
    if job.status is Status.RUNNING:
        return with_container(job, running)
    attempt = attempt_of(job)
    attempt = replace(attempt, containers=containers_with(attempt, running), started_at=started)
    return move_to(job, Status.RUNNING, attempt=attempt, started_at=started, stopped_at=None)


def supersede(job: Job, _: on.AttemptSuperseded, now: datetime) -> Job:
    """End the attempt, and its containers as lost: a later attempt exists."""

    def lose(container: AttemptContainer) -> AttemptContainer:
        if container.state is ENDED:
            return container
        over = ended_container(container, max(now, container.started_at or now), status_reasons.DISAPPEARED)
        return replace(over, lost=True)

    lost = each(job, lose)
    attempt = attempt_of(lost)
    ended = replace(attempt, stopped_at=max(now, attempt.started_at or now))
    return finish(lost, ended, now, status_reasons.DISAPPEARED, is_superseded=True)


def _learn_address(job: Job, container: AttemptContainer, event: on.ContainerStarted, _: datetime) -> Job:
    """Store the address of a container that was first reported without one."""
    if event.address is None or container.address is not None:
        return job
    return with_container(job, replace(container, address=event.address))


def _not_started(job: Job, container: AttemptContainer, event: on.StartFailed, now: datetime) -> Job:
    """End the container: it could not start."""
    attempt = attempt_of(job)
    refused = replace(job, attempt=replace(attempt, forbidden=attempt.forbidden or event.forbidden))
    return with_container(
        refused, replace(ended_container(container, now, event.reason), exit_code=event.exit_code or None)
    )


def _abandoned(job: Job, container: AttemptContainer, _: on.StartAbandoned, now: datetime) -> Job:
    """End the container: it was ordered to stop before it was started."""
    assert container.stop_ordered, f"the start of {container} was abandoned without a stop order: {with_history(job)}"
    return with_container(job, ended_container(container, now, None))


def _exit_unseen_start(job: Job, container: AttemptContainer, event: on.ContainerExited, now: datetime) -> Job:
    """The first report of the container is its exit. It did run, so it passes through RUNNING."""
    started = on.ContainerStarted(attempt=event.attempt, container_key=event.container_key, started_at=event.started_at)
    running = _run(job, container, started, now)
    return _exit(running, container_with_key(running, container.key), event, now)


def _exit(job: Job, container: AttemptContainer, event: on.ContainerExited, now: datetime) -> Job:
    """End the container with its exit code."""
    return with_container(job, status.exited(container, event, now))


def _lose(job: Job, container: AttemptContainer, event: on.ContainerLost, now: datetime) -> Job:
    """End the container without an exit code: it is lost."""
    over = ended_container(container, max(now, container.started_at or now), event.reason)
    return with_container(job, replace(over, lost=True))


def _note_request(job: Job, container: AttemptContainer, event: on.CheckpointRequested, now: datetime) -> Job:
    """Store that a checkpoint signal is about to be sent, so that a restart does not send it a second time at once."""
    return with_container(job, escalation.requested(container, event.step, now))


def _count_wait(job: Job, container: AttemptContainer, event: on.StopSignalDelivered, now: datetime) -> Job:
    """Start the wait of the step at the first delivery of its signal, so that a slow engine does not shorten it."""
    return with_container(job, escalation.delivered(container, event.step, now))


def _next_step(job: Job, container: AttemptContainer, _: on.GraceExpired, now: datetime) -> Job:
    """Begin the next step: its signal is sent. After the last one SIGKILL is repeated until the container exits.

    A container that does not exit still holds its resources; after UNKILLABLE_AFTER the status reason shows that.
    """
    if container.next_step_at is None:
        return job
    missed = stopping.miss_checkpoint(job, escalation.under_way(container))
    after = escalation.expired(container, now)
    return stopping.mark_unkillable(with_container(missed, after), after, now)


def _start_timed_out(job: Job, container: AttemptContainer, _: on.StartTimedOut, now: datetime) -> Job:
    """AWS: the containers whose conditions `container` did not meet in its startTimeout give up, and the task stops."""
    unmet = {waiting.key: dependency.condition for waiting, dependency in waiting_for(job, container)}
    limit = task_container_of(job, container).start_timeout
    if not unmet or limit is None:
        return job

    def give_up_or_stop(other: AttemptContainer) -> AttemptContainer:
        if other.key in unmet:
            return ended_container(other, now, _too_late(container, unmet[other.key], limit))
        return order_container_stop(job, other, now) if other.node == container.node else other

    return _decided_by(each(job, give_up_or_stop), container.node, tuple(unmet))


def _too_late(container: AttemptContainer, condition: Condition, limit: timedelta) -> str:
    seconds = limit // timedelta(seconds=1)
    return f"DependencyTimeoutError: container {container.name} did not reach {condition} within {seconds} seconds"


def _decided_by(job: Job, node: int, given_up: tuple[str, ...]) -> Job:
    """Let a container that gave up decide the attempt, because the task stops for it; an essential one first.

    Only the main node's containers decide, and only the first decision counts.
    """
    attempt = attempt_of(job)
    if node != job.spec.nodes.main or attempt.decided_by is not None:
        return job
    essential = [text for text in given_up if task_container_of(job, container_with_key(job, text)).essential]
    return replace(job, attempt=replace(attempt, decided_by=(*essential, *given_up)[0]))


def _ignored(job: Job, _: AttemptContainer, __: on.ContainerEvent, ___: datetime) -> Job:
    """A late report."""
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

#: The table: one row for each state of a container, one cell for each event that is legal in it.
TRANSITIONS: Mapping[AttemptContainerState, Mapping[type[on.Event], Rule]] = {
    WAITING: {},
    STARTING: _STARTING,
    RUNNING: _RUNNING,
    ENDED: dict.fromkeys((*_STARTING, *_RUNNING), _ignored),
}
