"""The history of all jobs in SQL: one numbered feed. Each function runs inside one transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from sqlite3 import Connection

from batchq.domain.ids import GroupId, JobId, QueueName
from batchq.ports.history import FeedEnds, FeedEntry, FeedFilter, FeedPage, HistoryEntry
from batchq.store import rows
from batchq.store.quarantine import skip_unreadable
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("history.sql")

#: The numbers that a restore skips. A server may have used them after the backup was made.
NUMBERS_SKIPPED = 10**9


def insert_entries(
    connection: Connection, entries: Sequence[HistoryEntry], sequences: Mapping[JobId, int]
) -> int | None:
    """Insert entries in their order; those of deleted jobs are dropped. Returns the number of the first one, or None.

    The numbers of the others follow. `sequences`: the `Job.sequence` of jobs that the caller knows.
    """
    if other_jobs := set(map(attrgetter("job_id"), entries)) - sequences.keys():
        sequences = {**_sequences(connection, other_jobs), **sequences}
        entries = [entry for entry in entries if entry.job_id in sequences]
        if not entries:
            return None
    first = feed_ends(connection).last + 1
    new: list[Row] = []
    for number, entry in enumerate(entries, first):
        new.append({"number": number, "sequence": sequences[entry.job_id], "value": rows.moment_value(entry)})
    execute_each(connection, SQL["insert"], new)
    return first


def of_job(connection: Connection, job_id: JobId) -> tuple[HistoryEntry, ...]:
    found = connection.execute(SQL["of_job"], {"id": rows.text(job_id)})
    return tuple(skip_unreadable(((job_id, value) for (value,) in found), rows.history_entry_of_row))


def feed(connection: Connection, after: int, wanted: FeedFilter, *, limit: int, scan: int) -> FeedPage:
    ends = feed_ends(connection)
    if after > ends.last:
        return FeedPage(entries=(), next=ends.last, gap=True)
    (through,) = connection.execute(SQL["end_of_scan"], {"after": after, "scan": scan}).fetchone()
    if through is None:
        return FeedPage(entries=(), next=ends.last, gap=after < ends.forgotten_through)
    parameters = {"after": after, "through": through, "limit": limit} | _filters(wanted)
    found = connection.execute(SQL["feed"], parameters).fetchall()
    return FeedPage(
        entries=tuple(skip_unreadable(((row,) for row in found), _feed_entry)),
        next=found[-1][0] if len(found) == limit else through,
        gap=after < ends.forgotten_through,
    )


def feed_ends(connection: Connection) -> FeedEnds:
    newest, forgotten = connection.execute(SQL["ends"]).fetchone()
    return FeedEnds(last=max(newest or 0, forgotten or 0), forgotten_through=forgotten or 0)


def delete_entries(connection: Connection, sequences: Iterable[int]) -> None:
    """Delete the entries of these jobs, and record the highest number that was deleted."""
    deleted = [{"sequence": sequence} for sequence in sequences]
    highest = [connection.execute(SQL["highest_of_job"], document).fetchone()[0] for document in deleted]
    forgotten = max((value for value in highest if value is not None), default=None)
    if forgotten is not None:
        connection.execute(SQL["put_forgotten_through"], {"number": forgotten})
    connection.executemany(SQL["delete_of_job"], deleted)


def skip_numbers(connection: Connection) -> None:
    """Continue at numbers that no server has used, so that a reader with a later number than the backup's sees a gap.

    Readers of the replaced data have read entries that the backup does not contain.
    """
    last = feed_ends(connection).last
    connection.execute(SQL["put_forgotten_through"], {"number": last + NUMBERS_SKIPPED})


def _sequences(connection: Connection, ids: Iterable[JobId]) -> Mapping[JobId, int]:
    stored = {rows.text(job_id): job_id for job_id in ids}
    found = connection.execute(SQL["sequences_of_jobs"], {"ids": json.dumps(list(stored))})
    return {stored[job_id]: sequence for job_id, sequence in found}


def _filters(wanted: FeedFilter) -> dict[str, str | None]:
    visibility = wanted.visibility
    return {
        "user": None if visibility is None else rows.text(visibility.user),
        "accounts": None if visibility is None else rows.json_texts(visibility.accounts),
        "jobs": rows.json_texts(wanted.jobs) if wanted.jobs else None,
        "queues": rows.json_texts(wanted.queues) if wanted.queues else None,
        "groups": rows.json_texts(wanted.groups) if wanted.groups else None,
        "statuses": rows.json_texts(wanted.statuses) if wanted.statuses else None,
    }


def _feed_entry(row: tuple[int, str, str, str, str, str, str, str | None, str | None, str | None]) -> FeedEntry:
    number, job_id, value, name, queue, user, account, group, group_id, notify = row
    return FeedEntry(
        number=number,
        entry=rows.history_entry_of_row(JobId(job_id), value),
        job_name=name,
        queue=QueueName(queue),
        owner=rows.owner(user, account),
        group=group,
        group_id=None if group_id is None else GroupId(group_id),
        notify=notify,
    )
