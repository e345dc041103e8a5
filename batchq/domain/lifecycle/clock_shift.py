"""Correction of stored times at a start that finds the machine's clock set since the last one. Pure. Decision 0035."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.job import ArrayState, Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.ladder import Stopped, longest_wait
from batchq.domain.lifecycle.stop_order import changed
from batchq.domain.stop_orders import StopOrder


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
        hold=None if job.hold is None else replace(job.hold, held_at=shift.of(job.hold.held_at)),
        stop_orders=tuple(_order(it, shift) for it in job.stop_orders),
        array_state=None if job.array_state is None else _array_state(job.array_state, shift),
    )
    if job.attempt is None:
        return moved
    return replace(moved, started_at=_of(job.started_at, shift), attempt=_attempt(job.attempt, shift))


def bounded(job: Job, now: datetime) -> Job:
    """Bring each deadline of a stop of an active job that is further ahead than its longest step forward to that.

    A later deadline was computed by a clock that was ahead of the present one.
    """
    job = changed(job, lambda it: _brought_forward(it, now))
    attempt = job.attempt
    if attempt is None or not any(_is_late(it, now) for it in attempt.containers):
        return job
    containers = tuple(_brought_forward(it, now) for it in attempt.containers)
    return replace(job, attempt=replace(attempt, containers=containers))


def _brought_forward(it: Stopped, now: datetime) -> Stopped:
    return replace(it, next_step_at=now + longest_wait(it)) if _is_late(it, now) else it


def _is_late(it: StopOrder | AttemptContainer, now: datetime) -> bool:
    return it.next_step_at is not None and it.next_step_at > now + longest_wait(it)


def _attempt(attempt: Attempt, shift: ClockShift) -> Attempt:
    return replace(
        attempt,
        placed_at=_of(attempt.placed_at, shift),
        started_at=_of(attempt.started_at, shift),
        containers=tuple(_container(it, shift) for it in attempt.containers),
    )


def _container(container: AttemptContainer, shift: ClockShift) -> AttemptContainer:
    return replace(
        container,
        start_requested_at=_of(container.start_requested_at, shift),
        started_at=_of(container.started_at, shift),
        stopped_at=_of(container.stopped_at, shift),
        terminated_by=None if container.terminated_by is None else _order(container.terminated_by, shift),
        checkpoint_requested_at=_of(container.checkpoint_requested_at, shift),
        signalled_at=_of(container.signalled_at, shift),
        next_step_at=_deadline(container, shift),
        killed_at=_of(container.killed_at, shift),
    )


def _order(order: StopOrder, shift: ClockShift) -> StopOrder:
    return replace(
        order,
        ordered_at=shift.of(order.ordered_at),
        checkpoint_requested_at=_of(order.checkpoint_requested_at, shift),
        signalled_at=_of(order.signalled_at, shift),
        next_step_at=_deadline(order, shift),
        killed_at=_of(order.killed_at, shift),
        forced_at=_of(order.forced_at, shift),
        checkpoint_seen_at=_of(order.checkpoint_seen_at, shift),
    )


def _array_state(state: ArrayState, shift: ClockShift) -> ArrayState:
    return replace(
        state,
        counted_at=_of(state.counted_at, shift),
        ordered_at=_of(state.ordered_at, shift),
        ended_at=_of(state.ended_at, shift),
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


def _deadline(it: StopOrder | AttemptContainer, shift: ClockShift) -> datetime | None:
    return None if it.next_step_at is None else shift.of_deadline(it.next_step_at, longest_wait(it))
