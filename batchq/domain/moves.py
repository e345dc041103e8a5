"""How a job moves from one status to the next: the one place that writes a status, and only along `EDGES`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from batchq.domain.job import Attempt, Job, Status

EDGES: Mapping[Status, frozenset[Status]] = {
    Status.SUBMITTED: frozenset({Status.PENDING, Status.RUNNABLE, Status.FAILED}),
    Status.PENDING: frozenset({Status.RUNNABLE, Status.SUCCEEDED, Status.FAILED}),  # an array parent is never more
    Status.RUNNABLE: frozenset({Status.STARTING, Status.FAILED}),
    Status.STARTING: frozenset({Status.RUNNING, Status.RUNNABLE, Status.FAILED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.RUNNABLE, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
}


def end(job: Job, status: Status, now: datetime, reason: str | None) -> Job:
    stopped = job.stopped_at or max(now, job.started_at or now)
    return replace(
        to(job, status), attempt=None, misfit=False, blocked_at=None, status_reason=reason, stopped_at=stopped
    )


def to(job: Job, status: Status) -> Job:
    assert status in EDGES[job.status], f"no edge to {status} for {story(job)}"
    return replace(job, status=status)


def attempt_of(job: Job) -> Attempt:
    assert job.attempt is not None, f"no attempt under way: {story(job)}"
    return job.attempt


def story(job: Job) -> str:
    """The job in a line, for whoever must understand how it came here."""
    return f"{job.id}: {job.status}, attempt {job.attempt}, {len(job.attempts)} ended, stop {job.stop}"
