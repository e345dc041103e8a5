"""The job lifecycle: a table of the events that can happen to a job in each status. Pure.

`TRANSITIONS[status][event type]` is a rule: a function `(job, event, now) -> (job, effects)`. The engine calls `step`,
saves the changed job, and only then executes the effects. A missing cell is an illegal transition: `step` raises
IllegalTransition with the job's recent history. The rule `ignored` marks an event that is legal and changes nothing.
Rules change a status only through `lifecycle.status`, which allows only the edges of the AWS state diagram (`EDGES`).

The API has two requests that end a job:

- CancelJob prevents new attempts. A queued job (SUBMITTED, PENDING, RUNNABLE) becomes FAILED at once. A STARTING or
  RUNNING job keeps its attempt: the order is stored in `Job.cancel`, and if the attempt fails it is not retried.
- TerminateJob also ends the attempt. A queued job becomes FAILED at once. On a STARTING or RUNNING job it sets the stop
  order `Job.stop`, which is a field beside the status: the container receives the signals of a ladder (`ladder`), which
  may begin with the job's checkpoint signal, and SIGKILL after the last of them. When the container has exited the job
  is FAILED, whatever the exit code, and not retried.
- TerminateJob with force (`StopForced`) sends SIGKILL at once, also to a job that is stopping.

The first stop order stands: a later CancelJob, TerminateJob or timeout changes nothing, and force can only shorten it.
A TerminateJob after a CancelJob still stops the container. The orders that had an effect are kept in `Job.stop_orders`.
AWS ends a PENDING job only when its dependencies have ended; batchq ends it at once.

Two kinds of jobs have tables of their own: an array whose children exist (`lifecycle.arrays`), and an attempt with
several containers (`lifecycle.containers`). `step` selects the table.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle import arrays, containers, escalation, forced_failure, holds, stopping
from batchq.domain.lifecycle.status import (
    Outcome,
    abandon,
    attempt_of,
    created,
    exited,
    finish,
    move_to,
    move_to_final,
    start_time,
    to_runnable,
    with_history,
)
from batchq.domain.stop_values import StopOrder
from batchq.errors import IllegalTransition

#: A cell of the table: `(job, event, now) -> (job, effects)`.
Rule = Callable[..., Outcome]  # type: ignore[explicit-any]  # each takes the event of its own cell


def step(job: Job, event: on.Event, now: datetime) -> Outcome:
    """Apply an event: return the changed job and the effects to execute once it is saved.

    An event about an attempt that is not under way returns the same job and no effects, because late reports about
    ended attempts are normal. The final checkpoint of the last attempt is stored even then. Raises IllegalTransition if
    the event cannot happen to a job in this status.
    """
    if job.array_state is not None and job.status is Status.PENDING:
        return arrays.step_array(job, event, now)
    if on.is_attempt_event(event) and (job.attempt is None or job.attempt.number != event.attempt):
        return (stopping.see_late_checkpoint(job, event, now) if isinstance(event, on.CheckpointSeen) else job), ()
    if containers.rules(job, event):
        return containers.step_containers(job, event, now)
    rule = TRANSITIONS[job.status].get(type(event))
    if rule is None:
        raise IllegalTransition(f"{type(event).__name__} cannot happen to {with_history(job)}")
    return rule(job, event, now)


def _wait(job: Job, _: on.DependenciesPending, __: datetime) -> Outcome:
    """Wait for the dependencies."""
    return move_to(job, Status.PENDING), ()


def _ready(job: Job, _: on.DependenciesMet, now: datetime) -> Outcome:
    """Wait to be placed. An array stays PENDING instead, and spawns its children."""
    return arrays.begin_array(job, now) if arrays.is_parent(job) else to_runnable(job, now), ()


def _fail_waiting(job: Job, event: on.DependencyFailed | on.FoundInvalid, now: datetime) -> Outcome:
    """Fail a job before its first attempt."""
    return move_to_final(job, Status.FAILED, now, event.reason), ()


def _mark_unschedulable(job: Job, event: on.FoundUnschedulable, now: datetime) -> Outcome:
    """Exclude an unschedulable job from placement until an environment could hold it."""
    return replace(_blocked(job, event.reason, now), unschedulable=True, promised_start=None), ()


def _block(job: Job, event: on.FoundBlocked, now: datetime) -> Outcome:
    """Show why the head of a queue waits. Its promised start may become earlier, never later."""
    blocked = _blocked(job, event.reason, now)
    promises = [moment for moment in (job.promised_start, event.promise) if moment is not None]
    return replace(blocked, promised_start=min(promises)) if promises else blocked, ()


def _blocked(job: Job, reason: str, now: datetime) -> Job:
    """Set the status reason. `blocked_at` changes only with the reason's code, not with the rest of its text."""
    if job.blocked_at is not None and job.status_reason == reason:
        return job
    same = job.status_reason is not None and status_reasons.code(job.status_reason) == status_reasons.code(reason)
    return replace(job, status_reason=reason, blocked_at=(job.blocked_at if same else None) or now)


def _mark_schedulable(job: Job, _: on.FoundSchedulable, __: datetime) -> Outcome:
    """Let a job that was unschedulable be placed again."""
    return replace(job, unschedulable=False, status_reason=None, blocked_at=None, promised_start=None), ()


def _give_up(job: Job, event: on.BlockedTooLong, now: datetime) -> Outcome:
    """AWS: the action of a jobStateTimeLimitAction is CANCEL, so the job is shown as cancelled."""
    reason = status_reasons.BLOCKED_TOO_LONG.format(reason=event.reason)
    cancelled = stopping.with_cancel(job, on.CancelRequested(reason=reason), now)
    return move_to_final(cancelled, Status.FAILED, now, reason), ()


def _place(job: Job, event: on.Placed, now: datetime) -> Outcome:
    """Begin an attempt on the environment. Raises IllegalTransition for a held job."""
    if job.held:
        raise IllegalTransition(f"Placed cannot happen to the held {with_history(job)}")
    attempt = Attempt(number=len(job.attempts) + 1, environment=event.environment, placed_at=now)
    placed = replace(
        move_to(job, Status.STARTING), attempt=attempt, status_reason=None, blocked_at=None, promised_start=None
    )
    if job.spec.task is not None or job.spec.nodes is not None:
        return containers.begin_containers(placed, now)
    return placed, (do.StartContainer(tag=placed.tag),)


def _cancel_queued(job: Job, event: on.CancelRequested, now: datetime) -> Outcome:
    """No container runs, so the job ends at once."""
    return move_to_final(stopping.with_cancel(job, event, now), Status.FAILED, now, event.reason), ()


def _terminate_queued(job: Job, event: on.TerminateRequested, now: datetime) -> Outcome:
    """No container runs, so the job ends at once, also without force. The order shows that the job was terminated."""
    return move_to_final(stopping.order_stop(job, event, now), Status.FAILED, now, event.reason), ()


def _made(job: Job, event: on.ContainerCreated, _: datetime) -> Outcome:
    """Store the container's id before the container is started."""
    return replace(job, attempt=created(attempt_of(job), event)), ()


def _discard(job: Job, _: on.ContainerDiscarded, __: datetime) -> Outcome:
    """Clear the container's id before the container is removed."""
    return replace(job, attempt=replace(attempt_of(job), container_id=None)), ()


def _run(job: Job, event: on.ContainerStarted, now: datetime) -> Outcome:
    """The container runs. A stop that was ordered while it was starting begins now; a forced stop with SIGKILL."""
    attempt = attempt_of(job)
    started = start_time(event.started_at, requested_at=attempt.placed_at, now=now)
    attempt = replace(attempt, started_at=started)
    running = replace(move_to(job, Status.RUNNING), attempt=attempt, started_at=started, stopped_at=None)
    return _stop_from(running, None, stopping.with_changed_order(running, lambda order: escalation.begun(order, now)))


def _not_started(job: Job, event: on.StartFailed, now: datetime) -> Outcome:
    """End the attempt: its container could not start. The job may be retried."""
    attempt = replace(attempt_of(job), forbidden=event.forbidden)
    ended = replace(attempt, stopped_at=now, exit_code=event.exit_code or None, reason=event.reason)
    return finish(job, ended, now, status_reasons.NOT_STARTED), (do.CleanUpContainer(tag=job.tag),)


def _abandoned(job: Job, _: on.StartAbandoned, now: datetime) -> Outcome:
    """End the job: it was terminated before its container was started."""
    return abandon(job, now), (do.CleanUpContainer(tag=job.tag),)


def _exit_unseen_start(job: Job, event: on.ContainerExited, now: datetime) -> Outcome:
    """The first report of the container is its exit. It did run, so the job passes through RUNNING."""
    running, _ = _run(job, on.ContainerStarted(attempt=event.attempt, started_at=event.started_at), now)
    return _exit(running, event, now)


def _exit(job: Job, event: on.ContainerExited, now: datetime) -> Outcome:
    """End the attempt with the container's exit code. `finish` decides whether the job is retried."""
    attempt = attempt_of(job)
    ended = exited(attempt, event, requested_at=attempt.placed_at, now=now)
    reason = status_reasons.of_exit(event.exit_code, host_lost=event.host_lost)
    return finish(job, ended, now, reason), (do.CleanUpContainer(tag=job.tag),)


def _lose(job: Job, event: on.ContainerLost, now: datetime) -> Outcome:
    """End the attempt without an exit code: its container is lost. The job may be retried."""
    attempt = attempt_of(job)
    ended = replace(attempt, stopped_at=max(now, attempt.started_at or now))
    return finish(job, ended, now, event.reason), (do.CleanUpContainer(tag=job.tag),)


def _remember_cancel(job: Job, event: on.CancelRequested, now: datetime) -> Outcome:
    """Store the CancelJob: it prevents a retry, and the attempt continues. No change for a job that is stopping.

    AWS: CancelJob succeeds on such a job and has no effect. batchq: the job has no further attempt.
    """
    cannot_retry = job.cancel is not None or (job.stop is not None and not job.is_pausing)
    return (job if cannot_retry else stopping.with_cancel(job, event, now)), ()


def _terminate_active(job: Job, event: on.TerminateRequested, now: datetime) -> Outcome:
    """A STARTING job abandons its start. If the container was started already, `_run` sends the stop signal."""
    if job.stop is not None and not job.is_pausing:
        return job, ()
    return _stop_from(job, job.stop, stopping.order_stop(job, event, now))


def _pause_active(job: Job, event: on.PauseRequested, now: datetime) -> Outcome:
    """Stop the attempt, and hold the job after it."""
    return _stop_from(job, job.stop, holds.pause_active(job, event, now))


def _force_active(job: Job, event: on.StopForced, now: datetime) -> Outcome:
    """Kill the container, also if it is stopping already. A start is abandoned, or killed once it runs."""
    forced = stopping.force(job, event, now)
    if forced is job or job.status is Status.STARTING:
        return _stop_from(job, job.stop, forced)
    return _stop_from(job, job.stop, stopping.with_changed_order(forced, lambda order: escalation.killed(order, now)))


def _stop_from(job: Job, before: StopOrder | None, after: Job) -> Outcome:
    """The changed job, and the effect that the change of its stop order requires."""
    if after.stop is None or after.stop is before:
        return after, ()
    if after.status is Status.STARTING:
        return after, (do.AbandonStart(tag=job.tag),)
    effect = escalation.next_effect(job.tag, before, after.stop)
    return after, () if effect is None else (effect,)


def _time_out(job: Job, _: on.TimedOut, now: datetime) -> Outcome:
    """Order the job to stop because its timeout has passed."""
    return (job, ()) if job.stop is not None else _stop_from(job, None, stopping.time_out(job, now))


def _note_request(job: Job, event: on.CheckpointRequested, now: datetime) -> Outcome:
    """Store that a checkpoint signal is about to be sent, so that a restart does not send it a second time at once."""
    return stopping.with_changed_order(job, lambda order: escalation.requested(order, event.step, now)), ()


def _count_wait(job: Job, event: on.StopSignalDelivered, now: datetime) -> Outcome:
    """Start the wait of the step at the first delivery of its signal, so that a slow engine does not shorten it."""
    return stopping.with_changed_order(job, lambda order: escalation.delivered(order, event.step, now)), ()


def _see_checkpoint(job: Job, event: on.CheckpointSeen, now: datetime) -> Outcome:
    """Store the final checkpoint, and end the step that waits for it."""
    seen = stopping.see_checkpoint(job, event, now)
    ended = stopping.with_changed_order(
        seen, lambda order: escalation.advanced(order, now) if escalation.awaits_checkpoint(order) else order
    )
    return (job, ()) if seen is job else _stop_from(job, job.stop, ended)


def _next_step(job: Job, _: on.GraceExpired, now: datetime) -> Outcome:
    """Begin the next step: its signal is sent. After the last one SIGKILL is repeated until the container exits.

    A container that does not exit still holds its resources; after UNKILLABLE_AFTER the status reason shows that.
    """
    if job.stop is None or job.stop.next_step_at is None:
        return job, ()
    missed = stopping.miss_checkpoint(job, escalation.under_way(job.stop))
    after = stopping.with_changed_order(missed, lambda order: escalation.expired(order, now))
    return _stop_from(job, job.stop, stopping.mark_unkillable(after, after.stop, now))


def ignored(job: Job, _: on.Event, __: datetime) -> Outcome:
    """The event is legal and changes nothing."""
    return job, ()


late = ignored  # the event arrived after the job ended


#: The requests, in the row of every status without an attempt under way.
_QUEUED: Mapping[type[on.Event], Rule] = {
    on.CancelRequested: _cancel_queued,
    on.TerminateRequested: _terminate_queued,
    on.StopForced: _terminate_queued,
    on.HoldRequested: holds.hold_queued,
    on.ReleaseRequested: holds.release_queued,
    on.PauseRequested: holds.hold_queued,
    on.ResumeRequested: holds.release_queued,
    on.ForceFailed: forced_failure.refuse_force_fail,
}

#: The requests, in the row of every status with an attempt under way.
_ACTIVE: Mapping[type[on.Event], Rule] = {
    on.CancelRequested: _remember_cancel,
    on.TerminateRequested: _terminate_active,
    on.StopForced: _force_active,
    on.HoldRequested: holds.hold_active,
    on.ReleaseRequested: holds.release_queued,
    on.PauseRequested: _pause_active,
    on.ResumeRequested: holds.release_queued,
    on.ForceFailed: forced_failure.fail_by_force,
}

#: The row of both final statuses. Reports about attempts need no cells: a finished job has no attempt under way, so
#: `step` drops them.
_OVER: Mapping[type[on.Event], Rule] = {
    on.DependenciesPending: late,
    on.DependenciesMet: late,
    on.DependencyFailed: late,
    on.FoundInvalid: late,
    on.FoundUnschedulable: late,
    on.FoundSchedulable: late,
    on.FoundBlocked: late,
    on.BlockedTooLong: late,
    on.CancelRequested: late,
    on.TerminateRequested: late,
    on.StopForced: late,
    on.HoldRequested: holds.refuse_finished,
    on.ReleaseRequested: holds.refuse_finished,
    on.PauseRequested: holds.refuse_finished,
    on.ResumeRequested: holds.refuse_finished,
    on.ForceFailed: late,
}

#: The table: one row for each status, one cell for each event that is legal in it.
TRANSITIONS: Mapping[Status, Mapping[type[on.Event], Rule]] = {
    Status.SUBMITTED: {
        on.DependenciesPending: _wait,
        on.DependenciesMet: _ready,
        on.DependencyFailed: _fail_waiting,
        on.FoundInvalid: _fail_waiting,
        **_QUEUED,
    },
    Status.PENDING: {
        on.DependenciesPending: ignored,
        on.DependenciesMet: _ready,
        on.DependencyFailed: _fail_waiting,
        on.FoundInvalid: _fail_waiting,
        **_QUEUED,
    },
    Status.RUNNABLE: {
        on.FoundUnschedulable: holds.unless_held(_mark_unschedulable),
        on.FoundSchedulable: holds.unless_held(_mark_schedulable),
        on.FoundBlocked: holds.unless_held(_block),
        on.BlockedTooLong: holds.unless_held(_give_up),
        on.Placed: _place,
        **_QUEUED,
    },
    Status.STARTING: {
        on.ContainerCreated: _made,
        on.ContainerDiscarded: _discard,
        on.ContainerStarted: _run,
        on.StartFailed: _not_started,
        on.StartAbandoned: _abandoned,
        on.ContainerExited: _exit_unseen_start,
        on.ContainerLost: _lose,
        on.CheckpointSeen: ignored,
        **_ACTIVE,
    },
    Status.RUNNING: {
        on.ContainerStarted: ignored,
        on.ContainerExited: _exit,
        on.ContainerLost: _lose,
        on.CheckpointRequested: _note_request,
        on.StopSignalDelivered: _count_wait,
        on.CheckpointSeen: _see_checkpoint,
        on.TimedOut: _time_out,
        on.GraceExpired: _next_step,
        **_ACTIVE,
    },
    Status.SUCCEEDED: _OVER,
    Status.FAILED: _OVER,
}
