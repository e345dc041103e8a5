"""Reads of the tables of jobs. Each function runs inside one transaction, in the connection's thread.

Functions named as methods of JobStore and its bases are documented there.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.ids import ConsumableName, JobId, QueueName
from batchq.domain.job import Job, Status
from batchq.domain.job_counts import JobGroup
from batchq.domain.scheduling.capacity import Candidate
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.errors import Unreadable
from batchq.ports.jobs import Restoration, SubmissionKey
from batchq.store import rows
from batchq.store.rows import EPOCH
from batchq.store.statements import load_statements

SQL = load_statements("job_reads.sql")

Connection = sqlite3.Connection
T = TypeVar("T")


def find(connection: Connection, ids: Sequence[JobId], visibility: Visibility | None) -> Mapping[JobId, Job]:
    """The jobs with these ids. Jobs outside `reach` are not loaded, so that timing hardly reveals that they exist."""
    visible = dict.fromkeys(ids)
    if visibility is not None:
        owners = connection.execute(SQL["owners_by_id"], _ids(visible))
        visible = dict.fromkeys(JobId(job_id) for job_id, *owner in owners if visibility.has(rows.owner(*owner)))
    found = {job.id: job for job in decode_jobs(connection.execute(SQL["jobs_by_id"], _ids(visible)))}
    return {job_id: found[job_id] for job_id in visible if job_id in found}


def jobs_with_orders(connection: Connection, orders: Sequence[int]) -> tuple[Job, ...]:
    """These jobs, in the given order."""
    found = {
        job.order: job for job in decode_jobs(connection.execute(SQL["jobs_by_order"], {"orders": json.dumps(orders)}))
    }
    return tuple(found[order] for order in orders if order in found)


def _ids(ids: Iterable[JobId]) -> dict[str, str]:
    """The ids as one JSON text: SQLite limits the number of variables, and one statement for each id would be slow."""
    return {"ids": json.dumps([rows.text(job_id) for job_id in ids])}


def active(connection: Connection) -> tuple[Job, ...]:
    return decode_jobs(connection.execute(SQL["active_jobs"]))


def runnable(
    connection: Connection, queue: QueueName, limit: int, after: int, excluding: frozenset[AccountName]
) -> tuple[Candidate, ...]:
    parameters = {"queue": rows.text(queue), "limit": limit, "after": rows.integer(after)} | _excluding(excluding)
    found = connection.execute(SQL["runnable_jobs_excluding" if excluding else "runnable_jobs"], parameters)
    return decode_rows(found, rows.candidate, order=1)


def runnable_in_share(
    connection: Connection,
    key: ShareKey,
    limit: int,
    after: tuple[int, int] | None,
    excluding: frozenset[AccountName],
) -> tuple[Candidate, ...]:
    rank, order = (-rows.MAX_INTEGER, -1) if after is None else (-rows.integer(after[0]), rows.integer(after[1]))
    parameters = {
        "queue": rows.text(key.queue),
        "share_identifier": rows.text(key.share),
        "rank": rank,
        "after": order,
        "limit": limit,
    }
    statement = SQL["runnable_jobs_in_share_excluding" if excluding else "runnable_jobs_in_share"]
    return decode_rows(connection.execute(statement, parameters | _excluding(excluding)), rows.candidate, order=1)


def _excluding(accounts: frozenset[AccountName]) -> dict[str, str]:
    return {"excluding": json.dumps(sorted(accounts))} if accounts else {}


def waiting_shares(connection: Connection, queue: QueueName) -> tuple[str, ...]:
    return tuple(
        share for (share,) in connection.execute(SQL["shares_with_runnable_jobs"], {"queue": rows.text(queue)})
    )


def unschedulable(connection: Connection, limit: int, after: int) -> tuple[Job, ...]:
    parameters = {"limit": limit, "after": rows.integer(after)}
    return decode_jobs(connection.execute(SQL["unschedulable_jobs"], parameters))


def dependents(connection: Connection, ids: Sequence[JobId], after: int, limit: int | None) -> tuple[Job, ...]:
    parameters = {**_ids(ids), "after": after, "limit": -1 if limit is None else limit}
    found = {job.order: job for job in decode_jobs(connection.execute(SQL["dependents"], parameters))}
    return tuple(found[order] for order in sorted(found))


def ended_dependencies(connection: Connection) -> tuple[JobId, ...]:
    return tuple(JobId(job_id) for (job_id,) in connection.execute(SQL["finished_dependencies"]))


def waiting_for_others(connection: Connection) -> int:
    (count,) = connection.execute(SQL["count_of_dependencies"]).fetchone()
    return int(count)


def arrays_with_work(connection: Connection) -> tuple[Job, ...]:
    return decode_jobs(connection.execute(SQL["arrays_with_work"]))


def children(connection: Connection, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
    orders = orders_of_children(connection, parent)
    page = orders[max(first, 0) : max(first, 0) + limit]
    return decode_jobs(connection.execute(SQL["unfinished_children"], order_range(page)))


def orders_of_children(connection: Connection, parent: JobId) -> range:
    """The orders that are reserved for the children of an array; empty for any other job."""
    found = connection.execute(SQL["array"], {"id": rows.text(parent)}).fetchone()
    return range(0) if found is None else range(found[0] + 1, found[0] + 1 + found[1])


def order_range(orders: range) -> dict[str, str | int]:
    """The parameters of a statement on a range of orders."""
    return {"first": orders.start, "last": orders.stop - 1}


def submissions(connection: Connection, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
    found = ((key, connection.execute(SQL["submission"], rows.submission_key_row(key)).fetchone()) for key in keys)
    return {key: JobId(row[0]) for key, row in found if row is not None}


def last_order(connection: Connection) -> int:
    found = connection.execute(SQL["last_order"]).fetchone()
    return -1 if found is None else int(found[0])


def queued(connection: Connection) -> Mapping[AccountName, int]:
    return {AccountName(name): count for name, count in connection.execute(SQL["queued_by_account"])}


def unfinished_counts(connection: Connection) -> Mapping[JobGroup, int]:
    """RUNNABLE jobs are the unfinished ones without those of every other status."""
    counts: Counter[JobGroup] = Counter()
    for queue, account, owner, status, array, number in connection.execute(SQL["unfinished_counts"]):
        runnable = JobGroup(
            queue=QueueName(queue),
            account=AccountName(account),
            user=UserName(owner),
            status=Status.RUNNABLE,
            array=False,
        )
        counts[runnable] += number if status is None else -number
        if status is not None:
            counts[runnable._replace(status=Status(status), array=bool(array))] += number
    return {group: number for group, number in counts.items() if number > 0}


def oldest_runnable(connection: Connection, queues: Iterable[QueueName]) -> Mapping[QueueName, datetime]:
    """Since when the first RUNNABLE job of each queue has been RUNNABLE; queues without one are omitted.

    The first in the order of submission; unschedulable jobs do not count.
    """
    parameters = {"queues": json.dumps([rows.text(it) for it in queues])}
    orders = [order for (order,) in connection.execute(SQL["first_runnable_jobs"], parameters) if order is not None]
    return {
        job.spec.queue: job.runnable_at for job in jobs_with_orders(connection, orders) if job.runnable_at is not None
    }


def shares(connection: Connection) -> Mapping[ShareKey, ShareUse]:
    return dict(_share_usage(connection, found) for found in connection.execute(SQL["share_usage"]))


def used_up(connection: Connection) -> Mapping[ConsumableName, int]:
    return {ConsumableName(resource): units for resource, units in connection.execute(SQL["consumed_units"])}


def restoration(connection: Connection) -> Restoration:
    row = connection.execute(SQL["restoration"]).fetchone()
    return Restoration() if row is None else rows.RESTORATION.decode(row[0])


def engine_id(connection: Connection) -> str | None:
    row = connection.execute(SQL["engine_id"]).fetchone()
    return None if row is None else str(row[0])


def decode_jobs(found: Iterable[Any]) -> tuple[Job, ...]:
    """The jobs of these rows. Raises Unreadable."""
    return decode_rows(found, rows.job_of_row, order=0)


def decode_rows(found: Iterable[Any], make: Callable[[Any], T], *, order: int) -> tuple[T, ...]:
    """The values of all rows. Raises Unreadable with the orders of all rows that cannot be read.

    `order`: the index of the column that has the order.
    """
    values, unreadable = [], []
    for row in found:
        try:
            values.append(make(row))
        except rows.DECODE_ERRORS:
            unreadable.append(row[order])
    if unreadable:
        raise Unreadable(tuple(unreadable))
    return tuple(values)


def _share_usage(connection: Connection, found: tuple[str, str, str]) -> tuple[ShareKey, ShareUse]:
    """The usage of a share. An unreadable value is recounted from its jobs; past usage is lost then."""
    try:
        return rows.share_usage(*found)
    except rows.DECODE_ERRORS:
        queue, share, _ = found
        active, millicpus = connection.execute(
            SQL["share_recount"], {"queue": queue, "share_identifier": share}
        ).fetchone()
        return ShareKey(QueueName(queue), share), ShareUse(active=active, millicpus=millicpus, as_of=EPOCH)
