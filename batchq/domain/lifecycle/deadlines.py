"""The stored times of jobs: deadlines of attempts, and their correction when the machine's clock was set. Pure.

Deadlines are the job's timeout, and each container's startTimeout and next step of a stop. A start of the server that
finds the clock set since the last one corrects all times of unfinished jobs. Decision 0035.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import Tag
from batchq.domain.job import ArrayState, Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.container_rules import BEGUN, awaited, container_with_key, each, task_container_of
from batchq.domain.lifecycle.escalation import longest_wait
from batchq.domain.lifecycle.reconcile import tags_running
from batchq.domain.stop_values import Hold, StopOrder

#: The event of a deadline that has passed.
Alarm = on.TimedOut | on.GraceExpired | on.StartTimedOut


def next_wakeup(job: Job) -> datetime | None:
    """The earliest deadline; None if there is none.

    A step of a stop has no deadline before its signal is delivered, because its wait starts there.
    """
    first = None if job.attempt is None else min(_wakeups(job), key=itemgetter(0), default=None)
    return None if first is None else first[0]


def due_timers(job: Job, now: datetime) -> tuple[Alarm, ...]:
    """The events of the deadlines that have passed at `now`, earliest first."""
    found = [wakeup for wakeup in _wakeups(job) if wakeup[0] <= now]
    return tuple(alarm for _, alarm in sorted(found, key=lambda pair: pair[0]))


def deadline_of(job: Job, alarm: Alarm) -> datetime:
    """When a deadline passes that the job has. StopIteration if the job has no such deadline."""
    return next(at for at, each in _wakeups(job) if each == alarm)


def _wakeups(job: Job) -> Iterator[tuple[datetime, Alarm]]:
    attempt = job.attempt
    if attempt is None:
        return
    if (
        job.status is Status.RUNNING
        and job.spec.timeout is not None
        and job.stop is None
        and attempt.decided_by is None
    ):
        assert job.started_at is not None, f"{job.id} is RUNNING and was never started"
        yield job.started_at + job.spec.timeout, on.TimedOut(attempt=attempt.number)
    needed, definitions = None, job.spec.nodes.containers
    for container in attempt.containers:
        if container.state not in BEGUN:
            continue
        if container.next_step_at is not None:
            yield container.next_step_at, on.GraceExpired(attempt=attempt.number, container_key=container.key)
        limit, begun = definitions[container.key].start_timeout, container.start_requested_at
        if limit is not None and begun is not None:
            needed = awaited(job) if needed is None else needed
            if container.key in needed:
                yield begun + limit, on.StartTimedOut(attempt=attempt.number, container_key=container.key)


def tag_to_inspect(job: Job, alarm: on.Event) -> Tag | None:
    """The container to inspect before a deadline takes effect, because it may have exited in time without a report.

    None if the deadline takes effect at once: a kill, or a startTimeout of a container that is not running yet.
    """
    match alarm:
        case on.TimedOut():
            return _tag_timed(job)
        case on.StartTimedOut(container_key=key) if container_with_key(job, key).state is AttemptContainerState.RUNNING:
            return replace(job.tag, container_key=key)
        case _:
            return None


def _tag_timed(job: Job) -> Tag | None:
    """Of several running containers the likeliest to decide the attempt: essential and on the main node."""
    main = job.spec.nodes.main
    return min(
        tags_running(job), key=lambda tag: _rank(job, container_with_key(job, tag.container_key), main), default=None
    )


def _rank(job: Job, container: AttemptContainer, main: int) -> tuple[bool, bool]:
    return container.node != main, not task_container_of(job, container).essential


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
        stop_orders=tuple(_past(order, shift) for order in job.stop_orders),
        array_state=None if job.array_state is None else _past(job.array_state, shift),
    )
    if job.attempt is None:
        return moved
    attempt = replace(
        _past(job.attempt, shift),
        containers=tuple(_container(container, shift) for container in job.attempt.containers),
    )
    return replace(moved, started_at=_of(job.started_at, shift), attempt=attempt)


def bounded_deadlines(job: Job, now: datetime) -> Job:
    """Bring each deadline of a stop of an active job that is further ahead than its longest step forward to that.

    A later deadline was computed by a clock that was ahead of the present one.
    """
    return job if job.attempt is None else each(job, lambda container: _brought_forward(container, now))


def _brought_forward(container: AttemptContainer, now: datetime) -> AttemptContainer:
    latest = now + longest_wait(container)
    late = container.next_step_at is not None and container.next_step_at > latest
    return replace(container, next_step_at=latest) if late else container


def _past(value: _Timed, shift: ClockShift) -> _Timed:
    """Correct all times of a value, which were in the past when they were stored."""
    times = {name: at for name in value.__struct_fields__ if isinstance(at := getattr(value, name), datetime)}
    return replace(value, **{name: shift.of(at) for name, at in times.items()})


def _container(container: AttemptContainer, shift: ClockShift) -> AttemptContainer:
    alone, due = container.terminated_by, container.next_step_at
    return replace(
        _past(container, shift),
        terminated_by=None if alone is None else _past(alone, shift),
        next_step_at=due and shift.of_deadline(due, longest_wait(container)),
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
