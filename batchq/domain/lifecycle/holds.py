"""Holds: placement skips a held job until it is released. Pure. Decision 0045.

A queued job (SUBMITTED, PENDING, RUNNABLE) can be held. Its dependencies are still evaluated, it can be cancelled and
terminated, and it keeps its position in the queue. The first hold stands until the job is released.

A pause of a queued job holds it. A pause of an active job is a stop order for its attempt: `Job.hold` is set at once,
and the job is held when the attempt has ended. If it is resumed before that, it goes back to its queue instead.

The hold of an array, and its release, are applied to the children in batches, as its stop orders are: no child starts
before they have been applied to it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.job import Job
from batchq.domain.lifecycle import stopping
from batchq.domain.lifecycle.status import with_hold_shown
from batchq.domain.stop_values import Hold
from batchq.errors import Invalid

#: How many times a job can be held or paused: its history has an entry for each.
MAX_HOLDS = 100


def hold_queued(job: Job, event: on.HoldRequested | on.PauseRequested, now: datetime) -> Job:
    """Exclude the job from placement, and show why. A job that is held already keeps its first hold.

    Raises Invalid for the hold after MAX_HOLDS.
    """
    return job if job.held else with_hold_shown(_held(job, event, now))


def hold_active(job: Job, event: on.HoldRequested, now: datetime) -> Job:
    """Hold the child of a held array once its attempt has ended. Raises Invalid for a request to hold the job alone."""
    if not event.of_array:
        raise Invalid(f"Job {job.id} is {job.status} and cannot be held: pause it.")
    return job if job.hold is not None or _is_ending(job) else _held(job, event, now)


def pause_active(job: Job, event: on.PauseRequested, now: datetime) -> Job:
    """Order the attempt of an active job to stop, and hold the job once it has ended.

    A pause of a job that is pausing and was resumed holds it again. Raises Invalid for a job that is ending, unless its
    array passes its own pause on to it.
    """
    if _is_ending(job):
        if event.of_array:
            return job
        raise Invalid(f"Job {job.id} is being stopped or was cancelled: it cannot be paused.")
    held = job if job.hold is not None and job.hold.paused else _held(job, event, now)
    return held if held.is_pausing else stopping.order_pause(held, event, now)


def release_queued(job: Job, _: on.ReleaseRequested | on.ResumeRequested, __: datetime) -> Job:
    """Let the job be placed again, at its old position. An active job is not held once its attempt has ended."""
    return _released(job)


def hold_array(job: Job, event: on.HoldRequested | on.PauseRequested, now: datetime) -> Job:
    """Hold an array and, in batches, its children. A pause of a held array stops its active children too.

    Raises Invalid for an array that is being stopped, and for the hold after MAX_HOLDS.
    """
    state = job.array_state
    if job.stop_orders or (state is not None and state.failed_index is not None):
        raise Invalid(f"Job {job.id} is an array whose children are being stopped: it cannot be held or paused.")
    if job.hold is not None and (job.hold.paused or isinstance(event, on.HoldRequested)):
        return job
    return _passed_on(with_hold_shown(_held(job, event, now)))


def release_array(job: Job, _: on.ReleaseRequested | on.ResumeRequested, __: datetime) -> Job:
    """Release an array and, in batches, all its children, also those that were held for themselves.

    Children of an array that is being stopped are not held.
    """
    return job if job.stop_orders else _passed_on(_released(job))


def order_of(job: Job) -> on.HoldRequested | on.ReleaseRequested | on.PauseRequested:
    """The event that an array applies to its children: its hold or pause or, without one, the release."""
    hold = job.hold
    if hold is None:
        return on.ReleaseRequested()
    if hold.paused:
        return on.PauseRequested(reason=hold.reason, user=hold.user, of_array=True)
    return on.HoldRequested(reason=hold.reason, user=hold.user, of_array=True)


def _is_ending(job: Job) -> bool:
    """Whether an order ends the active job with its attempt: it will never be queued again."""
    return job.cancel is not None or (job.stop is not None and not job.is_pausing)


def _held(job: Job, event: on.HoldRequested | on.PauseRequested, now: datetime) -> Job:
    if job.times_held >= MAX_HOLDS and not event.of_array:
        raise Invalid(f"Job {job.id} has been held or paused {MAX_HOLDS} times, which is the maximum.")
    paused = isinstance(event, on.PauseRequested)
    hold = Hold(reason=event.reason, user=event.user, held_at=now, paused=paused)
    return replace(job, hold=hold, times_held=job.times_held + 1)


def _released(job: Job) -> Job:
    if job.hold is None:
        return job
    return replace(job, hold=None, status_reason=None if job.held else job.status_reason)


def _passed_on(job: Job) -> Job:
    """Begin to apply the array's hold, or its release, from the first child on."""
    assert job.array_state is not None, f"{job.id} has no children"
    return replace(job, array_state=replace(job.array_state, order_applied_to=0, passes_hold=True))


def unless_held(rule: Callable[..., Job]) -> Callable[..., Job]:  # type: ignore[explicit-any]  # as a `Rule`
    """The rule for a report of the placement pass about a job: it changes nothing in a held job."""

    def apply(job: Job, event: on.Event, now: datetime) -> Job:
        return job if job.held else rule(job, event, now)

    return apply


def refuse_finished(job: Job, _: on.Event, __: datetime) -> NoReturn:
    """Raise Invalid: the job has ended."""
    raise Invalid(f"Job {job.id} is {job.status} and can no longer be held, released, paused or resumed.")
