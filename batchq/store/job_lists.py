"""Lists of jobs in SQL.

Every value of the caller is bound, never written into the statement, and nothing in it is a wildcard to SQL.

The rows that somebody reaches, in their order: those of each owner and account are walked by an index, and merged.

So what is listed costs what is there for the one who lists it, however much others have.
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

"""A column, and what stands in it."""


def whose(reach: Visibility) -> list[Whose]:
    return [("owner", rows.text(reach.user)), *(("account", rows.text(it)) for it in sorted(reach.accounts))]


def merged(walks: Iterable[Iterable[Row]], *, key: Callable[[Row], Any], reverse: bool = False) -> Iterator[Row]:
    """The rows of several walks, each in the order of `key`: all of them in that order, each once."""
    for _, same in groupby(heapq.merge(*walks, key=key, reverse=reverse), key=key):
        yield next(same)


Bound = list[str | int]

_MOST_VALUES = 1000

_ORDERS = "SELECT value FROM json_each(?)"


def page(connection: sqlite3.Connection, query: JobQuery) -> tuple[Job, ...]:
    """The orders come from an index; only the jobs of the page itself are read."""
    walks = [None] if query.reach is None else whose(query.reach)
    asked = (select(part, owned, among) for owned in walks for part, among in _parts(query))
    pages = [connection.execute(*it).fetchall() for it in asked]  # at once, so that a statement is made ready once
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
    """All of them, or one owner's, or one account's of one status; of these orders alone, if any are said."""
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
    return f"SELECT ord FROM {table} WHERE {where} ORDER BY ord DESC LIMIT ?", bound  # noqa: S608 - nobody's words


def select_needing(query: NeedQuery) -> tuple[str, Bound]:
    """Walks the jobs that need the resource, and looks at each: no index is kept up for what is so seldom asked."""
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
    """SQLite has only so many variables for a statement, and the indices of owners hold a status after the other.

    What counts as FAILED is walked for itself: it stands in the indices where its row says.
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
    """The accounts as one JSON text: SQLite has only so many variables for a statement."""
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
    """A balanced tree: SQLite refuses a deep one, as a chain of a thousand would be."""
    if len(conditions) <= 1:
        return next(iter(conditions), "FALSE")
    half = len(conditions) // 2
    return f"({any_of(conditions[:half])} OR {any_of(conditions[half:])})"
