"""What is done to the tables of jobs: each function is one transaction, run as a whole in a connection's own thread."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from batchq.domain.container import Resources
from batchq.domain.dependencies import waits_for
from batchq.domain.job import Job, Status
from batchq.domain.names import JobId, QueueName
from batchq.domain.placement import Candidate
from batchq.errors import Conflict
from batchq.store import rows
from batchq.store.statements import named
from batchq.values import Changes, LogStream, Moment, SubmissionKey

SQL = named("jobs.sql")
_MOST_FORGOTTEN = 1000  # at a time, so that no turn pays for all the turns before it
_WAITING = frozenset({Status.SUBMITTED, Status.PENDING})

Connection = sqlite3.Connection

# ------------------------------------------------------------------------------------------------------------ writes


def commit(connection: Connection, changes: Changes) -> None:
    _insert(connection, changes.inserted)
    _update(connection, changes.updated)
    _hold(connection, changes)
    connection.executemany(SQL["insert_moment"], map(rows.moment_row, changes.history))
    connection.executemany(SQL["insert_submission"], map(_submission_row, changes.submissions))
    connection.executemany(SQL["insert_stream"], map(rows.stream_row, changes.streams))
    if changes.forget_before is not None:
        old = {"before": rows.microseconds(changes.forget_before), "limit": _MOST_FORGOTTEN}
        connection.execute(SQL["forget_submissions"], old)


def _insert(connection: Connection, jobs: Sequence[Job]) -> None:
    new = [rows.job_row(job) for job in jobs]
    connection.executemany(SQL["insert_job"], new)
    connection.executemany(SQL["insert_spec"], new)


def _update(connection: Connection, jobs: Sequence[Job]) -> None:
    for job in jobs:
        row = rows.state_row(job, version=job.version + 1)
        if connection.execute(SQL["update_job"], row).rowcount != 1:
            raise Conflict(f"job {job.id} is not at version {job.version}")


def _hold(connection: Connection, changes: Changes) -> None:
    """A job is found by those it waits for as long as it waits, and no longer."""
    new = (job for job in changes.inserted if job.status in _WAITING)
    judged = (job for job in changes.updated if job.status not in _WAITING)
    connection.executemany(SQL["insert_wait"], _waits(new))
    connection.executemany(SQL["delete_wait"], _waits(judged))


def _waits(jobs: Iterable[Job]) -> Iterable[rows.Row]:
    return ({"on_id": rows.text(on_id), "ord": job.order} for job in jobs for on_id in waits_for(job))


def _submission_row(submission: tuple[SubmissionKey, JobId, datetime]) -> rows.Row:
    key, job_id, at = submission
    return _key_row(key) | {"job_id": rows.text(job_id), "at": rows.microseconds(at)}


def _key_row(key: SubmissionKey) -> dict[str, str | int | None]:
    return {
        "principal": rows.text(key.principal),
        "invocation_id": rows.text(key.invocation_id),
        "body_sha256": rows.text(key.body_sha256),
    }


# ------------------------------------------------------------------------------------------------------------- reads


def find(connection: Connection, ids: Sequence[JobId]) -> Mapping[JobId, Job]:
    found = (connection.execute(SQL["job"], {"id": rows.text(job_id)}).fetchone() for job_id in ids)
    jobs = (rows.job(*row) for row in found if row is not None)
    return {job.id: job for job in jobs}


def of_orders(connection: Connection, orders: Iterable[int]) -> tuple[Job, ...]:
    """These jobs, in the order asked."""
    return tuple(rows.job(*row) for order in orders for row in connection.execute(SQL["job_of_order"], {"ord": order}))


def active(connection: Connection) -> tuple[Job, ...]:
    return _jobs(connection.execute(SQL["active"]))


def runnable(connection: Connection, queue: QueueName, limit: int, after: int) -> tuple[Candidate, ...]:
    asked = {"queue": rows.text(queue), "limit": limit, "after": rows.integer(after)}
    return tuple(
        Candidate(
            job_id=JobId(job_id),
            order=order,
            resources=Resources(millicpus=millicpus, memory_mib=memory_mib, gpus=gpus),
        )
        for job_id, order, millicpus, memory_mib, gpus in connection.execute(SQL["runnable"], asked)
    )


def misfits(connection: Connection, limit: int, after: int) -> tuple[Job, ...]:
    asked = {"limit": limit, "after": rows.integer(after)}
    return _jobs(connection.execute(SQL["misfits"], asked))


def dependents(connection: Connection, ids: Sequence[JobId]) -> tuple[Job, ...]:
    asked = ({"on_id": rows.text(job_id)} for job_id in ids)
    found = {job.order: job for each in asked for job in _jobs(connection.execute(SQL["dependents"], each))}
    return tuple(found[order] for order in sorted(found))


def submissions(connection: Connection, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
    found = ((key, connection.execute(SQL["submission"], _key_row(key)).fetchone()) for key in keys)
    return {key: JobId(row[0]) for key, row in found if row is not None}


def last_order(connection: Connection) -> int:
    (order,) = connection.execute(SQL["last_order"]).fetchone()
    return -1 if order is None else int(order)


def unfinished_in(connection: Connection, queue: QueueName) -> int:
    (count,) = connection.execute(SQL["unfinished_in"], {"queue": rows.text(queue)}).fetchone()
    return int(count)


def history(connection: Connection, job_id: JobId) -> tuple[Moment, ...]:
    found = connection.execute(SQL["history"], {"id": rows.text(job_id)})
    return tuple(rows.moment(job_id, value) for (value,) in found)


def stream(connection: Connection, name: str) -> LogStream | None:
    row = connection.execute(SQL["stream"], {"name": rows.text(name)}).fetchone()
    return None if row is None else rows.stream(*row)


def streams(connection: Connection, prefix: str, after: str, limit: int) -> tuple[LogStream, ...]:
    start = rows.text(prefix)
    asked = {
        "start": start,
        "beyond": start + rows.BEYOND_LETTERS,
        "after": rows.text(after),
        "limit": limit,
    }
    return _streams(connection.execute(SQL["streams"], asked))


def newest_streams(connection: Connection, limit: int, offset: int) -> tuple[LogStream, ...]:
    asked = {"limit": limit, "offset": rows.integer(offset)}
    return _streams(connection.execute(SQL["newest_streams"], asked))


def _jobs(found: Iterable[Any]) -> tuple[Job, ...]:
    return tuple(rows.job(*row) for row in found)


def _streams(found: Iterable[Any]) -> tuple[LogStream, ...]:
    return tuple(rows.stream(*row) for row in found)
