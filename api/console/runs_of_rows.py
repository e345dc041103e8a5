"""Rows that stand for several children of an array, or for consecutive events or audit records that are equal."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from batchq.api.console.job_words import entry_words
from batchq.domain.access.audit import AuditRecord
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, parent_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import latest_order
from batchq.ports.history import FeedEntry

MIN_RECORDS = 3  # audit records that become one row
JOB_PREFIX = "job/"


class ActiveRow(Struct, frozen=True, kw_only=True):
    """A job that runs, or the children of an array in one status."""

    #: The job, or the first of the children.
    job: Job
    #: The array; None: it is one job.
    array: JobId | None
    count: int


class EventRow(Struct, frozen=True, kw_only=True):
    """An event, or consecutive equal events of children of one array."""

    #: The newest event.
    event: FeedEntry
    #: The array; None: it is one event.
    array: JobId | None
    count: int
    #: The lowest and the highest index.
    first: int
    last: int


class AuditRow(Struct, frozen=True, kw_only=True):
    """A record, or consecutive records of one user with the same operation and outcome, each about a job."""

    #: The newest record.
    record: AuditRecord
    jobs: tuple[JobId, ...]


def active_rows(jobs: Iterable[Job]) -> list[ActiveRow]:
    """A row for each job, and one for the children of an array in the same status. In the order of their first jobs."""
    rows: dict[tuple[JobId, Status | None], list[Job]] = {}
    for job in jobs:
        key = (job.id, None) if job.child is None else (job.child.parent, job.status)
        rows.setdefault(key, []).append(job)
    return [
        ActiveRow(job=found[0], array=key[0] if len(found) > 1 else None, count=len(found))
        for key, found in rows.items()
    ]


def event_rows(events: Iterable[FeedEntry]) -> list[EventRow]:
    """A row for each event; consecutive equal events of children of one array are one row."""
    return [_event_row(list(run)) for _, run in groupby(events, key=_event_key)]


def audit_rows(records: Iterable[AuditRecord]) -> list[AuditRow]:
    """A row for each record; MIN_RECORDS or more consecutive ones about jobs, with the same change, are one row."""
    rows = []
    for _, run in groupby(records, key=_audit_key):
        found = list(run)
        together = len(found) >= MIN_RECORDS and found[0].resource.startswith(JOB_PREFIX)
        rows += [_audit_row(part) for part in ([found] if together else [[record] for record in found])]
    return rows


def order_reason(record: AuditRecord, job: Job | None) -> str:
    """The reason of the order to stop that the record is about; empty if it is another change, or an older order."""
    order = None if job is None else latest_order(job)
    if order is None or order.user != record.user or record.operation not in ORDERS:
        return ""
    return order.reason


ORDERS = frozenset({"TerminateJob", "CancelJob", "TerminateJobs", "CancelJobs", "PauseJob", "ForceFailJob"})


def _event_key(event: FeedEntry) -> object:
    """Equal for events that become one row."""
    child = parent_of(event.entry.job_id)
    if child is None or event.entry.group_end is not None:
        return event.number
    return child[0], event.entry.kind, entry_words(event.entry), event.entry.attempt


def _event_row(run: Sequence[FeedEntry]) -> EventRow:
    children = [child for event in run if (child := parent_of(event.entry.job_id)) is not None]
    indexes = [index for _, index in children] or [0]
    array = children[0][0] if len(run) > 1 else None
    return EventRow(event=run[0], array=array, count=len(run), first=min(indexes), last=max(indexes))


def _audit_key(record: AuditRecord) -> object:
    is_job = record.resource.startswith(JOB_PREFIX)
    return record.user, record.account, record.key, record.operation, record.outcome, is_job or record.resource


def _audit_row(run: Sequence[AuditRecord]) -> AuditRow:
    jobs = [JobId(record.resource[len(JOB_PREFIX) :]) for record in run if record.resource.startswith(JOB_PREFIX)]
    return AuditRow(record=run[0], jobs=tuple(dict.fromkeys(jobs)))
