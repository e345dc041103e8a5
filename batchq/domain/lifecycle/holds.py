"""Holds: a held job is passed over by placement until it is released. Pure. Decision 0045.

A queued job (SUBMITTED, PENDING, RUNNABLE) can be held. Its dependencies are still evaluated, it can be cancelled and
terminated, and it keeps its position in the queue. The first hold stands until the job is released.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Hold, Job
from batchq.domain.lifecycle.status import Outcome
from batchq.errors import Invalid

MAX_HOLDS = 100  # of one job: its history has an entry for each


def hold_queued(job: Job, event: on.HoldRequested | on.PauseRequested, now: datetime) -> Outcome:
    """Pass the job over in placement, and show why. A job that is held already keeps its first hold.

    Raises Invalid for the hold after MAX_HOLDS.
    """
    if job.spec.array_size is not None and job.child is None:
        refuse_array(job, event, now)
    return (job if job.held else _held(job, event, now)), ()


def _held(job: Job, event: on.HoldRequested | on.PauseRequested, now: datetime) -> Job:
    if job.times_held >= MAX_HOLDS:
        raise Invalid(f"Job {job.id} has been held or paused {MAX_HOLDS} times, which is the maximum.")
    paused = isinstance(event, on.PauseRequested)
    return replace(
        job,
        hold=Hold(reason=event.reason, user=event.user, held_at=now, paused=paused),
        times_held=job.times_held + 1,
        unschedulable=False,
        blocked_at=None,
        promised_start=None,
        status_reason=status_reasons.held(event.reason, paused=paused),
    )


def release(job: Job, _: on.ReleaseRequested | on.ResumeRequested, __: datetime) -> Outcome:
    """Let the job be placed again, at its old position."""
    return (replace(job, hold=None, status_reason=None) if job.held else job), ()


def unless_held(rule: Callable[..., Outcome]) -> Callable[..., Outcome]:  # type: ignore[explicit-any]  # as a `Rule`
    """The rule for a report of the placement pass about a job: it changes nothing in a held job."""

    def apply(job: Job, event: on.Event, now: datetime) -> Outcome:
        return (job, ()) if job.held else rule(job, event, now)

    return apply


def refuse_active(job: Job, _: on.HoldRequested, __: datetime) -> Outcome:
    """Raise Invalid: a hold does not stop an attempt."""
    raise Invalid(f"Job {job.id} is {job.status} and cannot be held: pause it.")


def refuse_pause(job: Job, _: on.PauseRequested, __: datetime) -> Outcome:
    """Raise Invalid: the attempt of an active job cannot be paused yet."""
    raise Invalid(f"Job {job.id} is {job.status}: only a queued job can be paused.")


def refuse_array(job: Job, _: on.Event, __: datetime) -> Job:
    """Raise Invalid: the children of an array are held one by one."""
    raise Invalid(f"Job {job.id} is an array: hold, release, pause or resume its children.")


def refuse_finished(job: Job, _: on.Event, __: datetime) -> Outcome:
    """Raise Invalid: the job has ended."""
    raise Invalid(f"Job {job.id} is {job.status} and can no longer be held, released, paused or resumed.")
