"""An operator's last resort for a container that does not end: its job is over without it. Pure."""

from datetime import datetime

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Job, Part, PartState, Status
from batchq.domain.lifecycle.container_rules import each, ended
from batchq.domain.lifecycle.containers import has_parts, tags_kept, tags_under_way
from batchq.domain.lifecycle.status import Outcome, attempt_of, end
from batchq.errors import Invalid


def fail(job: Job, event: on.ForceFailed, now: datetime) -> Outcome:
    """Its room is free, whatever its containers still do; they are cleared away when the engine can do that."""
    reason = status_reasons.force_failed(event.reason, ordered=None if job.stop is None else job.stop.reason)
    attempt = attempt_of(each(job, lambda it: _given_up(it, now, reason)) if has_parts(job) else job)
    stopped = max(now, attempt.started_at or now)
    over = replace(
        job,
        attempts=(*job.attempts, replace(attempt, stopped_at=stopped, status_reason=reason)),
        started_at=attempt.started_at,
        stopped_at=stopped,
        cancelled=None,
    )
    there = (*tags_under_way(job), *tags_kept(job))
    return end(over, Status.FAILED, now, reason), tuple(do.CleanUpContainer(tag=tag) for tag in there)


def refuse(job: Job, _: on.ForceFailed, __: datetime) -> Outcome:
    """Nothing of it can be stuck."""
    raise Invalid(f"Job {job.id} is {job.status} and has no container to give up: terminate it.")


def _given_up(part: Part, now: datetime, reason: str) -> Part:
    if part.state is PartState.ENDED:
        return part
    return ended(part, max(now, part.started_at or now), reason)
