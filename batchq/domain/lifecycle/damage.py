"""What becomes of a job whose record could not be read: it fails, and whatever hangs on it follows. Pure.

The store has put the record aside and made a new one of what is left, which says so in its `status_reason`, or in what
was asked for (`spec.invalid`). How far the job really was is not known, so nothing of it is started any more.
"""

from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import FINISHED, Job, Status
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.containers import tags_under_way
from batchq.domain.lifecycle.status import Outcome, end


def is_damaged(job: Job) -> bool:
    """One that is over stays as its columns tell it."""
    return job.status not in FINISHED and status_reasons.UNREADABLE in {job.status_reason, job.spec.invalid}


def fail(job: Job, now: datetime) -> Outcome:
    """At once, but for an array that has children: they are told first. What runs is cleared away."""
    if job.family is not None:
        return arrays.step(job, on.TerminateRequested(reason=status_reasons.UNREADABLE), now)
    if job.attempt is None:
        return end(job, Status.FAILED, now, status_reasons.UNREADABLE), ()
    stopped = max(now, job.attempt.started_at or now)
    ended = replace(job.attempt, stopped_at=stopped, status_reason=status_reasons.UNREADABLE)
    over = replace(job, attempts=(*job.attempts, ended), started_at=ended.started_at, stopped_at=stopped)
    effects = tuple(do.CleanUpContainer(tag=tag) for tag in tags_under_way(job))
    return end(over, Status.FAILED, now, status_reasons.UNREADABLE), effects
