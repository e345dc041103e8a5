"""Deadlines of an attempt: the job's timeout, and each container's startTimeout and next step of a stop. Pure."""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, AttemptContainer, AttemptContainerState, Job, Status
from batchq.domain.lifecycle.container_rules import (
    BEGUN,
    awaited,
    container_with_key,
    has_task,
    main_node,
    task_container_of,
)
from batchq.domain.lifecycle.reconcile import tags_running

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
    if has_task(job):
        yield from _wakeups_of_containers(job, attempt)
    elif job.status is Status.RUNNING and job.stop is not None and job.stop.next_step_at is not None:
        yield job.stop.next_step_at, on.GraceExpired(attempt=attempt.number)


def _wakeups_of_containers(job: Job, attempt: Attempt) -> Iterator[tuple[datetime, Alarm]]:
    needed = awaited(job)
    for it in attempt.containers:
        if it.state not in BEGUN:
            continue
        if it.next_step_at is not None:
            yield it.next_step_at, on.GraceExpired(attempt=attempt.number, container_key=it.key)
        limit = task_container_of(job, it).start_timeout
        if limit is not None and it.start_requested_at is not None and it.key in needed:
            yield it.start_requested_at + limit, on.StartTimedOut(attempt=attempt.number, container_key=it.key)


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
    if not has_task(job):
        return job.tag
    main = main_node(job)
    return min(
        tags_running(job), key=lambda it: _rank(job, container_with_key(job, it.container_key), main), default=None
    )


def _rank(job: Job, container: AttemptContainer, main: int) -> tuple[bool, bool]:
    return container.node != main, not task_container_of(job, container).essential
