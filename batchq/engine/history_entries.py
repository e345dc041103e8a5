"""What is recorded about a change of a job: its history entries, and the log lines about its status."""

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.stopping import steps
from batchq.domain.stop_values import StopStep
from batchq.ports.history import FeedEntry, HistoryEntry, HoldChange
from batchq.ports.jobs import StatusChanged

log = logging.getLogger(__name__)


def status_entry(before: Job | None, after: Job, now: datetime) -> HistoryEntry:
    """The job entered a status, or was inserted."""
    attempt = after.attempt.number if after.attempt else None
    at = (_stop_time(before, after) if after.status in FINISHED else None) or now
    return HistoryEntry(job_id=after.id, at=at, status=after.status, reason=after.status_reason, attempt=attempt)


def order_entries(before: Job, after: Job, now: datetime, caller: Caller | None) -> Iterator[HistoryEntry]:
    """The steps of stop orders, and the hold or release of the job. `caller`: None for a change by the server itself.

    A job that ends or is terminated is not held any more, and has no entry about that.
    """
    for step in steps(before, after):
        yield _entry(before, after, now, stop=step)
    if after.hold is not before.hold and after.status not in FINISHED and not after.is_terminated:
        released_by = UserName("") if caller is None or after.hold is not None else caller.user
        yield _entry(before, after, now, hold=HoldChange(hold=after.hold, released_by=released_by))


def _entry(
    before: Job, after: Job, now: datetime, *, stop: StopStep | None = None, hold: HoldChange | None = None
) -> HistoryEntry:
    """An entry with the status that the job had before the change."""
    return HistoryEntry(
        job_id=before.id,
        at=_stop_time(before, after) or now,
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


def feed_entry(number: int, entry: HistoryEntry, spec: JobSpec) -> FeedEntry:
    """A saved entry, as readers of the feed see it."""
    return FeedEntry(
        number=number,
        entry=entry,
        job_name=spec.name,
        queue=spec.queue,
        owner=spec.owner,
        group=None if spec.group is None else spec.group.name,
        group_id=None if spec.group is None else spec.group.id,
        notify=spec.notify,
    )


def log_transitions(changes: Iterable[StatusChanged]) -> None:
    """Log the end of each job at INFO, and each change of a status at DEBUG."""
    shows_all = log.isEnabledFor(logging.DEBUG)
    for change in changes:
        job = change.job
        if shows_all:
            reason = f" ({job.status_reason!r})" if job.status_reason else ""
            log.debug("job %s: %s -> %s on %s%s", job.id, change.before or "new", job.status, job.spec.queue, reason)
        if job.status in FINISHED:
            log.info("job %s: %s %s", job.id, job.status, " ".join(_end_fields(job)))


def _end_fields(job: Job) -> list[str]:
    """What the log shows of the end of a job. Values that do not exist are left out."""
    fields = [f"queue={job.spec.queue}", f"name={job.spec.name}"]
    if job.spec.owner.user:
        fields.append(f"user={job.spec.owner.user}")
    if job.array_state is not None:
        failed = dict(job.array_state.counts).get(Status.FAILED, 0)
        fields.append(f"children={job.spec.array_size} failed={failed}")
    began = [attempt.started_at for attempt in job.attempts if attempt.started_at is not None]
    if began:
        ran = [
            attempt.stopped_at - attempt.started_at
            for attempt in job.attempts
            if attempt.started_at and attempt.stopped_at
        ]
        waited, length = _seconds(began[0] - job.created_at), _seconds(sum(ran, timedelta()))
        fields.append(f"attempts={len(job.attempts)} waited={waited} ran={length}")
    if job.attempts and job.attempts[-1].exit_code is not None:
        fields.append(f"exit={job.attempts[-1].exit_code}")
    if job.status_reason:
        fields.append(f"reason={job.status_reason!r}")
    return fields


def _seconds(length: timedelta) -> str:
    return f"{max(length, timedelta()).total_seconds():.1f}s"
