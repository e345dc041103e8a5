"""Deletion of old finished jobs: the methods of RetentionStore. Each is one small transaction. Decision 0017.

An array is deleted with all its children, the children first, and each job with all its rows. The log files cannot be
deleted in a transaction, so their ids are inserted into `discarded_logs` by the same transaction.
"""

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from batchq.domain.ids import JobId, QueueName, stream_name
from batchq.domain.job import tags
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.ports.jobs import Finished, Pruned
from batchq.store import job_reads, job_writes, rows
from batchq.store.statements import named

SQL = named("retention.sql")
_ATTENDANTS = (
    "delete_history",
    "delete_consumable_resources",
    "delete_dependencies",
    "delete_quarantine",
    "delete_spec",
)  # for the rows that belong to a job
_BEFORE_ALL = Finished(at=-1, order=-1)

Connection = sqlite3.Connection


class _Family(NamedTuple):
    """A finished job with the `order` values of its children."""

    place: Finished
    job_id: JobId
    #: Empty unless the job is an array.
    children: range


def prune(
    connection: Connection, before: datetime, keep: Collection[JobId], after: Finished | None, limit: int
) -> Pruned:
    if _forget_submissions(connection, before) >= job_writes.MOST_FORGOTTEN:
        return Pruned(jobs=0, after=after or _BEFORE_ALL)
    at = after or _BEFORE_ALL
    asked = {"before": rows.microseconds(before), "at": at.at, "ord": at.order, "limit": limit}
    families = [_family(*row) for row in connection.execute(SQL["finished_jobs"], asked).fetchall()]
    kept = _Kept(connection, keep)
    gone = 0
    for family in families:
        if not kept.holds(family):
            gone += _forget(connection, family, limit - gone)
        if gone >= limit and _is_there(connection, family):
            return Pruned(jobs=gone, after=at)
        at = family.place
        if gone >= limit:
            return Pruned(jobs=gone, after=at)
    return Pruned(jobs=gone, after=at if len(families) == limit else None)


def discarded(connection: Connection, limit: int) -> tuple[str, ...]:
    return tuple(log_id for (log_id,) in connection.execute(SQL["discarded_logs"], {"limit": limit}))


def forget_discarded(connection: Connection, log_ids: Sequence[str]) -> None:
    connection.executemany(SQL["delete_discarded_log"], [{"log_id": it} for it in log_ids])


def prune_shares(connection: Connection, before: datetime, after: ShareKey | None, limit: int) -> ShareKey | None:
    key = after or ShareKey(QueueName(""), "")
    asked = {"queue": rows.text(key.queue), "share_identifier": rows.text(key.share), "limit": limit}
    found = [rows.share(*row) for row in connection.execute(SQL["share_usage_by_page"], asked).fetchall()]
    old = [it for it, use in found if use.active == 0 and use.millicpus == 0 and use.as_of < before]
    dropped = [{"queue": rows.text(it.queue), "share_identifier": rows.text(it.share)} for it in old]
    connection.executemany(SQL["delete_share_usage"], dropped)
    return found[-1][0] if len(found) == limit else None


def _forget_submissions(connection: Connection, before: datetime) -> int:
    """Delete expired submissions; returns how many.

    They are deleted before jobs, because a retried SubmitJob must not be answered with a deleted job.
    """
    asked = {"before": rows.microseconds(before), "limit": job_writes.MOST_FORGOTTEN}
    return connection.execute(job_writes.SQL["delete_submissions"], asked).rowcount


class _Kept:
    """The finished jobs that are never deleted, however old they are."""

    def __init__(self, connection: Connection, keep: Collection[JobId]) -> None:
        self._connection = connection
        at_work = job_reads.parents_at_work(connection)
        named_by_those = (it.job_id for parent in at_work for it in parent.spec.depends_on if it.job_id is not None)
        self._ids = {*keep, *named_by_those}
        self._newest = connection.execute(SQL["newest_job"]).fetchone()

    def holds(self, family: _Family) -> bool:
        """Whether a job must stay: the newest job, which determines the next `order`; kept ids; dependencies."""
        if family.place.order == self._newest[0] or family.job_id in self._ids:
            return True
        asked = {"id": rows.text(family.job_id)}
        return self._connection.execute(SQL["is_dependency"], asked).fetchone() is not None


def _family(at: int, order: int, job_id: str, array_size: int) -> _Family:
    return _Family(Finished(at=at, order=order), JobId(job_id), range(order + 1, order + 1 + array_size))


def _forget(connection: Connection, family: _Family, limit: int) -> int:
    """Delete at most `limit` rows: the children first, then the job itself. Returns how many were deleted."""
    gone = _forget_rows(connection, family.children, limit) if family.children else 0
    own = range(family.place.order, family.place.order + 1)
    return gone + (_forget_rows(connection, own, 1) if gone < limit else 0)


def _forget_rows(connection: Connection, orders: range, limit: int) -> int:
    asked = {"first": orders.start, "last": orders.stop - 1, "limit": limit}
    found = connection.execute(SQL["rows_of_orders"], asked).fetchall()
    gone = [{"ord": order} for order, _, _ in found]
    for _, state, spec in found:
        _forget_logs(connection, state, spec)
    for statement in (*_ATTENDANTS, "delete_job"):
        connection.executemany(SQL[statement], gone)
    return len(gone)


def _forget_logs(connection: Connection, state: str, spec: str) -> None:
    try:
        job = rows.job(state, spec)
    except rows.WRONG:
        return  # the logs of an unreadable job are unknown, and it must not stop the deletion of newer jobs
    for tag in tags(job):
        name = stream_name(job.spec.definition.name, tag)
        connection.execute(SQL["delete_stream"], {"name": rows.text(name)})
        connection.execute(SQL["insert_discarded_log"], {"log_id": tag.log_id})


def _is_there(connection: Connection, family: _Family) -> bool:
    asked = {"first": family.place.order, "last": family.place.order, "limit": 1}
    return connection.execute(SQL["rows_of_orders"], asked).fetchone() is not None
