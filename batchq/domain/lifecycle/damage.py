"""Failure of jobs whose stored record is damaged and could not be read. Pure. Decision 0015.

The store moves a damaged record to quarantine and builds a replacement from the columns that are left. The replacement
carries UNREADABLE as its status reason, or as `spec.invalid` if its spec was damaged. The progress of such a job is
not known, so the job fails and nothing of it is started any more.
"""

from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import FINISHED, Job, Status
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.containers import tags_under_way
from batchq.domain.lifecycle.status import Outcome, move_to_final


def is_damaged(job: Job) -> bool:
    """Whether the job's record was damaged and the job is not finished. A finished job stays as its columns show it."""
    return job.status not in FINISHED and status_reasons.UNREADABLE in {job.status_reason, job.spec.invalid}


def fail(job: Job, now: datetime) -> Outcome:
    """End the job as FAILED and remove its containers. An array with children is terminated instead.

    The array ends when its children have ended.
    """
    if job.array_state is not None:
        return arrays.step(job, on.TerminateRequested(reason=status_reasons.UNREADABLE), now)
    if job.attempt is None:
        return move_to_final(job, Status.FAILED, now, status_reasons.UNREADABLE), ()
    stopped = max(now, job.attempt.started_at or now)
    ended = replace(job.attempt, stopped_at=stopped, status_reason=status_reasons.UNREADABLE)
    over = replace(job, attempts=(*job.attempts, ended), started_at=ended.started_at, stopped_at=stopped)
    effects = tuple(do.CleanUpContainer(tag=tag) for tag in tags_under_way(job))
    return move_to_final(over, Status.FAILED, now, status_reasons.UNREADABLE), effects
