"""What is done to the tables of jobs: each function is one transaction, run as a whole in a connection's own thread."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from batchq.domain.dependencies import waits, waits_for
from batchq.domain.fairshare import ShareKey, ShareUse
from batchq.domain.job import FINISHED, QUEUED, Job, Status
from batchq.domain.names import ConsumableName, JobId, QueueName
from batchq.domain.people import AccountName, Reach
from batchq.domain.placement import Candidate
from batchq.errors import Conflict, Unreadable
from batchq.store import acts, rows
from batchq.store.matching import EPOCH
from batchq.store.reading import readable
from batchq.store.statements import named
from batchq.values import Changes, ChildQuery, Moment, Restoration, SubmissionKey

SQL = named("jobs.sql")
MOST_FORGOTTEN = 1000  # at a time, so that no turn pays for all the turns before it

Connection = sqlite3.Connection
T = TypeVar("T")

# ------------------------------------------------------------------------------------------------------------ writes


def commit(connection: Connection, changes: Changes) -> None:
    _insert(connection, changes.inserted)
    _update(connection, changes)
    _hold(connection, changes)
    _remember(connection, changes)
    connection.executemany(SQL["insert_submission"], map(_submission_row, changes.submissions))
    connection.executemany(SQL["insert_stream"], map(rows.stream_row, changes.streams))
    connection.executemany(SQL["put_share"], (rows.share_row(*kept) for kept in changes.shares))
    connection.executemany(SQL["put_used_up"], map(_used_up_row, changes.used_up))
    acts.insert(connection, changes.acts)
    if changes.restoration is not None:
        put_restoration(connection, changes.restoration)
    if changes.forget_before is not None:
        old = {"before": rows.microseconds(changes.forget_before), "limit": MOST_FORGOTTEN}
        connection.execute(SQL["forget_submissions"], old)


def put_restoration(connection: Connection, restoration: Restoration) -> None:
    connection.execute(SQL["put_restoration"], {"value": rows.as_json(rows.RESTORATION, restoration)})


def _insert(connection: Connection, jobs: Sequence[Job]) -> None:
    """A child shares what was asked for its array: that is written once."""
    own = [job for job in jobs if job.child is None]
    connection.executemany(SQL["insert_job"], map(rows.job_row, jobs))
    connection.executemany(SQL["insert_spec"], map(rows.spec_row, own))
    connection.executemany(SQL["insert_need"], (row for job in own for row in rows.need_rows(job)))


def _update(connection: Connection, changes: Changes) -> None:
    """What goes on, and what has come to its end: only that is written where it is found by its end."""
    ends = _ends(changes.history)
    going_on, over = [], []
    for job in changes.updated:
        row = rows.state_row(job, version=job.version + 1)
        if job.id in ends:
            over.append(row | {"finished_at": ends[job.id]})
        else:
            going_on.append(row)
    updated = connection.executemany(SQL["update_job"], going_on).rowcount
    updated += connection.executemany(SQL["end_job"], over).rowcount
    if updated != len(changes.updated):
        raise Conflict(_not_at_its_version(connection, changes.updated))


def _not_at_its_version(connection: Connection, updated: Sequence[Job]) -> str:
    """All the others have been updated, for the transaction is still open."""
    for job in updated:
        found = connection.execute(SQL["version"], {"id": rows.text(job.id)}).fetchone()
        if found is None or found[0] != job.version + 1:
            return f"job {job.id} is not at version {job.version}"
    return f"one of {len(updated)} jobs is ahead of its version"


def _remember(connection: Connection, changes: Changes) -> None:
    """Each job's walk, and the ends of those that the update has not noted."""
    orders = {job.id: job.order for job in (*changes.inserted, *changes.updated)}
    own = ({"ord": orders[it.job_id], "value": rows.moment_value(it)} for it in changes.history if it.job_id in orders)
    connection.executemany(SQL["insert_moment"], own)
    others = [it for it in changes.history if it.job_id not in orders]
    told = ({"id": rows.text(it.job_id), "value": rows.moment_value(it)} for it in others)
    connection.executemany(SQL["insert_moment_of"], told)
    noted = {job.id for job in changes.updated}
    ends = _ends(it for it in changes.history if it.job_id not in noted)
    connection.executemany(SQL["note_end"], ({"id": rows.text(it), "at": at} for it, at in ends.items()))


def _ends(history: Iterable[Moment]) -> dict[JobId, int]:
    return {it.job_id: rows.microseconds(it.at) for it in history if it.status in FINISHED}


def _hold(connection: Connection, changes: Changes) -> None:
    """A job is found by those it waits for as long as it waits, and no longer."""
    new = (job for job in changes.inserted if waits(job))
    judged = (job for job in changes.updated if not waits(job))
    connection.executemany(SQL["insert_wait"], _waits(new))
    connection.executemany(SQL["delete_wait"], _waits(judged))


def _waits(jobs: Iterable[Job]) -> Iterable[rows.Row]:
    return ({"on_id": rows.text(on_id), "ord": job.order} for job in jobs for on_id in waits_for(job))


def _used_up_row(used: tuple[ConsumableName, int]) -> rows.Row:
    resource, units = used
    return {"resource": rows.text(resource), "units": rows.integer(units)}


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


def find(connection: Connection, ids: Sequence[JobId], reach: Reach | None) -> Mapping[JobId, Job]:
    """What is not reached is not read, so that hardly the time which that takes tells that it is there."""
    wanted = dict.fromkeys(ids)
    if reach is not None:
        owners = connection.execute(SQL["owners"], _named(wanted))
        wanted = dict.fromkeys(JobId(job_id) for job_id, *owner in owners if reach.has(rows.owner(*owner)))
    found = {job.id: job for job in _jobs(connection.execute(SQL["jobs"], _named(wanted)))}
    return {job_id: found[job_id] for job_id in wanted if job_id in found}


def of_orders(connection: Connection, orders: Sequence[int]) -> tuple[Job, ...]:
    """These jobs, in the order asked."""
    found = {job.order: job for job in _jobs(connection.execute(SQL["jobs_of_orders"], {"orders": json.dumps(orders)}))}
    return tuple(found[order] for order in orders if order in found)


def _named(ids: Iterable[JobId]) -> dict[str, str]:
    """As one JSON text: SQLite has only so many variables, and a statement for each costs more than what it finds."""
    return {"ids": json.dumps([rows.text(job_id) for job_id in ids])}


def active(connection: Connection) -> tuple[Job, ...]:
    return _jobs(connection.execute(SQL["active"]))


def runnable(
    connection: Connection, queue: QueueName, limit: int, after: int, beside: frozenset[AccountName]
) -> tuple[Candidate, ...]:
    asked = {"queue": rows.text(queue), "limit": limit, "after": rows.integer(after)} | _beside(beside)
    found = connection.execute(SQL["runnable_beside" if beside else "runnable"], asked)
    return made(found, rows.candidate, order=1)


def runnable_in_share(
    connection: Connection,
    key: ShareKey,
    limit: int,
    after: tuple[int, int] | None,
    beside: frozenset[AccountName],
) -> tuple[Candidate, ...]:
    rank, order = (-rows.GREATEST, -1) if after is None else (-rows.integer(after[0]), rows.integer(after[1]))
    asked = {"queue": rows.text(key.queue), "share": rows.text(key.share), "rank": rank, "after": order, "limit": limit}
    statement = SQL["runnable_in_share_beside" if beside else "runnable_in_share"]
    return made(connection.execute(statement, asked | _beside(beside)), rows.candidate, order=1)


def _beside(accounts: frozenset[AccountName]) -> dict[str, str]:
    return {"beside": json.dumps(sorted(accounts))} if accounts else {}


def waiting_shares(connection: Connection, queue: QueueName) -> tuple[str, ...]:
    return tuple(share for (share,) in connection.execute(SQL["waiting_shares"], {"queue": rows.text(queue)}))


def misfits(connection: Connection, limit: int, after: int) -> tuple[Job, ...]:
    asked = {"limit": limit, "after": rows.integer(after)}
    return _jobs(connection.execute(SQL["misfits"], asked))


def dependents(connection: Connection, ids: Sequence[JobId]) -> tuple[Job, ...]:
    found = {job.order: job for job in _jobs(connection.execute(SQL["dependents"], _named(ids)))}
    return tuple(found[order] for order in sorted(found))


def waiting_for_others(connection: Connection) -> int:
    (count,) = connection.execute(SQL["waiting_for_others"]).fetchone()
    return int(count)


def parents_at_work(connection: Connection) -> tuple[Job, ...]:
    return _jobs(connection.execute(SQL["parents_at_work"]))


def children(connection: Connection, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
    orders = _children(connection, parent)
    asked = orders[max(first, 0) : max(first, 0) + limit]
    return _jobs(connection.execute(SQL["unfinished_children"], _bounds(asked)))


def list_children(connection: Connection, query: ChildQuery) -> tuple[Job, ...]:
    orders = _children(connection, query.parent)
    below = orders if query.before is None else range(orders.start, min(orders.stop, query.before))
    asked = {**_bounds(below), "limit": query.limit}
    if query.status is None:
        return _jobs(connection.execute(SQL["children"], asked))
    if query.over and query.status in QUEUED:
        return ()
    if query.over and query.status is Status.FAILED:
        return _jobs(connection.execute(SQL["children_failed_or_waiting"], asked))
    return _jobs(connection.execute(SQL["children_of_status"], asked | {"status": query.status.value}))


def _children(connection: Connection, parent: JobId) -> range:
    """The orders that an array keeps for its children."""
    found = connection.execute(SQL["array"], {"id": rows.text(parent)}).fetchone()
    return range(0) if found is None else range(found[0] + 1, found[0] + 1 + found[1])


def _bounds(orders: range) -> dict[str, str | int]:
    return {"first": orders.start, "last": orders.stop - 1}


def submissions(connection: Connection, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
    found = ((key, connection.execute(SQL["submission"], _key_row(key)).fetchone()) for key in keys)
    return {key: JobId(row[0]) for key, row in found if row is not None}


def last_order(connection: Connection) -> int:
    found = connection.execute(SQL["last_order"]).fetchone()
    return -1 if found is None else int(found[0])


def unfinished_in(connection: Connection, queue: QueueName) -> int:
    (count,) = connection.execute(SQL["unfinished_in"], {"queue": rows.text(queue)}).fetchone()
    return int(count)


def queued(connection: Connection) -> Mapping[AccountName, int]:
    return {AccountName(name): count for name, count in connection.execute(SQL["queued"])}


def shares(connection: Connection) -> Mapping[ShareKey, ShareUse]:
    return dict(_share(connection, found) for found in connection.execute(SQL["shares"]))


def used_up(connection: Connection) -> Mapping[ConsumableName, int]:
    return {ConsumableName(resource): units for resource, units in connection.execute(SQL["used_up"])}


def restoration(connection: Connection) -> Restoration:
    row = connection.execute(SQL["restoration"]).fetchone()
    return Restoration() if row is None else rows.RESTORATION.validate_json(row[0])


def history(connection: Connection, job_id: JobId) -> tuple[Moment, ...]:
    found = connection.execute(SQL["history"], {"id": rows.text(job_id)})
    return tuple(readable(((job_id, value) for (value,) in found), rows.moment))


def _jobs(found: Iterable[Any]) -> tuple[Job, ...]:
    return made(found, rows.stored, order=0)


def made(found: Iterable[Any], make: Callable[[Any], T], *, order: int) -> tuple[T, ...]:
    """What the rows make. Raises Unreadable, naming all of them that make nothing; `order` is the column that does."""
    made, unreadable = [], []
    for row in found:
        try:
            made.append(make(row))
        except rows.WRONG:
            unreadable.append(row[order])
    if unreadable:
        raise Unreadable(tuple(unreadable))
    return tuple(made)


def _share(connection: Connection, found: tuple[str, str, str]) -> tuple[ShareKey, ShareUse]:
    """One that cannot be read is counted anew: what it holds is known, and what it held before is forgotten."""
    try:
        return rows.share(*found)
    except rows.WRONG:
        queue, share, _ = found
        active, millicpus = connection.execute(SQL["share_counted"], {"queue": queue, "share": share}).fetchone()
        return ShareKey(QueueName(queue), share), ShareUse(active=active, millicpus=millicpus, as_of=EPOCH)
