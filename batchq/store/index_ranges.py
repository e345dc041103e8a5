"""Which ranges of which indexes a job search reads. Together they contain all jobs that match.

The rows of one owner are read by an index of owners, so that the cost of a search by a user grows with the user's own
jobs. Other searches read the index of each queue, which has most of what filters compare. Without a fitting index the
table itself is read, from the newest job down.
"""

import json
from collections.abc import Sequence
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.ids import GroupId, JobId
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import PageQuery, SearchOrder, SearchPosition
from batchq.store import job_reads, rows
from batchq.store.lists import VisibleColumn, visible_columns
from batchq.store.rows import json_texts
from batchq.store.search_conditions import Value, effective_statuses
from batchq.store.statements import load_statements

SQL = load_statements("job_search.sql")

ROW_COST = 5  # a row of the table costs as much as so many rows of an index
MAX_RANGES = 1000  # that are merged; with more the table is read instead
MAX_SORTED = 5000  # finished jobs of an owner that are sorted by their end
MAX_COUNTED = 20_000  # jobs of an owner that are examined to find whether so few are finished

TOP = SearchPosition(rows.MAX_INTEGER, rows.MAX_INTEGER)

Implied = frozenset[frozenset[str]]

#: The columns of the table that conditions read.
COLUMNS = frozenset(
    {
        "sequence",
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
        "parent_sequence",
        "passed_over",
        "group_id",
    }
)


class IndexRange(Struct, frozen=True, kw_only=True):
    """A range of an index, or of the table, that is read downwards."""

    #: The table, with its index.
    source: str
    #: The condition of the range, with named parameters.
    where: str = "TRUE"
    parameters: dict[str, Value] = {}
    #: The columns that are read without the row of the table.
    columns: frozenset[str] = COLUMNS
    #: Conditions on exactly these columns hold for every row.
    implied: Implied = frozenset()
    #: The cost of one of its rows, in rows of an index.
    cost: int = 1
    #: Whether it is sorted by end; else by sequence.
    by_end: bool = False


def small_source(connection: Connection, query: PageQuery) -> IndexRange | None:
    """The rows of a query that names its jobs, or whose owner has few; None if there may be many."""
    if query.selection.ids is not None:
        where = "jobs.id IN (SELECT value FROM json_each(:ids))"
        return IndexRange(source="jobs", where=where, parameters={"ids": json_texts(query.selection.ids)})
    if query.selection.id_prefix is not None:
        return _with_prefix(query.selection.id_prefix, children=query.selection.includes_children)
    if query.order_by is not SearchOrder.ENDED:
        return None
    if query.selection.groups is not None:
        where = "jobs.group_id IN (SELECT value FROM json_each(:groups))"
        return IndexRange(source="jobs", where=where, parameters={"groups": json_texts(query.selection.groups)})
    return (
        _children_of(connection, query.selection.parent)
        if query.selection.parent is not None
        else _finished_of(connection, query)
    )


def cheapest_order(query: PageQuery) -> PageQuery:
    """The query to count the jobs of `query`, whose order does not matter.

    Of failed jobs with a name or a definition: the index of failed jobs by end has these columns, and has only failed
    jobs.
    """
    if effective_statuses(query) != {Status.FAILED} or query.order_by is SearchOrder.ENDED:
        return query
    selection = query.selection
    is_whole = not selection.includes_children and selection.groups is None
    if not is_whole or not _reads_index_of_queues(selection) or _columns(selection) is not None:
        return query
    return replace(query, order_by=SearchOrder.ENDED)


def bounded_position(connection: Connection, query: PageQuery) -> PageQuery:
    """The query, with the position lowered to where jobs can match its times."""
    top = TOP
    if query.order_by is SearchOrder.ENDED and query.selection.ended_before is not None:
        top = SearchPosition(rows.integer(query.selection.ended_before * 1000), 0)
    if query.order_by is SearchOrder.CREATED and query.selection.created_before is not None:
        top = SearchPosition(0, _first_created(connection, query.selection.created_before - 1))
    return replace(query, before=min(top, query.before or TOP))


def ranges(connection: Connection, query: PageQuery) -> Sequence[IndexRange]:
    """The ranges that together contain all jobs of a query for which `small_source` returned None."""
    if query.order_by is SearchOrder.ENDED:
        return [_by_end(query)]
    if query.selection.parent is not None:
        return [_children_of(connection, query.selection.parent)]
    if query.selection.groups is not None:
        return [_of_group(group_id) for group_id in sorted(query.selection.groups)]
    if query.selection.held:
        return [_HELD]
    if query.selection.children and effective_statuses(query) <= ACTIVE:
        return [_active(status) for status in sorted(effective_statuses(query))]
    if query.selection.includes_children:
        return [IndexRange(source="jobs NOT INDEXED", cost=ROW_COST)]
    found = _of_owners(connection, query) or _of_queues(connection, query)
    if found is None:
        found = [IndexRange(source="jobs NOT INDEXED", cost=ROW_COST)]
    if query.selection.created_after is None:
        return found
    lowest = {"lowest": _first_created(connection, query.selection.created_after)}
    return [
        replace(
            index_range,
            where=f"{index_range.where} AND sequence >= :lowest",
            parameters=index_range.parameters | lowest,
        )
        for index_range in found
    ]


# -------------------------------------------------------------------------------------------------------- few jobs


def _with_prefix(prefix: str, *, children: bool) -> IndexRange:
    """The jobs whose ids begin with `prefix`. Without children, the index is searched from whole job to whole job."""
    parameters: dict[str, Value] = {"prefix": rows.text(prefix), "beyond": rows.text(prefix) + rows.AFTER_ANY_SUFFIX}
    if children:
        return IndexRange(source="jobs", where="jobs.id >= :prefix AND jobs.id < :beyond", parameters=parameters)
    return IndexRange(source="jobs", where=f"jobs.id IN ({SQL['whole_jobs_with_prefix']})", parameters=parameters)


def _children_of(connection: Connection, parent: JobId) -> IndexRange:
    sequences = job_reads.sequences_of_children(connection, parent)
    parameters: dict[str, Value] = {"first": sequences.start, "last": sequences.stop - 1}
    where = "jobs.sequence BETWEEN :first AND :last"
    return IndexRange(source="jobs", where=where, parameters=parameters, cost=ROW_COST)


def _finished_of(connection: Connection, query: PageQuery) -> IndexRange | None:
    """The finished jobs of the owners of a query; None without owners, or if there are many."""
    columns = _columns(query.selection)
    if columns is None or len(columns) > MAX_RANGES:
        return None
    sequences = sorted(query.ended_arrays)
    for column, value in columns:
        parameters = {"value": value, "limit": MAX_COUNTED}
        count, found = connection.execute(SQL[f"finished_of_{column}"], parameters).fetchone()
        sequences += json.loads(found)
        if count == MAX_COUNTED or len(sequences) > MAX_SORTED:
            return None
    where = "jobs.sequence IN (SELECT value FROM json_each(:sequences))"
    return IndexRange(source="jobs", where=where, parameters={"sequences": json.dumps(sequences)})


# --------------------------------------------------------------------------------------------------------- by index


def _by_end(query: PageQuery) -> IndexRange:
    statuses = effective_statuses(query)
    implied = {frozenset({"parent_sequence"})} | ({frozenset({"status"})} if statuses == FINISHED else set())
    parameters: dict[str, Value] = {}
    where, index = "jobs.finished_at IS NOT NULL AND jobs.parent_sequence IS NULL", "jobs_finished"
    columns = frozenset({"finished_at", "sequence"})
    if statuses == {Status.FAILED}:
        where, index = "jobs.status = 'FAILED' AND jobs.parent_sequence IS NULL", "jobs_failed"
        columns |= {"owner", "account", "queue", "name", "definition", "revision"}
        implied.add(frozenset({"status"}))
    if query.selection.ended_after is not None:
        where += " AND finished_at >= :ended_from"
        parameters = {"ended_from": rows.integer((query.selection.ended_after + 1) * 1000)}
    return IndexRange(
        source=f"jobs INDEXED BY {index}",
        where=where,
        parameters=parameters,
        columns=columns,
        implied=frozenset(implied),
        by_end=True,
    )


def _active(status: Status) -> IndexRange:
    """Jobs and children with an attempt under way."""
    where = "status IN ('STARTING', 'RUNNING') AND status = :status"  # the first is that of the partial index
    parameters: dict[str, Value] = {"status": status.value}
    columns = frozenset({"status", "sequence"})
    return IndexRange(source="jobs INDEXED BY jobs_active", where=where, parameters=parameters, columns=columns)


_HELD = IndexRange(
    source="jobs INDEXED BY jobs_held",
    where=f"jobs.passed_over = {rows.HELD}",
    columns=frozenset({"passed_over", "sequence", "account", "owner", "queue", "status", "name", "parent_sequence"}),
    implied=frozenset({frozenset({"passed_over"})}),
)


def _of_group(group_id: GroupId) -> IndexRange:
    return IndexRange(
        source="jobs INDEXED BY jobs_by_group",
        where="jobs.group_id = :group",
        parameters={"group": rows.text(group_id)},
        columns=frozenset({"group_id", "sequence", "status", "owner", "account", "parent_sequence"}),
        implied=frozenset({frozenset({"group_id"})}),
    )


def _columns(selection: JobSelection) -> list[VisibleColumn] | None:
    """The owners or accounts of the jobs that can match; None: any."""
    if selection.users is not None:
        return [("owner", rows.text(user)) for user in sorted(selection.users)]
    accounts = selection.accounts
    if selection.visibility is None:
        return None if accounts is None else [("account", rows.text(account)) for account in sorted(accounts)]
    columns = visible_columns(selection.visibility)
    return columns if accounts is None else [each for each in columns if each[0] == "owner" or each[1] in accounts]


def _of_owners(connection: Connection, query: PageQuery) -> list[IndexRange] | None:
    """A range for each owner or account, queue and status; None without owners, or if there are too many."""
    columns = _columns(query.selection)
    if columns is None or len(columns) > MAX_RANGES:
        return None
    found = list[IndexRange]()
    statuses = _stored_statuses(query)
    for column, value in columns:
        for queue in _queues(connection, query, f"queues_of_{column}", {"value": value}):
            found += [_of_owner(query, column, value, queue, status) for status in statuses]
        if len(found) > MAX_RANGES:
            return None
    return found or [IndexRange(source="jobs NOT INDEXED", where="FALSE")]


def _of_owner(query: PageQuery, column: str, value: str, queue: str, status: Status) -> IndexRange:
    seen = query.selection.visibility
    visible = seen is None or (value == seen.user if column == "owner" else value in seen.accounts)
    implied = {frozenset({"parent_sequence"}), frozenset({"queue"}), frozenset({column})}
    return IndexRange(
        source=f"jobs INDEXED BY jobs_by_{column}",
        where=(
            f"jobs.{column} = :value AND jobs.queue = :queue AND jobs.status = :status AND jobs.parent_sequence IS NULL"
        ),
        parameters={"value": value, "queue": queue, "status": status.value},
        columns=frozenset({column, "queue", "status", "sequence"}),
        implied=frozenset(implied | ({frozenset({"owner", "account"})} if visible else set())),
    )


def _of_queues(connection: Connection, query: PageQuery) -> list[IndexRange] | None:
    """A range for each queue, or for each queue and status; None if there are too many."""
    queues = _queues(connection, query, "queues", {})
    statuses = _stored_statuses(query)
    by_status = len(statuses) < len(Status) and not (
        FINISHED & set(statuses) and _reads_index_of_queues(query.selection)
    )
    if by_status and len(queues) * len(statuses) <= MAX_RANGES:
        return [_of_status(queue, status) for queue in queues for status in statuses]
    return [_of_queue(queue) for queue in queues] if len(queues) <= MAX_RANGES else None


def _reads_index_of_queues(selection: JobSelection) -> bool:
    """Whether a condition excludes jobs by columns that the index of queues has, and that of statuses has not."""
    return selection.names is not None or selection.definitions is not None


def _of_status(queue: str, status: Status) -> IndexRange:
    return IndexRange(
        source="jobs INDEXED BY jobs_by_status",
        where="jobs.queue = :queue AND jobs.status = :status AND jobs.parent_sequence IS NULL",
        parameters={"queue": queue, "status": status.value},
        columns=frozenset({"queue", "status", "sequence", "share_identifier"}),
        implied=frozenset({frozenset({"parent_sequence"}), frozenset({"queue"})}),
    )


def _of_queue(queue: str) -> IndexRange:
    return IndexRange(
        source="jobs INDEXED BY jobs_by_queue",
        where="jobs.queue = :queue AND jobs.parent_sequence IS NULL",
        parameters={"queue": queue},
        columns=frozenset({"queue", "sequence", "name", "definition", "revision", "created_at", "share_identifier"}),
        implied=frozenset({frozenset({"parent_sequence"}), frozenset({"queue"})}),
    )


def _queues(connection: Connection, query: PageQuery, statement: str, bound: dict[str, Value]) -> Sequence[str]:
    """The queues that have such jobs, of those that the query names; at most one more than can be merged."""
    found = connection.execute(SQL[statement], bound | {"limit": MAX_RANGES + 1})
    wanted = None if query.selection.queues is None else set(map(rows.text, query.selection.queues))
    return [queue for (queue,) in found if wanted is None or queue in wanted]


def _stored_statuses(query: PageQuery) -> Sequence[Status]:
    """The statuses of the rows that can match: a PENDING array that an order has ended counts as FAILED."""
    wanted = effective_statuses(query)
    if query.ended_arrays and Status.FAILED in wanted:
        wanted |= {Status.PENDING}
    return sorted(wanted)


def _first_created(connection: Connection, after: int) -> int:
    """The first sequence whose job was created later than `after`, in milliseconds; a child counts as its array.

    A binary search: sequences and times of creation ascend together, unless the machine's clock was set back.
    """
    low, high = 0, job_reads.last_sequence(connection) + 1
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(SQL["creation"], {"sequence": middle}).fetchone()
        if found is None:
            high = middle
        elif found[2] > after:
            high = min(middle, found[1])
        else:
            low = found[0] + 1
    return low
