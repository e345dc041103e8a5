"""Writes of a unit of work: the rows of jobs and of everything saved with them. Part of one transaction."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import FINISHED, Job
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.errors import Conflict
from batchq.ports.jobs import Changes, Moment, Restoration, SubmissionKey
from batchq.store import audit, log_streams, rows
from batchq.store.statements import Row, each, named

SQL = named("job_writes.sql")

MOST_FORGOTTEN = 1000  # submissions deleted at a time, to bound the cost of one unit of work

Connection = sqlite3.Connection


def commit(connection: Connection, changes: Changes) -> None:
    ends = _ends(changes.history)
    _insert(connection, changes.inserted)
    _update(connection, changes, ends)
    _remember(connection, changes, ends)
    _put_submissions(connection, changes)
    each(connection, log_streams.SQL["insert_stream"], [rows.stream_row(it) for it in changes.streams])
    each(connection, SQL["put_share_usage"], [rows.share_row(*it) for it in changes.shares])
    each(connection, SQL["put_consumed_units"], [_used_up_row(it) for it in changes.used_up])
    audit.insert(connection, changes.acts)
    if changes.restoration is not None:
        put_restoration(connection, changes.restoration)
    if changes.engine_id is not None:
        connection.execute(SQL["put_engine_id"], {"value": rows.text(changes.engine_id)})


def put_restoration(connection: Connection, restoration: Restoration) -> None:
    connection.execute(SQL["put_restoration"], {"value": rows.as_json(restoration)})


def _insert(connection: Connection, jobs: Sequence[Job]) -> None:
    """Insert jobs with their specifications and dependencies. Children share the specification of their array."""
    each(connection, SQL["insert_job"], [rows.job_row(it) for it in jobs])
    own = [job for job in jobs if job.child is None]
    each(connection, SQL["insert_spec"], [rows.spec_row(it) for it in own])
    each(connection, SQL["insert_consumable_resource"], [row for job in own for row in rows.need_rows(job)])
    each(connection, SQL["insert_dependency"], _waits(job for job in jobs if waits(job)))


def _update(connection: Connection, changes: Changes, ends: Mapping[JobId, int]) -> None:
    """Update jobs, with one of three statements, so that only changed columns and indexes are written.

    `update_state` serves jobs that keep their status, `update_job` those with a new status, `finish_job` those that
    ended. Dependencies are deleted once a job no longer waits for them.
    """
    jobs, moved = changes.updated, {it.job_id for it in changes.history}
    staying: list[Row] = []
    moving: list[Row] = []
    over: list[Row] = []
    for job in jobs:
        row = rows.state_row(job, version=job.version + 1)
        if job.id in ends:
            row["finished_at"] = ends[job.id]
            over.append(row)
        else:
            (moving if job.id in moved else staying).append(row)
    written = each(connection, SQL["update_state"], staying)
    # `unschedulable` and `has_array_work` may change without a new status: then all columns are updated.
    if written < len(staying):
        moving += staying
    written += each(connection, SQL["update_job"], moving)
    written += each(connection, SQL["finish_job"], over)
    if written != len(jobs):
        raise Conflict(_not_at_its_version(connection, jobs))
    each(connection, SQL["delete_dependency"], _waits(job for job in jobs if not waits(job)))


def _not_at_its_version(connection: Connection, updated: Sequence[Job]) -> str:
    """The text of the Conflict: the first job that was not updated. The transaction is still open."""
    for job in updated:
        found = connection.execute(SQL["version"], {"id": rows.text(job.id)}).fetchone()
        if found is None or found[0] != job.version + 1:
            return f"job {job.id} is not at version {job.version}"
    return f"one of {len(updated)} jobs is ahead of its version"


def _remember(connection: Connection, changes: Changes, ends: Mapping[JobId, int]) -> None:
    """Insert history entries, and set `finished_at` of ended jobs that `_update` has not written."""
    noted = {job.id for job in changes.updated}
    orders = {job.id: job.order for job in (*changes.inserted, *changes.updated)}
    own: list[Row] = []
    others: list[Row] = []
    for it in changes.history:
        if it.job_id in orders:
            own.append({"ord": orders[it.job_id], "value": rows.moment_value(it)})
        else:
            others.append({"id": rows.text(it.job_id), "value": rows.moment_value(it)})
    each(connection, SQL["insert_history"], own)
    each(connection, SQL["insert_history_by_id"], others)
    late: list[Row] = [{"id": rows.text(it), "at": at} for it, at in ends.items() if it not in noted]
    each(connection, SQL["set_finished_at"], late)


def _ends(history: Iterable[Moment]) -> dict[JobId, int]:
    return {it.job_id: rows.microseconds(it.at) for it in history if it.status in FINISHED}


def _waits(jobs: Iterable[Job]) -> list[Row]:
    return [
        {"dependency_id": rows.text(on), "ord": it.order} for it in jobs if it.spec.depends_on for on in waits_for(it)
    ]


def _used_up_row(used: tuple[ConsumableName, int]) -> Row:
    resource, units = used
    return {"resource": rows.text(resource), "units": rows.integer(units)}


def _put_submissions(connection: Connection, changes: Changes) -> None:
    """Insert submissions, and delete expired ones. Raises Conflict if one is stored already.

    An expired row that is not deleted yet is replaced: a burst may leave more of them than one commit deletes.
    """
    before = 0 if changes.forget_before is None else rows.microseconds(changes.forget_before)
    if before:
        connection.execute(SQL["delete_submissions"], {"before": before, "limit": MOST_FORGOTTEN})
    told = [_submission_row(*it, before=before) for it in changes.submissions]
    if each(connection, SQL["insert_submission"], told) < len(told):
        raise Conflict(f"one of {len(told)} submissions is remembered already")


def _submission_row(key: SubmissionKey, job_id: JobId, at: datetime, *, before: int) -> Row:
    return rows.key_row(key) | {"job_id": rows.text(job_id), "at": rows.microseconds(at), "before": before}
