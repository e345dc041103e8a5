"""Builders of jobs in each status, and of the events that lead there."""

from datetime import timedelta

from batchq.domain import events as on
from batchq.domain.lifecycle.deadlines import due_timers
from batchq.domain.lifecycle.transitions import step
from tests.support.builders import NOON, job


def at(seconds):
    """The time so many seconds after noon; jobs are created at noon."""
    return NOON + timedelta(seconds=seconds)


def due_event(job, now):
    """The event of the earliest deadline that has passed at `now`; None if none has."""
    return next(iter(due_timers(job, now)), None)


def apply_events(before, *events, now=NOON):
    """The job and all effects after these events."""
    effects = ()
    for event in events:
        before, more = step(before, event, now)
        effects += more
    return before, effects


def after(before, *events, now=NOON):
    return apply_events(before, *events, now=now)[0]


def outcome(of):
    """The fields by which a client distinguishes the ends of jobs."""
    return (of.status, of.status_reason, of.is_cancelled, of.is_terminated)


def submitted(**fields):
    return job(**fields)


def pending(**fields):
    return after(submitted(**fields), on.DependenciesPending())


def runnable(**fields):
    return after(submitted(**fields), on.DependenciesMet())


def starting(**fields):
    return after(runnable(**fields), placed())


def running(**fields):
    """RUNNING since noon."""
    return after(starting(**fields), started())


def succeeded(**fields):
    return after(running(**fields), exited(0))


def failed(**fields):
    return after(running(**fields), exited(1))


def placed():
    return on.Placed(environment="local")


def container_created(attempt=1, *, container_id="an-id"):
    return on.ContainerCreated(attempt=attempt, container_id=container_id)


def started(attempt=1, *, at=NOON):
    return on.ContainerStarted(attempt=attempt, started_at=at)


def exited(code, attempt=1, **changes):
    return on.ContainerExited(
        **{"attempt": attempt, "exit_code": code, "started_at": NOON, "stopped_at": NOON} | changes
    )


def start_failed(attempt=1, *, reason="no such file", exit_code=None):
    return on.StartFailed(attempt=attempt, reason=reason, exit_code=exit_code)


def container_lost(attempt=1):
    return on.ContainerLost(attempt=attempt)


def checkpoint_requested(attempt=1, *, step=0):
    return on.CheckpointRequested(attempt=attempt, step=step)


def signal_delivered(attempt=1, *, step=0):
    return on.StopSignalDelivered(attempt=attempt, step=step)


def checkpoint_seen(name="epoch-7", attempt=1):
    return on.CheckpointSeen(attempt=attempt, name=name)


def timed_out(attempt=1):
    return on.TimedOut(attempt=attempt)


def grace_expired(attempt=1):
    return on.GraceExpired(attempt=attempt)


def terminate(reason="enough", *, grace=None, **changes):
    return on.TerminateRequested(reason=reason, grace=grace, **changes)


def force(reason="at once", user=""):
    return on.StopForced(reason=reason, user=user)


def force_fail(reason="it does not end"):
    return on.ForceFailed(reason=reason)


def cancel(reason="not wanted"):
    return on.CancelRequested(reason=reason)
