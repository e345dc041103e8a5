"""Lists of jobs and of log streams in SQL, a page at a time.

Every value of the caller is bound, never part of the statement's text, and no value is interpreted as a wildcard.

The rows that are visible to a caller are read by an index for each owner and account, and merged. So the cost of a list
grows with the visible rows of the caller, not with the rows of other users.
"""

import heapq
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from sqlite3 import Connection
from typing import Any, Literal

from msgspec.json import Decoder

from batchq.domain.access.accounts import Visibility
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.domain.times import microseconds
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import Age, ChildRun, joined_runs
from batchq.ports.logs import LogStream
from batchq.ports.queue import PlacedJobs, waiting_job
from batchq.store import job_reads, rows
from batchq.store.quarantine import skip_unreadable
from batchq.store.rows import WILDCARD, parse_integer
from batchq.store.statements import load_statements

SQL = load_statements("lists.sql")
LISTED = "SELECT value FROM json_each(?)"  # the values of a set that is bound as one JSON text
_STATUSES = Decoder(list[str])

Row = tuple[Any, ...]
#: The parameters of a statement.
Values = list[str | int]
#: A column and its value.
VisibleColumn = tuple[Literal["owner", "account"], str]


def list_jobs_requiring(connection: Connection, query: NeedQuery) -> tuple[Job, ...]:
    return job_reads.jobs_with_sequences(
        connection, [sequence for (sequence,) in connection.execute(*select_requiring(query))]
    )


def placed_jobs(connection: Connection, ids: Sequence[JobId], *, visibility: Visibility | None) -> PlacedJobs:
    jobs = job_reads.find_jobs(connection, ids, visibility=visibility)
    waiting = [waiting_job(job) for job in jobs.values() if is_queued_for_placement(job)]
    return PlacedJobs(jobs=jobs, places=job_reads.places(connection, waiting))


def child_runs(connection: Connection, parent: JobId) -> tuple[ChildRun, ...]:
    sequences = job_reads.sequences_of_children(connection, parent)
    return joined_runs(_runs(connection, sequences, first_child=sequences.start))


def _runs(connection: Connection, sequences: range, *, first_child: int) -> Iterator[ChildRun]:
    """The runs of the children in a range of sequences. `first_child`: the sequence of the child with index 0.

    The statement returns no sequences between the first and the last. If some are missing, each half is read again.
    """
    first, last, listed = connection.execute(
        SQL["statuses_of_children"], job_reads.sequence_range(sequences)
    ).fetchone()
    statuses = _STATUSES.decode(listed)
    if statuses and len(statuses) <= last - first:
        middle = (first + last + 1) // 2
        yield from _runs(connection, range(first, middle), first_child=first_child)
        yield from _runs(connection, range(middle, last + 1), first_child=first_child)
        return
    end = (first or 0) - first_child
    for status, equal in groupby(statuses):
        start, end = end, end + len(list(equal))
        yield ChildRun(Status(status), start, end)


def count_unfinished(connection: Connection, queue: QueueName) -> int:
    (count,) = connection.execute(SQL["count_unfinished_in_queue"], {"queue": rows.text(queue)}).fetchone()
    return int(count)


def find_stream(connection: Connection, name: str) -> LogStream | None:
    row = connection.execute(SQL["stream"], {"name": rows.text(name)}).fetchone()
    return None if row is None else next(skip_unreadable([row], rows.log_stream_of_row), None)


def streams_by_name(
    connection: Connection, *, prefix: str = "", after: str = "", limit: int = 50, visibility: Visibility | None = None
) -> tuple[LogStream, ...]:
    start = rows.text(prefix)
    parameters = {"start": start, "beyond": start + rows.AFTER_ANY_SUFFIX, "after": rows.text(after)}
    if visibility is None:
        found: Iterable[Any] = connection.execute(SQL["streams_by_name"], parameters)
    else:
        found = merge_sorted(
            execute_for_visible(connection, SQL, "streams_by_name", parameters, visibility), key=itemgetter(0)
        )
    return tuple(islice(skip_unreadable(found, rows.log_stream_of_row), limit))


def newest_streams(
    connection: Connection, *, limit: int = 50, before: Age | None = None, visibility: Visibility | None = None
) -> tuple[LogStream, ...]:
    at, name = (rows.MAX_INTEGER, "") if before is None else (microseconds(before[0]), rows.text(before[1]))
    parameters: dict[str, str | int] = {"at": at, "name": name}
    if visibility is None:
        found: Iterable[Any] = connection.execute(SQL["newest_streams"], parameters)
    else:
        streams = execute_for_visible(connection, SQL, "newest_streams", parameters, visibility)
        found = (row[:2] for row in merge_sorted(streams, key=itemgetter(2, 0), reverse=True))
    return tuple(islice(skip_unreadable(found, rows.log_stream_of_row), limit))


def visible_columns(visibility: Visibility) -> list[VisibleColumn]:
    """The owner and the accounts whose rows are visible."""
    return [
        ("owner", rows.text(visibility.user)),
        *(("account", rows.text(name)) for name in sorted(visibility.accounts)),
    ]


def execute_for_visible(
    connection: Connection,
    statements: Mapping[str, str],
    name: str,
    parameters: Mapping[str, str | int | None],
    visibility: Visibility,
) -> list[sqlite3.Cursor]:
    """The rows of the visible owner, by the statement `NAME_of_owner`, and of each account, by `NAME_of_account`."""
    return [
        connection.execute(statements[f"{name}_of_{column}"], {**parameters, column: value})
        for column, value in visible_columns(visibility)
    ]


def merge_sorted(
    sorted_rows: Iterable[Iterable[Row]], *, key: Callable[[Row], Any], reverse: bool = False
) -> Iterator[Row]:
    """The rows of several iterables, each sorted by `key`, merged in this order without duplicates."""
    for _, same in groupby(heapq.merge(*sorted_rows, key=key, reverse=reverse), key=key):
        yield next(same)


def select_requiring(query: NeedQuery) -> tuple[str, Values]:
    """The statement for a page of jobs that require a resource.

    It examines every such job: the query is rare, so no index for its filters is maintained.
    """
    conditions = ["resource = ?", "needed.sequence < ?"]
    before = rows.MAX_INTEGER if query.before is None else rows.integer(query.before)
    parameters: Values = [rows.text(query.resource), before]
    if query.status is not None:
        condition, values = _has_listed_status(query.status, query.ended_arrays)
        conditions.append(condition)
        parameters += values
    if query.visibility is not None:
        condition, values = is_visible(query.visibility)
        conditions.append(condition)
        parameters += values
    if query.name is not None:
        condition, values = matches_name("name", rows.text(query.name.lower()))
        conditions.append(condition)
        parameters += values
    parameters.append(query.limit)
    where = " AND ".join(conditions)
    source = (
        "job_consumable_resources AS needed CROSS JOIN jobs ON jobs.sequence = needed.sequence"  # CROSS: in this order
    )
    statement = f"SELECT needed.sequence FROM {source} WHERE {where} ORDER BY needed.sequence DESC LIMIT ?"  # noqa: S608 - constant text
    return statement, parameters


def _has_listed_status(status: Status, over: frozenset[int]) -> tuple[str, Values]:
    if over and status is Status.PENDING:
        return f"status = ? AND jobs.sequence NOT IN ({LISTED})", [status.value, _json_array(over)]
    if over and status is Status.FAILED:
        return f"(status = ? OR (status = 'PENDING' AND jobs.sequence IN ({LISTED})))", [
            status.value,
            _json_array(over),
        ]
    return "status = ?", [status.value]


def _json_array(sequences: frozenset[int]) -> str:
    return json.dumps(sorted(sequences))


def is_visible(visibility: Visibility) -> tuple[str, Values]:
    """The condition for visible jobs. The accounts are one JSON text: SQLite limits the number of variables."""
    values: Values = [rows.text(visibility.user), rows.json_texts(visibility.accounts)]
    return "(jobs.owner = ? OR jobs.account IN (SELECT value FROM json_each(?)))", values


def matches_name(column: str, pattern: str) -> tuple[str, Values]:
    if not pattern.endswith(WILDCARD):
        return f"{column} = ?", [pattern]
    start = pattern.removesuffix(WILDCARD)
    return f"({column} >= ? AND {column} < ?)", [start, start + rows.AFTER_ANY_SUFFIX]


def matches_definition(value: str, table: str = "jobs") -> tuple[str, Values]:
    name, colon, revision = value.partition(":")
    if not colon:
        return matches_name(f"{table}.definition", value)
    number = parse_integer(revision)
    if number is None:
        return "FALSE", []
    return f"({table}.definition = ? AND {table}.revision = ?)", [name, number]


def any_of(conditions: Sequence[str]) -> str:
    """The conditions joined by OR as a balanced tree: SQLite limits the depth, which a chain of 1,000 would exceed."""
    if len(conditions) <= 1:
        return next(iter(conditions), "FALSE")
    half = len(conditions) // 2
    return f"({any_of(conditions[:half])} OR {any_of(conditions[half:])})"
