"""Lists of jobs in SQL.

Every value of the caller is bound, never part of the statement's text, and no value is interpreted as a wildcard.

The rows that are visible to a caller are read by an index for each owner and account, and merged. So the cost of a list
grows with the visible jobs of the caller, not with the jobs of other users.
"""

import heapq
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Literal

from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.domain.ids import QueueName
from batchq.domain.job import QUEUED, Job, Status
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import ChildQuery, Filter, JobQuery
from batchq.store import job_reads, rows
from batchq.store.matching import ANY_REST, folded, number
from batchq.store.statements import named

SQL = named("job_lists.sql")

Row = tuple[Any, ...]

Whose = tuple[Literal["owner", "account"], str]

"""A column and its value."""


def whose(reach: Visibility) -> list[Whose]:
    """The owner and the accounts whose rows are visible."""
    return [("owner", rows.text(reach.user)), *(("account", rows.text(it)) for it in sorted(reach.accounts))]


def merged(walks: Iterable[Iterable[Row]], *, key: Callable[[Row], Any], reverse: bool = False) -> Iterator[Row]:
    """The rows of several iterables, each sorted by `key`, merged in this order without duplicates."""
    for _, same in groupby(heapq.merge(*walks, key=key, reverse=reverse), key=key):
        yield next(same)


Bound = list[str | int]

_MOST_VALUES = 1000

_ORDERS = "SELECT value FROM json_each(?)"


def page(connection: sqlite3.Connection, query: JobQuery) -> tuple[Job, ...]:
    """A page of jobs. Their orders are read from indexes; only the jobs of the page itself are loaded."""
    walks = [None] if query.reach is None else whose(query.reach)
    asked = (select(part, owned, among) for owned in walks for part, among in _parts(query))
    pages = [connection.execute(*it).fetchall() for it in asked]  # fetchall, so that a statement is prepared once
    found = merged(pages, key=itemgetter(0), reverse=True)
    return job_reads.of_orders(connection, [order for (order,) in islice(found, query.limit)])


def page_needing(connection: sqlite3.Connection, query: NeedQuery) -> tuple[Job, ...]:
    return job_reads.of_orders(connection, [order for (order,) in connection.execute(*select_needing(query))])


def list_children(connection: sqlite3.Connection, query: ChildQuery) -> tuple[Job, ...]:
    orders = job_reads.orders_of_children(connection, query.parent)
    below = orders if query.before is None else range(orders.start, min(orders.stop, query.before))
    asked = {**job_reads.bounds(below), "limit": query.limit}
    if query.status is None:
        return job_reads.jobs_of(connection.execute(SQL["children"], asked))
    if query.over and query.status in QUEUED:
        return ()
    if query.over and query.status is Status.FAILED:
        return job_reads.jobs_of(connection.execute(SQL["children_failed_or_queued"], asked))
    return job_reads.jobs_of(connection.execute(SQL["children_with_status"], asked | {"status": query.status.value}))


def unfinished_in(connection: sqlite3.Connection, queue: QueueName) -> int:
    (count,) = connection.execute(SQL["count_unfinished_in_queue"], {"queue": rows.text(queue)}).fetchone()
    return int(count)


def select(query: JobQuery, owned: Whose | None = None, among: frozenset[int] | None = None) -> tuple[str, Bound]:
    """The statement for the orders of a page, and its parameters.

    `owned`: only jobs of this owner or account; the query must have a status then. `among`: only these orders.
    """
    table = "jobs" if owned is None else f"jobs INDEXED BY jobs_by_{owned[0]}"
    conditions = ["parent_ord IS NULL", "queue = ?", "ord < ?"]
    bound: Bound = [rows.text(query.queue), _below(query.before)]
    if query.status is not None:
        conditions.append("status = ?")
        bound.append(query.status.value)
    if among is not None or (query.over and query.status is Status.PENDING):
        conditions.append(f"ord {'NOT IN' if among is None else 'IN'} ({_ORDERS})")
        bound.append(_listed(query.over if among is None else among))
    if owned is not None:
        conditions.append(f"{owned[0]} = ?")
        bound.append(owned[1])
    if query.filter is not None:
        alternatives = [_passes(query.filter, value) for value in query.values]
        conditions.append(any_of([condition for condition, _ in alternatives]))
        bound += [each for _, values in alternatives for each in values]
    bound.append(query.limit)
    where = " AND ".join(conditions)
    return f"SELECT ord FROM {table} WHERE {where} ORDER BY ord DESC LIMIT ?", bound  # noqa: S608 - constant text


def select_needing(query: NeedQuery) -> tuple[str, Bound]:
    """The statement for a page of jobs that require a resource.

    It examines every such job: the query is rare, so no index for its filters is maintained.
    """
    conditions = ["resource = ?", "needed.ord < ?"]
    bound: Bound = [rows.text(query.resource), _below(query.before)]
    if query.status is not None:
        condition, values = _counts_as(query.status, query.over)
        conditions.append(condition)
        bound += values
    if query.reach is not None:
        condition, values = within(query.reach)
        conditions.append(condition)
        bound += values
    if query.name is not None:
        condition, values = like("name", rows.text(folded(query.name)))
        conditions.append(condition)
        bound += values
    bound.append(query.limit)
    where = " AND ".join(conditions)
    source = "job_consumable_resources AS needed CROSS JOIN jobs ON jobs.ord = needed.ord"  # CROSS: in this order
    statement = f"SELECT needed.ord FROM {source} WHERE {where} ORDER BY needed.ord DESC LIMIT ?"  # noqa: S608 - constant text
    return statement, bound


def _counts_as(status: Status, over: frozenset[int]) -> tuple[str, Bound]:
    if over and status is Status.PENDING:
        return f"status = ? AND jobs.ord NOT IN ({_ORDERS})", [status.value, _listed(over)]
    if over and status is Status.FAILED:
        return f"(status = ? OR (status = 'PENDING' AND jobs.ord IN ({_ORDERS})))", [status.value, _listed(over)]
    return "status = ?", [status.value]


def _listed(orders: frozenset[int]) -> str:
    return json.dumps(sorted(orders))


def _parts(query: JobQuery) -> list[tuple[JobQuery, frozenset[int] | None]]:
    """Split a query into parts, each for one statement.

    SQLite limits the number of variables of a statement, and the indexes of owners are sorted by status. PENDING jobs
    that count as FAILED are a part of their own, because the indexes have them under PENDING.
    """
    starts = range(0, len(query.values), _MOST_VALUES) or (0,)
    statuses = [query.status] if query.reach is None or query.status is not None else list(Status)
    over = frozenset[int]() if query.status is None else query.over
    walks: list[tuple[Status | None, frozenset[int] | None]] = [(status, None) for status in statuses]
    if over and query.status is Status.FAILED:
        walks.append((Status.PENDING, over))
    values = [query.values[start : start + _MOST_VALUES] for start in starts]
    return [
        (replace(query, status=status, values=some, over=over), among) for status, among in walks for some in values
    ]


def _below(before: int | None) -> int:
    return rows.GREATEST if before is None else rows.integer(before)


def _passes(by: Filter, value: str) -> tuple[str, Bound]:
    match by:
        case Filter.JOB_NAME:
            return like("name", rows.text(folded(value)))
        case Filter.JOB_DEFINITION:
            return _defines(rows.text(value))
        case Filter.BEFORE_CREATED_AT:
            return _compares("created_at < ?", number(value))
        case Filter.AFTER_CREATED_AT:
            return _compares("created_at > ?", number(value))
        case Filter.SHARE_IDENTIFIER:
            return "share_identifier = ?", [rows.text(value)]


def within(reach: Visibility) -> tuple[str, Bound]:
    """The condition for visible jobs. The accounts are one JSON text: SQLite limits the number of variables."""
    accounts = json.dumps(sorted(reach.accounts))
    return "(jobs.owner = ? OR jobs.account IN (SELECT value FROM json_each(?)))", [rows.text(reach.user), accounts]


def like(column: str, pattern: str) -> tuple[str, Bound]:
    if not pattern.endswith(ANY_REST):
        return f"{column} = ?", [pattern]
    start = pattern.removesuffix(ANY_REST)
    return f"({column} >= ? AND {column} < ?)", [start, start + rows.BEYOND_LETTERS]


def _defines(value: str) -> tuple[str, Bound]:
    name, colon, revision = value.partition(":")
    if not colon:
        return like("definition", value)
    condition, bound = _compares("revision = ?", number(revision))
    return f"(definition = ? AND {condition})", [name, *bound]


def _compares(condition: str, wanted: int | None) -> tuple[str, Bound]:
    return ("FALSE", []) if wanted is None else (condition, [wanted])


def any_of(conditions: Sequence[str]) -> str:
    """The conditions joined by OR as a balanced tree: SQLite limits the depth, which a chain of 1,000 would exceed."""
    if len(conditions) <= 1:
        return next(iter(conditions), "FALSE")
    half = len(conditions) // 2
    return f"({any_of(conditions[:half])} OR {any_of(conditions[half:])})"
