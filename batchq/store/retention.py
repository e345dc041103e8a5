"""Deletion of old finished jobs: the methods of RetentionStore. Each is one small transaction. Decision 0017.

An array is deleted with all its children, the children first, and each job with all its rows. The log files cannot be
deleted in a transaction, so their ids are inserted into `discarded_logs` by the same transaction.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from sqlite3 import Connection
from typing import NamedTuple

from msgspec.structs import replace

from batchq.domain.ids import JobId, QueueName, stream_name
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.domain.times import microseconds
from batchq.ports.jobs import Finished, Pruned
from batchq.store import groups, history, job_reads, job_writes, rows
from batchq.store.statements import load_statements

SQL = load_statements("retention.sql")
_DELETE_ROWS_OF_JOB = (
    "delete_consumable_resources",
    "delete_dependencies",
    "delete_quarantine",
    "delete_spec",
)  # for the rows that belong to a job
_START = Finished(at=-1, sequence=-1)


class _FinishedJob(NamedTuple):
    """A finished job with the `sequence` values of its children."""

    position: Finished
    job_id: JobId
    #: Empty unless the job is an array.
    children: range


def prune(
    connection: Connection, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
) -> Pruned:
    pruned = _prune_jobs(connection, before, keep=keep, after=after, limit=limit)
    if pruned.after is None and _delete_submissions(connection, before) >= job_writes.MAX_SUBMISSIONS_DELETED:
        return replace(pruned, after=after or _START)
    return pruned


def _prune_jobs(
    connection: Connection, before: datetime, *, keep: Collection[JobId], after: Finished | None, limit: int
) -> Pruned:
    at = after or _START
    parameters = {"before": microseconds(before), "at": at.at, "sequence": at.sequence, "limit": limit}
    jobs = [_finished_job(*row) for row in connection.execute(SQL["finished_jobs"], parameters).fetchall()]
    kept = _KeptJobs(connection, keep)
    deleted = 0
    for job in jobs:
        if not kept.holds(job):
            deleted += _delete_job(connection, job, limit - deleted)
        if deleted >= limit and _exists(connection, job):
            return Pruned(jobs=deleted, after=at)
        at = job.position
        if deleted >= limit:
            return Pruned(jobs=deleted, after=at)
    return Pruned(jobs=deleted, after=at if len(jobs) == limit else None)


def deleted_log_ids(connection: Connection, limit: int, *, after: str = "") -> tuple[str, ...]:
    parameters = {"after": after, "limit": limit}
    return tuple(log_id for (log_id,) in connection.execute(SQL["discarded_logs"], parameters))


def mark_deleted(connection: Connection, log_ids: Sequence[str]) -> None:
    connection.executemany(SQL["delete_discarded_log"], [{"log_id": log_identifier} for log_identifier in log_ids])


def prune_shares(
    connection: Connection, before: datetime, *, after: ShareKey | None = None, limit: int
) -> ShareKey | None:
    key = after or ShareKey(QueueName(""), "")
    parameters = {"queue": rows.text(key.queue), "share_identifier": rows.text(key.share), "limit": limit}
    found = [rows.share_usage(*row) for row in connection.execute(SQL["share_usage_by_page"], parameters).fetchall()]
    old = [share_key for share_key, use in found if use.active == 0 and use.millicpus == 0 and use.as_of < before]
    dropped = [
        {"queue": rows.text(share_key.queue), "share_identifier": rows.text(share_key.share)} for share_key in old
    ]
    connection.executemany(SQL["delete_share_usage"], dropped)
    return found[-1][0] if len(found) == limit else None


def _delete_submissions(connection: Connection, before: datetime) -> int:
    """Delete old submissions of deleted jobs; returns how many.

    Those of other jobs stay: they are as old as `before` also when a reboot has set the clock ahead. Decision 0122.
    """
    parameters = {"before": microseconds(before), "limit": job_writes.MAX_SUBMISSIONS_DELETED}
    return connection.execute(SQL["delete_submissions_of_deleted_jobs"], parameters).rowcount


class _KeptJobs:
    """The finished jobs that are never deleted, however old they are."""

    def __init__(self, connection: Connection, keep: Collection[JobId]) -> None:
        self._connection = connection
        working = job_reads.arrays_with_work(connection)
        dependencies = (
            dependency.job_id
            for parent in working
            for dependency in parent.spec.depends_on
            if dependency.job_id is not None
        )
        self._ids = {*keep, *dependencies}
        self._newest = connection.execute(SQL["newest_job"]).fetchone()

    def holds(self, job: _FinishedJob) -> bool:
        """Whether a job must not be deleted.

        That is the newest job, whose `sequence` determines the next one; jobs that the caller keeps; and jobs on which
        others depend.
        """
        if job.position.sequence == self._newest[0] or job.job_id in self._ids:
            return True
        parameters = {"id": rows.text(job.job_id)}
        return self._connection.execute(SQL["is_dependency"], parameters).fetchone() is not None


def _finished_job(at: int, sequence: int, job_id: str, array_size: int) -> _FinishedJob:
    return _FinishedJob(
        Finished(at=at, sequence=sequence), JobId(job_id), range(sequence + 1, sequence + 1 + array_size)
    )


def _delete_job(connection: Connection, job: _FinishedJob, limit: int) -> int:
    """Delete at most `limit` rows: the children first, then the job itself. Returns how many were deleted."""
    deleted = _delete_rows(connection, job.children, limit) if job.children else 0
    own = range(job.position.sequence, job.position.sequence + 1)
    return deleted + (_delete_rows(connection, own, 1) if deleted < limit else 0)


def _delete_rows(connection: Connection, sequences: range, limit: int) -> int:
    parameters = {"first": sequences.start, "last": sequences.stop - 1, "limit": limit}
    found = connection.execute(SQL["rows_of_sequences"], parameters).fetchall()
    deleted = [{"sequence": sequence} for sequence, *_ in found]
    history.delete_entries(connection, [sequence for sequence, *_ in found])
    for _, state, spec, _ in found:
        _delete_logs(connection, state, spec)
    for statement in (*_DELETE_ROWS_OF_JOB, "delete_job"):
        connection.executemany(SQL[statement], deleted)
    groups.delete_empty_groups(connection, {group_id for *_, group_id in found if group_id is not None})
    return len(deleted)


def _delete_logs(connection: Connection, state: str, spec: str) -> None:
    try:
        job = rows.job(state, spec)
    except rows.DECODE_ERRORS:
        return  # the logs of an unreadable job are unknown, and it must not stop the deletion of newer jobs
    for tag in container_tags(job):
        name = stream_name(job.spec.definition.name, tag)
        connection.execute(SQL["delete_stream"], {"name": rows.text(name)})
        connection.execute(SQL["insert_discarded_log"], {"log_id": tag.log_id})


def _exists(connection: Connection, job: _FinishedJob) -> bool:
    parameters = {"first": job.position.sequence, "last": job.position.sequence, "limit": 1}
    return connection.execute(SQL["rows_of_sequences"], parameters).fetchone() is not None
