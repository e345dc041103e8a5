"""What becomes of stored times when the next server's clock differs from the last one's. Pure. Decision 0035."""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.job import Attempt, Family, Job, Part, Stop
from batchq.domain.lifecycle.stop_order import KILL_AGAIN


class ClockShift(Struct, frozen=True, kw_only=True):
    """The machine's clock was set: times taken by servers of this boot are moved."""

    #: What is added; negative when the clock was set back.
    by: timedelta
    #: The first moment that a server of this boot can have stamped, by its clock.
    since: datetime
    #: The last one, by the same clock.
    until: datetime

    def of(self, at: datetime) -> datetime:
        """A moment of the past. A moment that another clock stamped stays."""
        return at + self.by if self.since <= at <= self.until else at

    def of_deadline(self, at: datetime, within: timedelta) -> datetime:
        """A moment that was at most so far ahead when it was stamped."""
        return at + self.by if self.since <= at <= self.until + within else at


def shifted(job: Job, shift: ClockShift) -> Job:
    """An unfinished job by the new clock. Attempts that are over, and the history, stay as they were recorded."""
    moved = replace(
        job,
        created_at=shift.of(job.created_at),
        blocked_at=_of(job.blocked_at, shift),
        promised_start=_promise(job, shift),
        stop=None if job.stop is None else _stop(job.stop, shift),
        family=None if job.family is None else _family(job.family, shift),
    )
    if job.attempt is None:
        return moved
    return replace(moved, started_at=_of(job.started_at, shift), attempt=_attempt(job.attempt, shift))


def bounded(job: Job, now: datetime) -> Job:
    """An active job whose kill deadlines are a grace ahead at most: later ones are of a clock that was ahead."""
    stop = job.stop
    if stop is not None and stop.kill_at is not None and stop.kill_at > now + _longest(stop.grace):
        job = replace(job, stop=replace(stop, kill_at=now + _longest(stop.grace)))
    attempt = job.attempt
    if attempt is None or not any(_is_late(it, now) for it in attempt.parts):
        return job
    parts = tuple(replace(it, kill_at=now + _longest(it.grace)) if _is_late(it, now) else it for it in attempt.parts)
    return replace(job, attempt=replace(attempt, parts=parts))


def _is_late(part: Part, now: datetime) -> bool:
    return part.kill_at is not None and part.kill_at > now + _longest(part.grace)


def _longest(grace: timedelta | None) -> timedelta:
    return max(grace or KILL_AGAIN, KILL_AGAIN)


def _attempt(attempt: Attempt, shift: ClockShift) -> Attempt:
    return replace(
        attempt,
        placed_at=_of(attempt.placed_at, shift),
        started_at=_of(attempt.started_at, shift),
        parts=tuple(_part(it, shift) for it in attempt.parts),
    )


def _part(part: Part, shift: ClockShift) -> Part:
    return replace(
        part,
        begun_at=_of(part.begun_at, shift),
        started_at=_of(part.started_at, shift),
        stopped_at=_of(part.stopped_at, shift),
        kill_at=_deadline(part.kill_at, part.grace, shift),
        killed_at=_of(part.killed_at, shift),
    )


def _stop(stop: Stop, shift: ClockShift) -> Stop:
    return replace(
        stop,
        ordered_at=shift.of(stop.ordered_at),
        kill_at=_deadline(stop.kill_at, stop.grace, shift),
        killed_at=_of(stop.killed_at, shift),
    )


def _family(family: Family, shift: ClockShift) -> Family:
    return replace(
        family,
        counted_at=_of(family.counted_at, shift),
        ordered_at=_of(family.ordered_at, shift),
        over_at=_of(family.over_at, shift),
    )


def _promise(job: Job, shift: ClockShift) -> datetime | None:
    """It lies ahead, however far: it was stamped by the clock that stamped since when the job is blocked."""
    if job.promised_start is None or job.blocked_at is None or shift.of(job.blocked_at) == job.blocked_at:
        return job.promised_start
    return job.promised_start + shift.by


def _of(at: datetime | None, shift: ClockShift) -> datetime | None:
    return None if at is None else shift.of(at)


def _deadline(at: datetime | None, grace: timedelta | None, shift: ClockShift) -> datetime | None:
    return None if at is None else shift.of_deadline(at, _longest(grace))
