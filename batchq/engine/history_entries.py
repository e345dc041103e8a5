"""What is recorded about a change of a job: its history entries, and one log line for each change of its status."""

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.job import FINISHED, QUEUED, Job
from batchq.domain.lifecycle.stop_order import steps
from batchq.domain.stop_orders import StopStep
from batchq.ports.history import HistoryEntry, HoldChange
from batchq.ports.jobs import StatusChanged

log = logging.getLogger(__name__)


def status_entry(before: Job | None, after: Job, now: datetime) -> HistoryEntry:
    """The job entered a status, or was inserted."""
    attempt = after.attempt.number if after.attempt else None
    at = _stop_time(before, after) or now
    return HistoryEntry(job_id=after.id, at=at, status=after.status, reason=after.status_reason, attempt=attempt)


def order_entries(before: Job, after: Job, now: datetime, caller: Caller | None) -> Iterator[HistoryEntry]:
    """The steps of stop orders, and the hold or release of the job. `caller`: None for a change by the server itself.

    A job that ends or is terminated is not held any more, and has no entry about that.
    """
    at = _stop_time(before, after) or now
    for step in steps(before, after):
        yield _entry(before, at, stop=step)
    if after.hold is not before.hold and after.status not in FINISHED and not after.is_terminated:
        released_by = UserName("") if caller is None or after.hold is not None else caller.user
        yield _entry(before, at, hold=HoldChange(hold=after.hold, released_by=released_by))


def _entry(before: Job, at: datetime, *, stop: StopStep | None = None, hold: HoldChange | None = None) -> HistoryEntry:
    """An entry with the status that the job had before the change."""
    return HistoryEntry(
        job_id=before.id,
        at=at,
        status=before.status,
        reason=before.status_reason,
        attempt=before.attempt.number if before.attempt else None,
        stop=stop,
        hold=hold,
    )


def _stop_time(before: Job | None, after: Job) -> datetime | None:
    """The time at which a queued job was stopped; None for other changes.

    It may precede the unit of work that writes it.
    """
    waited = before is not None and before.status in QUEUED
    return after.stopped_at if waited and after.status in FINISHED else None


def log_transitions(changes: Iterable[StatusChanged]) -> None:
    """Log each change of a job's status."""
    for change in changes:
        job = change.job
        reason = f" ({job.status_reason!r})" if job.status_reason else ""
        log.info("job %s: %s -> %s on %s%s", job.id, change.before or "new", job.status, job.spec.queue, reason)
