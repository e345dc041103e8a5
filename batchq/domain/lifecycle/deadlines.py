"""Deadlines of an attempt: the job's timeout, and each container's next step of a stop and startTimeout. Pure."""

from collections.abc import Iterator
from datetime import datetime

from batchq.domain import events as on
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.container_gates import BEGUN, awaited, task_container_of
from batchq.domain.lifecycle.containers import has_task
from batchq.domain.lifecycle.status import attempt_of

#: The event of a deadline that has passed.
Alarm = on.TimedOut | on.GraceExpired | on.StartTimedOut


def next_wakeup(job: Job) -> datetime | None:
    """The earliest deadline; None if there is none.

    A step of a stop has no deadline before its signal is delivered, because its wait starts there.
    """
    return min((at for at, _ in _wakeups(job)), default=None)


def due_timers(job: Job, now: datetime) -> tuple[Alarm, ...]:
    """The events of the deadlines that have passed at `now`, earliest first."""
    found = [it for it in _wakeups(job) if it[0] <= now]
    return tuple(alarm for _, alarm in sorted(found, key=lambda it: it[0]))


def due_event(job: Job, now: datetime) -> Alarm | None:
    """The event of the earliest deadline that has passed at `now`; None if none has."""
    return next(iter(due_timers(job, now)), None)


def _wakeups(job: Job) -> Iterator[tuple[datetime, Alarm]]:
    if has_task(job):
        yield from _wakeups_of_several(job)
    elif job.status is Status.RUNNING and job.stop is not None:
        if job.stop.next_step_at is not None:
            yield job.stop.next_step_at, on.GraceExpired(attempt=attempt_of(job).number)
    elif job.status is Status.RUNNING and job.spec.timeout is not None:
        assert job.started_at is not None, f"{job.id} is RUNNING and was never started"
        yield job.started_at + job.spec.timeout, on.TimedOut(attempt=attempt_of(job).number)


def _wakeups_of_several(job: Job) -> Iterator[tuple[datetime, Alarm]]:
    attempt = attempt_of(job)
    if (
        job.status is Status.RUNNING
        and job.spec.timeout is not None
        and job.stop is None
        and attempt.decided_by is None
    ):
        assert job.started_at is not None, f"{job.id} is RUNNING and was never started"
        yield job.started_at + job.spec.timeout, on.TimedOut(attempt=attempt.number)
    needed = awaited(job)
    for container in attempt.containers:
        if container.state not in BEGUN:
            continue
        if container.next_step_at is not None:
            yield container.next_step_at, on.GraceExpired(attempt=attempt.number, container_key=container.key)
        limit = task_container_of(job, container).start_timeout
        if limit is not None and container.start_requested_at is not None and container.key in needed:
            yield (
                container.start_requested_at + limit,
                on.StartTimedOut(attempt=attempt.number, container_key=container.key),
            )
