"""How a job moves from one status to the next: the one place that writes a status, and only along `EDGES`.

`finish` is the one place that decides what becomes of a job whose attempt is over.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.job import Attempt, Job, Status
from batchq.domain.retry import Verdict, verdict

Outcome = tuple[Job, tuple[do.Effect, ...]]

EDGES: Mapping[Status, frozenset[Status]] = {
    Status.SUBMITTED: frozenset({Status.PENDING, Status.RUNNABLE, Status.FAILED}),
    Status.PENDING: frozenset({Status.RUNNABLE, Status.SUCCEEDED, Status.FAILED}),  # an array parent is never more
    Status.RUNNABLE: frozenset({Status.STARTING, Status.FAILED}),
    Status.STARTING: frozenset({Status.RUNNING, Status.RUNNABLE, Status.FAILED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.RUNNABLE, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
}


def finish(job: Job, ended: Attempt, now: datetime, status_reason: str) -> Job:
    """An attempt is over, for this reason unless it was ordered to stop: what becomes of its job."""
    ended = replace(ended, status_reason=status_reason if job.stop is None else job.stop.reason)
    over = replace(job, attempts=(*job.attempts, ended), started_at=ended.started_at, stopped_at=ended.stopped_at)
    match verdict(job, ended):
        case Verdict.SUCCEED:
            return end(replace(over, cancelled=None), Status.SUCCEEDED, now, status_reason)
        case Verdict.FAIL:
            return end(*_blame(over, ended, now))
        case Verdict.AGAIN:
            return replace(to(over, Status.RUNNABLE), attempt=None, stopped_at=None, status_reason=status_reason)


def abandon(job: Job, now: datetime) -> Job:
    """It was ordered to stop, and nothing of it ran, so no attempt was used."""
    assert job.stop is not None, f"given up, and was not to stop: {story(job)}"
    return end(replace(job, cancelled=None), Status.FAILED, now, job.stop.reason)


def _blame(job: Job, ended: Attempt, now: datetime) -> tuple[Job, Status, datetime, str | None]:
    """Whose reason the end of a failed job carries: the stop order's, the remembered cancel's, the attempt's own."""
    if job.stop is not None:
        return replace(job, cancelled=None), Status.FAILED, now, job.stop.reason
    return job, Status.FAILED, now, job.cancelled if job.cancelled is not None else ended.status_reason


def end(job: Job, status: Status, now: datetime, reason: str | None) -> Job:
    _check_edge(job, status)
    stopped = job.stopped_at or max(now, job.started_at or now)
    return replace(
        job,
        status=status,
        attempt=None,
        misfit=False,
        blocked_at=None,
        promised_start=None,
        status_reason=reason,
        stopped_at=stopped,
    )


def to(job: Job, status: Status) -> Job:
    _check_edge(job, status)
    return replace(job, status=status)


def _check_edge(job: Job, status: Status) -> None:
    assert status in EDGES[job.status], f"no edge to {status} for {story(job)}"


def attempt_of(job: Job) -> Attempt:
    assert job.attempt is not None, f"no attempt under way: {story(job)}"
    return job.attempt


def story(job: Job) -> str:
    """The job in a line, for whoever must understand how it came here."""
    return f"{job.id}: {job.status}, attempt {_in_short(job.attempt)}, {len(job.attempts)} ended, stop {job.stop}"


def _in_short(attempt: Attempt | None) -> str:
    if attempt is None or not attempt.parts:
        return str(attempt)
    return f"{attempt.number} ({', '.join(f'{it.key} {it.state}' for it in attempt.parts)})"
