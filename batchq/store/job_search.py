"""The job search in SQL: merges scans of indexes, newest first, and stops after a bounded number of rows.

A scan reads one range of an index downwards, a chunk at a time. Always the scan that is least far is continued, so
that the positions of all scans descend together: what has been found above the highest of them is complete. When the
page is full, or the bound is reached, this position is where the next page continues.

Each chunk is one aggregate of SQLite, which counts the rows and returns the matching sequences: the interpreter lock of
Python is held once for a chunk, not for each row.
"""

import json
import sqlite3
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import chain
from sqlite3 import Connection
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from batchq.domain.times import EPOCH, from_microseconds
from batchq.errors import Unavailable
from batchq.ports.job_search import (
    JobCount,
    JobPage,
    ListFacts,
    ListFactsQuery,
    PageQuery,
    SearchOrder,
    SearchPosition,
)
from batchq.store import groups, index_ranges, job_reads
from batchq.store.index_ranges import ROW_COST, TOP, IndexRange
from batchq.store.search_conditions import SearchCondition, T, Value, conditions, finished_at

MAX_ROWS = 50_000  # rows of an index that are read for one page
MAX_COUNTED_ROWS = 10_000  # rows of an index that are read for one count
MIN_CHUNK, MAX_CHUNK, CHUNK_GROWTH = 64, 16_384, 4  # rows of a scan that are read at a time


_POSITIONS = Decoder(list[SearchPosition])
_EXPENSIVE = "The search needs more steps than one request may take: use fewer patterns, or more exact ones."


class IndexScan:
    """The state of one scan, and its statements."""

    def __init__(self, index_range: IndexRange, query: PageQuery, statement: "ChunkStatement", *, budget: int) -> None:
        """`statement`: that of the chunks of the range. `budget`: the most that the first chunk may cost."""
        #: All rows of the range with this key or a greater one have been read.
        self.position = query.before or TOP
        #: The cost of all rows that were read.
        self.cost = 0
        #: Whether all rows of the range have been read.
        self.at_end = False
        self._range = index_range
        self._statement, self._parameters = statement.text, index_range.parameters | statement.parameters
        row_cost = index_range.cost + statement.reads_table * ROW_COST
        #: How many rows are read next.
        self._chunk_rows = min(max(MIN_CHUNK, query.limit + 1), budget // row_cost)

    def advance(self, connection: Connection, budget: int) -> list[SearchPosition]:
        """Read the next chunk, and return the keys of its matching rows. `budget`: the most that it may cost."""
        return _POSITIONS.decode(self._read(connection, budget))

    def count(self, connection: Connection, budget: int) -> int:
        """Read the next chunk, and return the number of its matching rows. `budget`: the most that it may cost."""
        return int(self._read(connection, budget))

    def _read(self, connection: Connection, budget: int) -> Any:  # noqa: ANN401 - as the statement returns it
        limit = max(1, min(self._chunk_rows, budget // self._range.cost))
        bounds: dict[str, Value] = {"at": self.position.at, "sequence": self.position.sequence, "limit": limit}
        found = connection.execute(self._statement, self._parameters | bounds).fetchone()
        count, lowest, own_rows, matching = found
        if count:
            self.cost += count * self._range.cost + own_rows * ROW_COST
            self.position = self._key(connection, bounds, count) if self._range.by_end else SearchPosition(0, lowest)
        self.at_end = count < limit
        self._chunk_rows = min(limit * CHUNK_GROWTH, MAX_CHUNK)
        return matching

    def _key(self, connection: Connection, bounds: dict[str, Value], count: int) -> SearchPosition:
        """The key of the last row that was read. Several rows may have ended at the same time."""
        statement = f"SELECT finished_at, sequence FROM {_chunk(self._range)} LIMIT 1 OFFSET :skipped"  # noqa: S608 - text of this module only
        parameters = self._range.parameters | bounds | {"skipped": count - 1}
        return SearchPosition(*connection.execute(statement, parameters).fetchone())


def search_page(connection: Connection, query: PageQuery) -> JobPage:
    """See `JobSearch.search`."""
    return _page(connection, query, *_found(connection, query))


def count_each(connection: Connection, queries: Sequence[PageQuery]) -> tuple[JobCount, ...]:
    """See `JobSearch.counts`."""
    return tuple(_count(connection, query) for query in queries)


def list_facts(connection: Connection, query: ListFactsQuery) -> ListFacts:
    """See `JobSearch.list_facts`."""
    return ListFacts(
        counts=count_each(connection, query.counts),
        groups=() if query.groups is None else groups.newest_groups(connection, query.groups),
        reruns=job_reads.reruns(connection, query.repeated) if query.repeated else {},
    )


def _count(connection: Connection, query: PageQuery) -> JobCount:
    query = index_ranges.cheapest_order(query)
    if (source := index_ranges.small_source(connection, query)) is not None:
        count, is_whole = len(_sorted_keys(connection, query, source)), True
    else:
        query = index_ranges.bounded_position(connection, query)
        ranges = index_ranges.ranges(connection, query)
        scans = _scans(query, ranges, MAX_COUNTED_ROWS, counts_only=(is_disjoint := len(_sources(ranges)) == 1))
        if is_disjoint:
            count, is_whole = _sum(connection, query, scans)
        else:
            found, floor = _merge(connection, query, scans, MAX_COUNTED_ROWS)
            count, is_whole = len(_complete(found, floor)), floor is None
    return JobCount(jobs=min(count, query.limit), is_exact=is_whole and count <= query.limit)


def _sources(ranges: Sequence[IndexRange]) -> set[str]:
    """The indexes of the ranges. Two ranges of one index have no row in common."""
    return {index_range.source for index_range in ranges}


def _sum(connection: Connection, query: PageQuery, scans: Sequence[IndexScan]) -> tuple[int, bool]:
    """How many rows of all scans match, and whether all were read. The scans take turns."""
    count, budget = len(_ended_arrays(connection, query)), MAX_COUNTED_ROWS
    waiting = deque(scans)
    while waiting:
        if budget <= 0 or count > query.limit:
            return count, False
        scan = waiting.popleft()
        spent = scan.cost
        try:
            count += scan.count(connection, budget)
        except sqlite3.OperationalError as why:
            if "interrupted" not in str(why):
                raise
            if not any(each.cost for each in scans):
                raise Unavailable(_EXPENSIVE) from why
            return count, False
        budget -= scan.cost - spent
        if not scan.at_end:
            waiting.append(scan)
    return count, True


def _found(connection: Connection, query: PageQuery) -> tuple[Sequence[SearchPosition], SearchPosition | None]:
    """The keys that were found, ascending, and the position down to which they are complete; None: all of them are."""
    if (source := index_ranges.small_source(connection, query)) is not None:
        return _sorted_keys(connection, query, source), None
    query = index_ranges.bounded_position(connection, query)
    scans = _scans(query, index_ranges.ranges(connection, query), MAX_ROWS)
    return _merge(connection, query, scans, MAX_ROWS)


def _scans(
    query: PageQuery, ranges: Sequence[IndexRange], budget: int, *, counts_only: bool = False
) -> list[IndexScan]:
    """`budget`: the most that the rows of all scans may cost."""
    fair = budget // (2 * max(1, len(ranges)))  # so that each scan begins within the bound
    by_end = any(index_range.by_end for index_range in ranges)
    # No row of an index by end is that of an array without its end.
    wanted = conditions(replace(query, ended_arrays={}) if by_end else query)
    made: dict[object, ChunkStatement] = {}  # most ranges of a query differ in their parameters alone
    scans = []
    for index_range in ranges:
        key = index_range.source, index_range.where, index_range.implied
        if key not in made:
            made[key] = _statement(index_range, wanted, "count(*)" if counts_only else _keys(index_range))
        scans.append(IndexScan(index_range, query, made[key], budget=fair))
    return scans


def _merge(
    connection: Connection, query: PageQuery, scans: Sequence[IndexScan], budget: int
) -> tuple[list[SearchPosition], SearchPosition | None]:
    """As `_found`. `budget`: the most that the rows of all scans may cost."""
    found = list(_ended_arrays(connection, query))
    waiting = [(_descending(scan.position), number) for number, scan in enumerate(scans)]
    heapify(waiting)
    while waiting:
        _, number = heappop(waiting)
        scan = scans[number]
        has_begun = scan.position != (query.before or TOP)
        if has_begun and (budget <= 0 or len(found) - bisect_left(found, scan.position) > query.limit):
            return found, scan.position
        spent = scan.cost
        try:
            keys = scan.advance(connection, budget)
        except sqlite3.OperationalError as why:
            if "interrupted" not in str(why):
                raise
            if has_begun:
                return found, scan.position
            raise Unavailable(_EXPENSIVE) from why
        budget -= scan.cost - spent
        found = sorted(dict.fromkeys(chain(found, keys)))  # two scans may find the same job
        if not scan.at_end:
            heappush(waiting, (_descending(scan.position), number))
    return found, None


def _descending(position: SearchPosition) -> tuple[int, int]:
    return -position.at, -position.sequence


def _page(
    connection: Connection, query: PageQuery, found: Sequence[SearchPosition], floor: SearchPosition | None
) -> JobPage:
    """`found`: keys, ascending, complete down to `floor` (None: all keys that there are)."""
    certain = _complete(found, floor)
    keys = certain[: -query.limit - 1 : -1]
    then = keys[-1] if len(certain) > query.limit else floor
    jobs = job_reads.jobs_with_sequences(connection, [position.sequence for position in keys])
    if then is None:
        return JobPage(jobs=jobs, next=None, searched_back_to=None)
    by_end = query.order_by is SearchOrder.ENDED
    back_to = from_microseconds(then.at) if by_end else _created(connection, then.sequence)
    return JobPage(jobs=jobs, next=then, searched_back_to=back_to)


def _complete(found: Sequence[SearchPosition], floor: SearchPosition | None) -> Sequence[SearchPosition]:
    return found if floor is None else found[bisect_left(found, floor) :]


def _created(connection: Connection, sequence: int) -> datetime:
    """When the first job that is not older than `sequence` was created. A child counts as its array."""
    root = "SELECT coalesce(parent_sequence, sequence) FROM jobs WHERE sequence >= ? LIMIT 1"
    statement = f"SELECT created_at FROM jobs WHERE sequence = ({root})"  # noqa: S608 - text of this module only
    (created_at,) = connection.execute(statement, [sequence]).fetchone() or (0,)
    return EPOCH + timedelta(milliseconds=created_at)


def _sorted_keys(connection: Connection, query: PageQuery, source: IndexRange) -> list[SearchPosition]:
    """The keys of the first matching rows of `source`, ascending: one more than the page has."""
    end = finished_at(query)
    by_end = query.order_by is SearchOrder.ENDED
    at = SearchCondition(columns=end.columns, text=end.text if by_end else "0", values=end.values if by_end else ())
    named = _Named()
    where = [source.where, *(named.text(condition, "jobs") for condition in conditions(query))]
    key = named.text(at, "jobs")
    before = query.before or TOP
    statement = (
        f"SELECT * FROM (SELECT {key} AS at, jobs.sequence FROM {source.source} WHERE {' AND '.join(where)}) "  # noqa: S608 - text of this module only
        "WHERE at IS NOT NULL AND (at, sequence) < (:at, :sequence) ORDER BY at DESC, sequence DESC LIMIT :limit"
    )
    bounds = {"at": before.at, "sequence": before.sequence, "limit": query.limit + 1}
    found = connection.execute(statement, source.parameters | named.parameters | bounds)
    return [SearchPosition(*value) for value in found][::-1]


def _ended_arrays(connection: Connection, query: PageQuery) -> Sequence[SearchPosition]:
    """For a search by end: arrays that an order has ended, whose rows are not in the indexes by end yet."""
    if query.order_by is not SearchOrder.ENDED or not query.ended_arrays:
        return []
    sequences = json.dumps(sorted(query.ended_arrays))
    where = "jobs.sequence IN (SELECT value FROM json_each(:sequences)) AND jobs.status = 'PENDING'"
    return _sorted_keys(connection, query, IndexRange(source="jobs", where=where, parameters={"sequences": sequences}))


# ---------------------------------------------------------------------------------------------------------- statements


class _Named:
    """Gives the values of conditions names, because a condition may occur twice in a statement."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def text(self, condition: SearchCondition, alias: str) -> str:
        text = condition.text.replace(T, alias)
        for value in condition.values:
            name = f"v{len(self.parameters)}"
            self.parameters[name] = value
            text = text.replace("?", f":{name}", 1)
        return text


def _keys(index_range: IndexRange) -> str:
    """The aggregate of the keys of rows, as JSON."""
    return f"json_group_array(json_array({'finished_at' if index_range.by_end else '0'}, sequence))"


class ChunkStatement(Struct, frozen=True, kw_only=True):
    """The aggregate of a chunk."""

    #: Columns: the number of rows, the lowest sequence, how many rows of the table were read beside the index, and the
    #: result of the matching rows.
    text: str
    #: Without those of the range.
    parameters: dict[str, Value]
    #: Whether rows of the table are read beside the index.
    reads_table: bool


def _statement(index_range: IndexRange, wanted: Sequence[SearchCondition], result: str) -> ChunkStatement:
    """`result`: the aggregate of the matching rows."""
    named = _Named()
    needed = [condition for condition in wanted if condition.columns not in index_range.implied]
    covered = [condition for condition in needed if condition.columns <= index_range.columns]
    rest = [condition for condition in needed if not condition.columns <= index_range.columns]
    own = " AND ".join(named.text(condition, "scanned") for condition in covered) or "TRUE"
    matches = own
    if rest:
        row = " AND ".join(named.text(condition, "own") for condition in rest)
        matches += f" AND EXISTS (SELECT 1 FROM jobs AS own WHERE own.sequence = scanned.sequence AND {row})"  # noqa: S608 - text of this module only
    looked_up = f"count(*) FILTER (WHERE {own})" if rest else "0"
    key = {"finished_at", "sequence"} if index_range.by_end else {"sequence"}
    columns = sorted(key.union(*(condition.columns for condition in covered)))
    statement = (
        f"SELECT count(*), min(sequence), {looked_up}, {result} FILTER (WHERE {matches}) "  # noqa: S608 - text of this module only
        f"FROM (SELECT {', '.join(columns)} FROM {_chunk(index_range)} LIMIT :limit) AS scanned"
    )
    return ChunkStatement(text=statement, parameters=named.parameters, reads_table=bool(rest))


def _chunk(index_range: IndexRange) -> str:
    """The rest of a SELECT of the rows of a range below `:at` and `:sequence`, in their order."""
    rows_of = f"{index_range.source} WHERE {index_range.where}"
    if index_range.by_end:
        return f"{rows_of} AND (finished_at, sequence) < (:at, :sequence) ORDER BY finished_at DESC, sequence DESC"
    return f"{rows_of} AND sequence < :sequence ORDER BY sequence DESC"
