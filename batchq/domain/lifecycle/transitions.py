"""The lifecycle of a job: a table of the events that can happen to a job in each status. Pure.

`TRANSITIONS[status][event type]` is a rule: a function `(job, event, now) -> job`. Reports about a container are in
the table of `lifecycle.containers` instead, which says what happens to the container; `containers.follow` derives what
that means for the attempt and for the job. An array whose children exist has a table of its own (`lifecycle.arrays`).

The engine's loop calls `step`, saves the changed job, and only then executes the effects. A missing cell is an
illegal transition: `step` raises IllegalTransition with the job's recent history. The rule `ignored` marks an event
that is legal and changes nothing. Rules change a status only through `lifecycle.status`, which allows only the edges of
the AWS state diagram (`EDGES`).

The API has two requests that end a job:

- CancelJob prevents new attempts. A queued job (SUBMITTED, PENDING, RUNNABLE) becomes FAILED at once. A STARTING or
  RUNNING job keeps its attempt: the order is stored in `Job.cancel`, and if the attempt fails it is not retried.
- TerminateJob also ends the attempt. A queued job becomes FAILED at once. On a STARTING or RUNNING job it sets the stop
  order `Job.stop`, which is a field beside the status: each container receives the signals of its stop steps
  (`escalation`), which may begin with the job's checkpoint signal, and SIGKILL after the last of them. When the
  containers have exited the job is FAILED, whatever the exit code, and not retried.
- TerminateJob with force (`StopForced`) sends SIGKILL at once, also to a job that is stopping.

The first stop order stands: a later CancelJob, TerminateJob or timeout changes nothing, and force can only shorten it.
A TerminateJob after a CancelJob still stops the containers. The orders that had an effect are kept in
`Job.stop_orders`. AWS ends a PENDING job only when its dependencies have ended; batchq ends it at once.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import node_of_key
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import arrays, container_stops, containers, forced_failure, holds, stopping
from batchq.domain.lifecycle.status import Outcome, move_to, move_to_final, to_runnable, with_history
from batchq.errors import IllegalTransition

#: A cell of the table: `(job, event, now) -> job`.
Rule = Callable[..., Job]  # type: ignore[explicit-any]  # each takes the event of its own cell


def step(job: Job, event: on.Event, now: datetime) -> Outcome:
    """Apply an event: return the changed job and the effects to execute once it is saved.

    An event about an attempt that is not under way returns the same job and no effects, because late reports about
    ended attempts are normal. The final checkpoint of the last attempt is stored even then. Raises IllegalTransition if
    the event cannot happen to a job in this status.
    """
    if job.array_state is not None and job.status is Status.PENDING:
        return arrays.step_array(job, event, now)
    if isinstance(event, on.AttemptEvent):
        if job.attempt is None or job.attempt.number != event.attempt:
            return (stopping.see_late_checkpoint(job, event, now) if isinstance(event, on.CheckpointSeen) else job), ()
        if isinstance(event, on.ContainerEvent):
            changed = containers.change_container(job, event, now)
            return (changed, ()) if type(event) in containers.RECORDED else containers.follow(job, changed, now)
    rule = TRANSITIONS[job.status].get(type(event))
    if rule is None:
        raise IllegalTransition(f"{type(event).__name__} cannot happen to {with_history(job)}")
    return containers.follow(job, rule(job, event, now), now)


def _wait(job: Job, _: on.DependenciesPending, __: datetime) -> Job:
    """Wait for the dependencies."""
    return move_to(job, Status.PENDING)


def _ready(job: Job, _: on.DependenciesMet, now: datetime) -> Job:
    """Wait to be placed. An array stays PENDING instead, and spawns its children."""
    return arrays.begin_array(job, now) if arrays.is_parent(job) else to_runnable(job, now)


def _fail_waiting(job: Job, event: on.DependencyFailed | on.FoundInvalid, now: datetime) -> Job:
    """Fail a job before its first attempt."""
    return move_to_final(job, Status.FAILED, now, event.reason)


def _mark_unschedulable(job: Job, event: on.FoundUnschedulable, now: datetime) -> Job:
    """Exclude an unschedulable job from placement until an environment could hold it."""
    return replace(_blocked(job, event.reason, now), unschedulable=True, promised_start=None)


def _block(job: Job, event: on.FoundBlocked, now: datetime) -> Job:
    """Show why the head of a queue waits. Its promised start may become earlier, never later."""
    blocked = _blocked(job, event.reason, now)
    promises = [moment for moment in (job.promised_start, event.promise) if moment is not None]
    return replace(blocked, promised_start=min(promises)) if promises else blocked


def _blocked(job: Job, reason: str, now: datetime) -> Job:
    """Set the status reason. `blocked_at` changes only with the reason's code, not with the rest of its text."""
    if job.blocked_at is not None and job.status_reason == reason:
        return job
    same = job.status_reason is not None and status_reasons.code(job.status_reason) == status_reasons.code(reason)
    return replace(job, status_reason=reason, blocked_at=(job.blocked_at if same else None) or now)


def _mark_schedulable(job: Job, _: on.FoundSchedulable, __: datetime) -> Job:
    """Let a job that was unschedulable be placed again."""
    return replace(job, unschedulable=False, status_reason=None, blocked_at=None, promised_start=None)


def _give_up(job: Job, event: on.BlockedTooLong, now: datetime) -> Job:
    """Fail the job, which is shown as cancelled: the action of AWS's jobStateTimeLimitAction is CANCEL."""
    reason = status_reasons.BLOCKED_TOO_LONG.format(reason=event.reason)
    cancelled = stopping.with_cancel(job, on.CancelRequested(reason=reason), now)
    return move_to_final(cancelled, Status.FAILED, now, reason)


def _place(job: Job, event: on.Placed, now: datetime) -> Job:
    """Begin an attempt on the environment: those of its containers start that wait for no other.

    Raises IllegalTransition for a held job.
    """
    if job.hold is not None:
        raise IllegalTransition(f"Placed cannot happen to the held {with_history(job)}")
    machines = event.machines
    containers = [
        AttemptContainer(key=key, machine=machines[node_of_key(key)] if machines else None)
        for key in job.spec.nodes.containers
    ]
    attempt = Attempt(
        number=len(job.attempts) + 1,
        environment=event.environment,
        placed_at=now,
        containers=tuple(containers),
    )
    return move_to(job, Status.STARTING, attempt=attempt, status_reason=None, blocked_at=None, promised_start=None)


def _cancel_queued(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    """No container runs, so the job ends at once."""
    return move_to_final(stopping.with_cancel(job, event, now), Status.FAILED, now, event.reason)


def _terminate_queued(job: Job, event: on.TerminateRequested, now: datetime) -> Job:
    """No container runs, so the job ends at once, also without force. The order shows that the job was terminated."""
    return move_to_final(stopping.order_stop(job, event, now), Status.FAILED, now, event.reason)


def _remember_cancel(job: Job, event: on.CancelRequested, now: datetime) -> Job:
    """Store the CancelJob: it prevents a retry, and the attempt continues. No change for a job that is stopping.

    AWS: CancelJob succeeds on such a job and has no effect. batchq: the job has no further attempt.
    """
    cannot_retry = job.cancel is not None or (job.stop is not None and not job.is_pausing)
    return job if cannot_retry else stopping.with_cancel(job, event, now)


def ignored(job: Job, _: on.Event, __: datetime) -> Job:
    """The event is legal and changes nothing."""
    return job


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
    on.TerminateRequested: container_stops.stop_by_terminate,
    on.StopForced: container_stops.stop_by_force,
    on.HoldRequested: holds.hold_active,
    on.ReleaseRequested: holds.release_queued,
    on.PauseRequested: container_stops.stop_by_pause,
    on.ResumeRequested: holds.release_queued,
    on.ForceFailed: forced_failure.fail_by_force,
    on.CheckpointSeen: container_stops.end_checkpoint_wait,
    on.AttemptSuperseded: containers.supersede,
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
    Status.STARTING: _ACTIVE,
    Status.RUNNING: {
        on.TimedOut: container_stops.stop_by_timeout,
        **_ACTIVE,
    },
    Status.SUCCEEDED: _OVER,
    Status.FAILED: _OVER,
}
