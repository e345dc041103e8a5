"""Force-fail: an administrator ends a job whose container does not exit. Pure."""

from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import AttemptContainer, AttemptContainerState, Job, Status
from batchq.domain.lifecycle.container_rules import each, ended
from batchq.domain.lifecycle.containers import has_task, tags_to_keep, tags_under_way
from batchq.domain.lifecycle.status import Outcome, attempt_of, move_to_final
from batchq.domain.lifecycle.stop_order import with_order
from batchq.domain.stop_orders import StopKind, StopOrder
from batchq.errors import Invalid


def fail(job: Job, event: on.ForceFailed, now: datetime) -> Outcome:
    """End an active job as FAILED at once and without a retry.

    Its resources are free from then on, even if its containers still run: they are removed as soon as the engine can.
    """
    reason = status_reasons.force_failed(event.reason, ordered=None if job.stop is None else job.stop.reason)
    attempt = attempt_of(each(job, lambda it: _given_up(it, now, reason)) if has_task(job) else job)
    stopped = max(now, attempt.started_at or now)
    order = StopOrder(kind=StopKind.FORCE_FAIL, reason=event.reason, user=event.user, ordered_at=now)
    over = replace(
        with_order(job, order),
        attempts=(*job.attempts, replace(attempt, stopped_at=stopped, status_reason=reason)),
        started_at=attempt.started_at,
        stopped_at=stopped,
    )
    there = (*tags_under_way(job), *tags_to_keep(job))
    return move_to_final(over, Status.FAILED, now, reason), tuple(do.CleanUpContainer(tag=tag) for tag in there)


def refuse(job: Job, _: on.ForceFailed, __: datetime) -> Outcome:
    """Raise Invalid: a queued job has no container, so TerminateJob ends it."""
    raise Invalid(f"Job {job.id} is {job.status} and has no container to give up: terminate it.")


def _given_up(container: AttemptContainer, now: datetime, reason: str) -> AttemptContainer:
    if container.state is AttemptContainerState.ENDED:
        return container
    return ended(container, max(now, container.started_at or now), reason)
