"""The job search in SQL: merges walks of indexes, newest first, and stops after a bounded number of rows.

A walk reads one stretch of an index downwards, a chunk at a time. Always the walk that is least far is continued, so
that the positions of all walks descend together: what has been found above the highest of them is complete. When the
page is full, or the bound is reached, this position is where the next page continues.

Each chunk is one aggregate of SQLite, which counts the rows and returns the matching orders: the interpreter lock of
Python is held once for a chunk, not for each row.
"""

import json
import sqlite3
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from datetime import timedelta
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec import Struct

from batchq.domain.ids import JobId
from batchq.errors import Unavailable
from batchq.ports.job_search import JobPage, JobSearchQuery, SearchOrder, SearchPosition
from batchq.store import job_reads, rows
from batchq.store.search_conditions import (
    Condition,
    T,
    Value,
    conditions,
    finished_at,
    json_texts,
)

MAX_ROWS = 50_000  # rows of an index that are read for one page
ROW_COST = 5  # a row of the table costs as much as so many rows of an index
MIN_CHUNK, MAX_CHUNK, CHUNK_GROWTH = 64, 16_384, 4  # rows of a walk that are read at a time

Connection = sqlite3.Connection

#: The columns of the table that conditions read.
COLUMNS = frozenset(
    {
        "ord",
        "id",
        "queue",
        "status",
        "created_at",
        "finished_at",
        "owner",
        "account",
        "name",
        "definition",
        "revision",
        "share_identifier",
        "parent_ord",
    }
)
_TOP = SearchPosition(rows.MAX_INTEGER, rows.MAX_INTEGER)
_EXPENSIVE = "The search needs more steps than one request may take: use fewer patterns, or more exact ones."


class Stretch(Struct, frozen=True, kw_only=True):
    """A stretch of an index, or of the table, that a walk reads downwards."""

    #: The table, with its index.
    source: str
    #: The condition of the stretch, with named parameters.
    where: str = "TRUE"
    parameters: dict[str, Value] = {}
    #: The columns that are read without the row of the table.
    columns: frozenset[str] = COLUMNS
    #: The cost of one of its rows, in rows of an index.
    cost: int = 1
    #: Whether it is sorted by end; else by order.
    by_end: bool = False


class Walk:
    """The state of one walk, and its statements."""

    def __init__(self, stretch: Stretch, query: JobSearchQuery, *, chunk: int) -> None:
        """`chunk`: how many rows are read first."""
        #: All rows of the stretch with this key or a greater one have been read.
        self.position = query.before or _TOP
        self.chunk = chunk
        #: The cost of all rows that were read.
        self.cost = 0
        #: Whether all rows of the stretch have been read.
        self.at_end = False
        self._stretch = stretch
        self._statement, self._parameters = _statement(stretch, conditions(query))

    def advance(self, connection: Connection, budget: int) -> list[SearchPosition]:
        """Read the next chunk, and return the keys of its matching rows. `budget`: the most that it may cost."""
        limit = max(1, min(self.chunk, budget // self._stretch.cost))
        bounds: dict[str, Value] = {"at": self.position.at, "order": self.position.order, "limit": limit}
        found = connection.execute(self._statement, self._parameters | bounds).fetchone()
        count, lowest, own_rows, matching = found
        if count:
            self.cost += count * self._stretch.cost + own_rows * ROW_COST
            self.position = self._key(connection, bounds, count) if self._stretch.by_end else SearchPosition(0, lowest)
        self.at_end = count < limit
        self.chunk = min(self.chunk * CHUNK_GROWTH, MAX_CHUNK)
        return [SearchPosition(*it) for it in json.loads(matching)]

    def _key(self, connection: Connection, bounds: dict[str, Value], count: int) -> SearchPosition:
        """The key of the last row that was read. Several rows may have ended at the same time."""
        statement = f"SELECT finished_at, ord FROM {_chunk(self._stretch)} LIMIT 1 OFFSET :skipped"  # noqa: S608 - text of this module only
        parameters = self._stretch.parameters | bounds | {"skipped": count - 1}
        return SearchPosition(*connection.execute(statement, parameters).fetchone())


def search(connection: Connection, query: JobSearchQuery) -> JobPage:
    """See `JobSearch.search`."""
    if (source := _small_source(connection, query)) is not None:
        return _page(connection, query, _sorted_keys(connection, query, source), None)
    stretches = _stretches(connection, query)
    fair = MAX_ROWS // (2 * ROW_COST * max(1, len(stretches)))  # so that each walk begins within the bound
    chunk = max(1, min(max(MIN_CHUNK, query.limit + 1), fair))
    return _page(connection, query, *_merge(connection, query, [Walk(it, query, chunk=chunk) for it in stretches]))


def _merge(
    connection: Connection, query: JobSearchQuery, walks: Sequence[Walk]
) -> tuple[list[SearchPosition], SearchPosition | None]:
    """The keys that were found, ascending, and the position down to which they are complete; None: all of them are."""
    found = [it for it in _ended_arrays(connection, query) if query.before is None or it < query.before]
    found.sort()
    waiting = [(_descending(it.position), number) for number, it in enumerate(walks)]
    heapify(waiting)
    budget = MAX_ROWS
    while waiting:
        _, number = heappop(waiting)
        walk = walks[number]
        has_begun = walk.position != (query.before or _TOP)
        if has_begun and (budget <= 0 or len(found) - bisect_left(found, walk.position) > query.limit):
            return found, walk.position
        spent = walk.cost
        try:
            keys = walk.advance(connection, budget)
        except sqlite3.OperationalError as why:
            if "interrupted" not in str(why):
                raise
            if has_begun:
                return found, walk.position
            raise Unavailable(_EXPENSIVE) from why
        budget -= walk.cost - spent
        for key in keys:
            if (at := bisect_left(found, key)) == len(found) or found[at] != key:  # two walks may find the same job
                insort(found, key)
        if not walk.at_end:
            heappush(waiting, (_descending(walk.position), number))
    return found, None


def _descending(position: SearchPosition) -> tuple[int, int]:
    return -position.at, -position.order


def _page(
    connection: Connection, query: JobSearchQuery, found: Sequence[SearchPosition], floor: SearchPosition | None
) -> JobPage:
    """`found`: keys, ascending, complete down to `floor` (None: all keys that there are)."""
    certain = found if floor is None else found[bisect_left(found, floor) :]
    keys = certain[: -query.limit - 1 : -1]
    then = keys[-1] if len(certain) > query.limit else floor
    jobs = job_reads.jobs_with_orders(connection, [it.order for it in keys])
    if then is None:
        return JobPage(jobs=jobs, next=None, searched_back_to=None)
    by_end = query.order_by is SearchOrder.ENDED
    back_to = rows.EPOCH + timedelta(microseconds=then.at) if by_end else rows.EPOCH + _created(connection, then.order)
    return JobPage(jobs=jobs, next=then, searched_back_to=back_to)


def _created(connection: Connection, order: int) -> timedelta:
    """When the first job that is not older than `order` was created, since the epoch. A child counts as its array."""
    root = "SELECT coalesce(parent_ord, ord) FROM jobs WHERE ord >= ? LIMIT 1"
    statement = f"SELECT created_at FROM jobs WHERE ord = ({root})"  # noqa: S608 - text of this module only
    (created_at,) = connection.execute(statement, [order]).fetchone() or (0,)
    return timedelta(milliseconds=created_at)


# --------------------------------------------------------------------------------------------------- few jobs, sorted


def _small_source(connection: Connection, query: JobSearchQuery) -> Stretch | None:
    """The rows of a query that names its jobs; None if it does not."""
    if query.ids is not None:
        where = "jobs.id IN (SELECT value FROM json_each(:ids))"
        return Stretch(source="jobs", where=where, parameters={"ids": json_texts(query.ids)})
    if query.id_prefix is not None:
        return _with_prefix(query.id_prefix)
    if query.parent is not None and query.order_by is SearchOrder.ENDED:
        return _children_of(connection, query.parent)
    return None


def _with_prefix(prefix: str) -> Stretch:
    """Whole jobs are found by seeking from one to the next: an array and its children share the prefix."""
    parameters: dict[str, Value] = {"prefix": rows.text(prefix), "beyond": rows.text(prefix) + rows.AFTER_ANY_SUFFIX}
    if ":" in prefix:
        return Stretch(source="jobs", where="jobs.id >= :prefix AND jobs.id < :beyond", parameters=parameters)
    ids = """
        WITH RECURSIVE named (id) AS (
            SELECT min(id) FROM jobs AS first WHERE first.id >= :prefix AND first.id < :beyond
            UNION ALL
            SELECT (SELECT min(id) FROM jobs AS next WHERE next.id > named.id || ';' AND next.id < :beyond)
            FROM named WHERE named.id IS NOT NULL
        )
        SELECT id FROM named WHERE id IS NOT NULL LIMIT 1000
    """
    return Stretch(source="jobs", where=f"jobs.id IN ({ids})", parameters=parameters)


def _children_of(connection: Connection, parent: JobId) -> Stretch:
    orders = job_reads.orders_of_children(connection, parent)
    parameters: dict[str, Value] = {"first": orders.start, "last": orders.stop - 1}
    where = "jobs.ord BETWEEN :first AND :last"
    return Stretch(source="jobs", where=where, parameters=parameters, cost=ROW_COST)


def _sorted_keys(connection: Connection, query: JobSearchQuery, source: Stretch) -> list[SearchPosition]:
    """The keys of the first matching rows of `source`, ascending: one more than the page has."""
    end = finished_at(query)
    by_end = query.order_by is SearchOrder.ENDED
    at = Condition(columns=end.columns, text=end.text if by_end else "0", values=end.values if by_end else ())
    named = _Named()
    where = [source.where, *(named.text(it, "jobs") for it in conditions(query))]
    key = named.text(at, "jobs")
    before = query.before or _TOP
    statement = (
        f"SELECT * FROM (SELECT {key} AS at, jobs.ord AS ord FROM {source.source} WHERE {' AND '.join(where)}) "  # noqa: S608 - text of this module only
        "WHERE at IS NOT NULL AND (at, ord) < (:at, :order) ORDER BY at DESC, ord DESC LIMIT :limit"
    )
    bounds = {"at": before.at, "order": before.order, "limit": query.limit + 1}
    found = connection.execute(statement, source.parameters | named.parameters | bounds)
    return [SearchPosition(*it) for it in found][::-1]


def _ended_arrays(connection: Connection, query: JobSearchQuery) -> Iterable[SearchPosition]:
    """The arrays of a search by end that an order has ended: their rows are not in the indexes by end yet."""
    if query.order_by is not SearchOrder.ENDED or not query.ended_arrays:
        return []
    orders = json.dumps(sorted(query.ended_arrays))
    where = "jobs.ord IN (SELECT value FROM json_each(:orders)) AND jobs.status = 'PENDING'"
    return _sorted_keys(connection, query, Stretch(source="jobs", where=where, parameters={"orders": orders}))


# -------------------------------------------------------------------------------------------------------- the stretches


def _stretches(connection: Connection, query: JobSearchQuery) -> Sequence[Stretch]:
    """Stretches of indexes that together contain all jobs that match."""
    if query.order_by is SearchOrder.ENDED:
        return [_finished()]
    if query.parent is not None:
        return [_children_of(connection, query.parent)]
    return [Stretch(source="jobs NOT INDEXED", cost=ROW_COST)]


def _finished() -> Stretch:
    source = "jobs INDEXED BY jobs_finished"
    where = "jobs.finished_at IS NOT NULL AND jobs.parent_ord IS NULL"
    return Stretch(source=source, where=where, columns=frozenset({"finished_at", "ord"}), by_end=True)


# ---------------------------------------------------------------------------------------------------------- statements


class _Named:
    """Gives the values of conditions names, because a condition may occur twice in a statement."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def text(self, condition: Condition, alias: str) -> str:
        text = condition.text.replace(T, alias)
        for value in condition.values:
            name = f"v{len(self.parameters)}"
            self.parameters[name] = value
            text = text.replace("?", f":{name}", 1)
        return text


def _statement(stretch: Stretch, wanted: Sequence[Condition]) -> tuple[str, dict[str, Value]]:
    """The aggregate of a chunk, and its parameters.

    Columns: the number of rows, the lowest order, how many rows of the table were read beside the index, and the keys
    of the matching rows as JSON.
    """
    named = _Named()
    covered = [it for it in wanted if it.columns <= stretch.columns]
    rest = [it for it in wanted if not it.columns <= stretch.columns]
    own = " AND ".join(named.text(it, "walked") for it in covered) or "TRUE"
    matches = own
    if rest:
        row = " AND ".join(named.text(it, "own") for it in rest)
        matches += f" AND EXISTS (SELECT 1 FROM jobs AS own WHERE own.ord = walked.ord AND {row})"  # noqa: S608 - text of this module only
    looked_up = f"count(*) FILTER (WHERE {own})" if rest else "0"
    key = {"finished_at", "ord"} if stretch.by_end else {"ord"}
    columns = sorted(key.union(*(it.columns for it in covered)))
    pair = "json_array(finished_at, ord)" if stretch.by_end else "json_array(0, ord)"
    statement = (
        f"SELECT count(*), min(ord), {looked_up}, json_group_array({pair}) FILTER (WHERE {matches}) "  # noqa: S608 - text of this module only
        f"FROM (SELECT {', '.join(columns)} FROM {_chunk(stretch)} LIMIT :limit) AS walked"
    )
    return statement, stretch.parameters | named.parameters


def _chunk(stretch: Stretch) -> str:
    """The rest of a SELECT of the rows of a stretch below `:at` and `:order`, in their order."""
    rows_of = f"{stretch.source} WHERE {stretch.where}"
    if stretch.by_end:
        return f"{rows_of} AND (finished_at, ord) < (:at, :order) ORDER BY finished_at DESC, ord DESC"
    return f"{rows_of} AND ord < :order ORDER BY ord DESC"
