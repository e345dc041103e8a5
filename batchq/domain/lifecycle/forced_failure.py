"""Jobs that end as FAILED without the outcome of their containers. Pure.

- Force-fail: an administrator ends a job whose container does not exit.
- Damage: the stored record of a job could not be read. The store moves the record to quarantine and builds a
  replacement from the columns that are left, with UNREADABLE as its status reason, or as its `spec.invalid` if the spec
  was damaged. The progress of such a job is not known, so it fails, and nothing of it is started any more.
  Decision 0015.
"""

from datetime import datetime
from typing import NoReturn

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, AttemptContainerState, Status, StopKind
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.container_rules import each, ended_container
from batchq.domain.lifecycle.containers import follow
from batchq.domain.lifecycle.status import Outcome, attempt_of, move_to_final
from batchq.domain.lifecycle.stopping import with_order
from batchq.domain.stop_values import StopOrder
from batchq.errors import Invalid


def fail_by_force(job: Job, event: on.ForceFailed, now: datetime) -> Job:
    """End an active job as FAILED at once and without a retry.

    Its resources are free from then on, even if its containers still run: they are removed as soon as the container
    engine can.
    """
    reason = status_reasons.force_failed(event.reason, ordered=None if job.stop is None else job.stop.reason)
    order = StopOrder(kind=StopKind.FORCE_FAIL, reason=event.reason, user=event.user, ordered_at=now)
    return _failed(with_order(job, order), now, reason)


def refuse_force_fail(job: Job, _: on.ForceFailed, __: datetime) -> NoReturn:
    """Raise Invalid: a queued job has no container, so TerminateJob ends it."""
    raise Invalid(f"Job {job.id} is {job.status} and has no container to give up: terminate it.")


def _given_up(container: AttemptContainer, now: datetime, reason: str) -> AttemptContainer:
    if container.state is AttemptContainerState.ENDED:
        return container
    return ended_container(container, max(now, container.started_at or now), reason)


def is_damaged(job: Job) -> bool:
    """Whether the job's record was damaged and the job is not finished. A finished job stays as its columns show it."""
    return job.status not in FINISHED and status_reasons.UNREADABLE in {job.status_reason, job.spec.invalid}


def fail_damaged(job: Job, now: datetime) -> Outcome:
    """End the job as FAILED and remove its containers.

    An array with children is terminated instead, and ends when its children have ended.
    """
    if job.array_state is not None:
        return arrays.step_array(job, on.TerminateRequested(reason=status_reasons.UNREADABLE), now)
    if job.attempt is None:
        return move_to_final(job, Status.FAILED, now, status_reasons.UNREADABLE), ()
    return follow(job, _failed(job, now, status_reasons.UNREADABLE), now)


def _failed(job: Job, now: datetime, reason: str) -> Job:
    """The job as FAILED. Its attempt under way and all containers of this attempt have ended."""
    attempt = attempt_of(each(job, lambda container: _given_up(container, now, reason)))
    stopped = max(now, attempt.started_at or now)
    over = replace(
        job,
        attempts=(*job.attempts, replace(attempt, stopped_at=stopped, status_reason=reason)),
        started_at=attempt.started_at,
        stopped_at=stopped,
    )
    return move_to_final(over, Status.FAILED, now, reason)
