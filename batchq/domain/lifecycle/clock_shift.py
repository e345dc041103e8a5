"""Correction of stored times at a start that finds the machine's clock set since the last one. Pure. Decision 0035."""

from datetime import datetime, timedelta
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.job import ArrayState, Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.ladder import Stopped, longest_wait
from batchq.domain.lifecycle.stop_order import with_changed_order
from batchq.domain.stop_orders import Hold, StopLadder, StopOrder

_Timed = TypeVar("_Timed", Hold, ArrayState, Attempt, AttemptContainer, StopOrder)


class ClockShift(Struct, frozen=True, kw_only=True):
    """A change of the machine's clock: it moves the times that servers of this boot of the machine have stored."""

    #: The correction to add; negative if the clock was set back.
    by: timedelta
    #: The earliest time that a server of this boot can have stored, by the old clock.
    since: datetime
    #: The latest such time, by the old clock.
    until: datetime

    def of(self, at: datetime) -> datetime:
        """Correct a time that was in the past when it was stored. A time outside `since` to `until` does not change."""
        return at + self.by if self.since <= at <= self.until else at

    def of_deadline(self, at: datetime, within: timedelta) -> datetime:
        """Correct a time that was at most `within` in the future when it was stored."""
        return at + self.by if self.since <= at <= self.until + within else at


def shifted(job: Job, shift: ClockShift) -> Job:
    """Correct the times of an unfinished job. Those of ended attempts, and the history, stay as they were recorded."""
    moved = replace(
        job,
        created_at=shift.of(job.created_at),
        blocked_at=_of(job.blocked_at, shift),
        runnable_at=_of(job.runnable_at, shift),
        promised_start=_promise(job, shift),
        hold=None if job.hold is None else _past(job.hold, shift),
        stop_orders=tuple(_stopped(it, shift) for it in job.stop_orders),
        array_state=None if job.array_state is None else _past(job.array_state, shift),
    )
    if job.attempt is None:
        return moved
    attempt = replace(
        _past(job.attempt, shift), containers=tuple(_container(it, shift) for it in job.attempt.containers)
    )
    return replace(moved, started_at=_of(job.started_at, shift), attempt=attempt)


def bounded_deadlines(job: Job, now: datetime) -> Job:
    """Bring each deadline of a stop of an active job that is further ahead than its longest step forward to that.

    A later deadline was computed by a clock that was ahead of the present one.
    """
    job = with_changed_order(job, lambda it: _brought_forward(it, now))
    attempt = job.attempt
    if attempt is None or not any(_is_late(it, now) for it in attempt.containers):
        return job
    containers = tuple(_brought_forward(it, now) for it in attempt.containers)
    return replace(job, attempt=replace(attempt, containers=containers))


def _brought_forward(stop: Stopped, now: datetime) -> Stopped:
    return replace(stop, next_step_at=now + longest_wait(stop)) if _is_late(stop, now) else stop


def _is_late(stop: StopLadder, now: datetime) -> bool:
    return stop.next_step_at is not None and stop.next_step_at > now + longest_wait(stop)


def _past(value: _Timed, shift: ClockShift) -> _Timed:
    """Correct all times of a value, which were in the past when they were stored."""
    times = {name: at for name in value.__struct_fields__ if isinstance(at := getattr(value, name), datetime)}
    return replace(value, **{name: shift.of(at) for name, at in times.items()})


def _stopped(stop: StopOrder, shift: ClockShift) -> StopOrder:
    return replace(_past(stop, shift), next_step_at=_deadline(stop, shift))


def _container(container: AttemptContainer, shift: ClockShift) -> AttemptContainer:
    alone = container.terminated_by
    return replace(
        _past(container, shift),
        terminated_by=None if alone is None else _stopped(alone, shift),
        next_step_at=_deadline(container, shift),
    )


def _promise(job: Job, shift: ClockShift) -> datetime | None:
    """Correct the promised start if `blocked_at` is corrected: the same clock stored both.

    It may lie any time in the future, so its own value does not show which clock stored it.
    """
    if job.promised_start is None or job.blocked_at is None or shift.of(job.blocked_at) == job.blocked_at:
        return job.promised_start
    return job.promised_start + shift.by


def _of(at: datetime | None, shift: ClockShift) -> datetime | None:
    return None if at is None else shift.of(at)


def _deadline(stop: StopLadder, shift: ClockShift) -> datetime | None:
    return None if stop.next_step_at is None else shift.of_deadline(stop.next_step_at, longest_wait(stop))
