"""Rows that stand for several jobs of a group or an array, or for consecutive equal events or audit records."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from batchq.api.console.job_words import entry_words
from batchq.domain.access.audit import AuditRecord
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, group_path, job_path, parent_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import latest_order
from batchq.ports.history import FeedEntry

MIN_RECORDS = 3  # audit records that become one row
JOB_PREFIX = "job/"


class SweepPages(Struct, frozen=True, kw_only=True):
    """The pages of a group or an array."""

    name: str
    path: str
    #: The path of the list of its jobs.
    list_path: str
    #: The words for one of its jobs and for several.
    words: tuple[str, str]


class ActiveRow(Struct, frozen=True, kw_only=True):
    """A job that runs, or the jobs of a group or an array in one status."""

    #: The job, or the first of them.
    job: Job
    #: The group or the array; None: it is one job.
    sweep: SweepPages | None
    count: int


class EventRow(Struct, frozen=True, kw_only=True):
    """An event, or consecutive equal events of children of one array, or of jobs of one group."""

    #: The newest event.
    event: FeedEntry
    #: The array; None: it is one event, or events of jobs of a group.
    array: JobId | None
    #: The name of the group of several events; None: they are of an array, or it is one event.
    group: str | None
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
    """A row for each job, and one for the jobs of a group or an array in the same status, by their first jobs."""
    rows: dict[tuple[str, Status], list[Job]] = {}
    for job in jobs:
        rows.setdefault((sweep_key(job), job.status), []).append(job)
    return [
        ActiveRow(job=found[0], sweep=sweep_pages(found[0]) if len(found) > 1 else None, count=len(found))
        for found in rows.values()
    ]


def sweep_key(job: Job) -> str:
    """The id of the group of a job, else that of its array, else its own."""
    if job.spec.group is not None and not is_parent(job):
        return job.spec.group.id
    return job.id if job.child is None else job.child.parent


def sweep_pages(job: Job) -> SweepPages | None:
    """The pages of the group of a job, else of its array; None: the job is in neither."""
    if job.spec.group is not None:
        path, listed = group_path(job.spec.group.id), f"/ui/jobs?group={job.spec.group.id}"
        return SweepPages(name=job.spec.group.name, path=path, list_path=listed, words=("job", "jobs"))
    if job.child is not None:
        path = job_path(job.child.parent)
        return SweepPages(name=job.spec.name, path=path, list_path=f"{path}/children", words=("child", "children"))
    return None


def event_rows(events: Iterable[FeedEntry]) -> list[EventRow]:
    """A row for each event; consecutive equal events of children of one array, or of jobs of one group, are one row."""
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
    if (child is None and event.group is None) or event.entry.group_end is not None:
        return event.number
    whole = child[0] if child is not None else (event.group, event.owner, event.queue)
    return whole, event.entry.kind, entry_words(event.entry), event.entry.attempt


def _event_row(run: Sequence[FeedEntry]) -> EventRow:
    children = [child for event in run if (child := parent_of(event.entry.job_id)) is not None]
    indexes = [index for _, index in children] or [0]
    array = children[0][0] if len(run) > 1 and children else None
    group = run[0].group if len(run) > 1 and not children else None
    count = len({event.entry.job_id for event in run})
    return EventRow(event=run[0], array=array, group=group, count=count, first=min(indexes), last=max(indexes))


def _audit_key(record: AuditRecord) -> object:
    is_job = record.resource.startswith(JOB_PREFIX)
    return record.user, record.account, record.key, record.operation, record.outcome, is_job or record.resource


def _audit_row(run: Sequence[AuditRecord]) -> AuditRow:
    jobs = [JobId(record.resource[len(JOB_PREFIX) :]) for record in run if record.resource.startswith(JOB_PREFIX)]
    return AuditRow(record=run[0], jobs=tuple(dict.fromkeys(jobs)))
