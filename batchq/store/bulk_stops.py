"""Bulk stops in SQL: the jobs that a filter matches, and the targets that are not stopped yet.

Every value of the caller is bound; a set is bound as one JSON text, because SQLite limits the number of variables. Each
function runs inside one transaction; those named as methods of BulkStopStore are documented there.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from sqlite3 import Connection

from msgspec.json import Decoder
from msgspec.structs import replace

from batchq.domain.bulk_stop import WHOLE, BulkStop, Candidates, Preview, Progress, StopTarget, Target
from batchq.domain.enums import ACTIVE, Status
from batchq.domain.ids import JobId, node_of
from batchq.domain.intervals import merged
from batchq.domain.job_selection import UNFINISHED, JobSelection
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.store import job_reads, rows
from batchq.store.lists import LISTED, Values
from batchq.store.quarantine import skip_unreadable
from batchq.store.search_conditions import T, conditions
from batchq.store.statements import load_statements

SQL = load_statements("bulk_stops.sql")

BULK_STOP = Decoder(BulkStop)
ALL_TARGETS = {"sequence": -1, "node": WHOLE}  # deletes all targets: those from this sequence and node on

#: A condition and its parameters.
Part = tuple[str, Values]
#: The node of each row, the FROM clause with the beginning of a WHERE clause, and its parameters.
Source = tuple[str, str, Sequence[str | int]]

_NAMED = "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS node FROM json_each(?)) AS named"

# The owners of unfinished jobs: one index seek for each owner, regardless of the number of jobs.
_OWNERS = """(
    WITH RECURSIVE walk (owner) AS (
        SELECT min(owner) FROM jobs INDEXED BY jobs_unfinished WHERE finished_at IS NULL
        UNION ALL
        SELECT (
            SELECT min(next.owner) FROM jobs AS next INDEXED BY jobs_unfinished
            WHERE next.finished_at IS NULL AND next.owner > walk.owner
        )
        FROM walk WHERE walk.owner IS NOT NULL
    )
    SELECT owner FROM walk WHERE owner IS NOT NULL
) AS owners"""


def _member(path: str) -> str:
    """A member of a job's JSON; NULL if the JSON is damaged."""
    return f"CASE WHEN json_valid(jobs.state) THEN json_extract(jobs.state, '$.{path}') END"


HAS_CHILDREN = f"(jobs.array_size > 0 AND jobs.status = 'PENDING' AND {_member('array_state')} IS NOT NULL)"


#: `JobOutcome.children`. Without a state the children wait, as their array does.
CHILDREN = """CASE WHEN jobs.array_size > 0 THEN jobs.array_size - coalesce((
        SELECT sum(json_extract(value, '$[1]'))
        FROM json_each(CASE WHEN json_valid(jobs.state) THEN jobs.state END, '$.array_state.counts')
        WHERE json_extract(value, '$[0]') IN ('SUCCEEDED', 'FAILED')
    ), 0) ELSE 0 END"""


#: Only active jobs and arrays can be unfinished and have orders: the JSON of other jobs is not read.
STOP_ORDERS = f"CASE WHEN jobs.status IN ('STARTING', 'RUNNING') OR {HAS_CHILDREN} THEN {_member('stop_orders')} END"


def insert_bulk_stops(connection: Connection, changes: Changes) -> None:
    """Insert the bulk stops that a unit of work begins, with their targets."""
    candidates = dict(changes.candidates)
    for bulk_stop, selection in changes.bulk_stops:
        _insert_bulk_stop(connection, bulk_stop, selection, candidates.get(bulk_stop.number))


def _insert_bulk_stop(
    connection: Connection, bulk_stop: BulkStop, selection: JobSelection, candidates: Candidates | None
) -> None:
    """Insert a bulk stop and its targets. Replaces an unreadable bulk stop with the same number."""
    connection.execute(SQL["delete_targets"], {"bulk_stop": bulk_stop.number, **ALL_TARGETS})
    connection.execute(SQL["insert_bulk_stop"], {"number": bulk_stop.number, "value": rows.as_json(bulk_stop)})
    if candidates is not None:  # the earlier selection is still valid for jobs that have not changed since
        unchanged = [place for place in candidates.places if place[0] not in candidates.changed]
        connection.execute(SQL["insert_targets"], {"bulk_stop": bulk_stop.number, "places": json.dumps(unchanged)})
    chosen, parameters = select_targets(selection, None if candidates is None else candidates.changed)
    statement = f"INSERT OR IGNORE INTO bulk_stop_targets (bulk_stop, sequence, node) SELECT ?, * FROM ({chosen})"  # noqa: S608 - text of this module only
    connection.execute(statement, [bulk_stop.number, *parameters])


def delete_stopped(connection: Connection, progress: Iterable[Progress]) -> None:
    """Delete the targets that are stopped. A complete bulk stop is deleted, because its number may be used again."""
    for page in progress:
        parameters = {"bulk_stop": page.bulk_stop, "sequence": page.sequence, "node": _stored_part(page.part)}
        if page.complete:
            parameters |= ALL_TARGETS
            connection.execute(SQL["delete_bulk_stop"], {"bulk_stop": page.bulk_stop})
        connection.execute(SQL["delete_targets"], parameters)


def unfinished(connection: Connection) -> tuple[BulkStop, ...]:
    """The bulk stops. An unreadable one is skipped: its order is unknown, so its targets keep running."""
    return tuple(skip_unreadable(connection.execute(SQL["bulk_stops"]), _bulk_stop))


def target_ranges(connection: Connection, number: int) -> tuple[tuple[int, int], ...]:
    return tuple(merged(connection.execute(SQL["target_ranges"], {"bulk_stop": number})))


def next_targets(connection: Connection, number: int, limit: int) -> tuple[StopTarget, ...]:
    found = connection.execute(SQL["next_targets"], {"bulk_stop": number, "limit": limit})
    return job_reads.decode_rows(
        found, lambda row: StopTarget(job=rows.job_of_row(row[1:]), part=_part_or_none(row[0])), sequence=1
    )


def candidates(connection: Connection, selection: JobSelection) -> tuple[Target, ...]:
    chosen, parameters = select_targets(selection)
    return tuple(sorted(set(connection.execute(chosen, parameters))))


def preview(
    connection: Connection, selection: JobSelection, limit: int, after: tuple[int, int | None] | None = None
) -> tuple[Preview, ...]:
    chosen, parameters = select_targets(selection)
    statement = SQL["preview"].format(
        chosen=chosen, has_children=HAS_CHILDREN, children=CHILDREN, stop_orders=STOP_ORDERS
    )
    place = (-1, WHOLE) if after is None else (after[0], _stored_part(after[1]))
    return tuple(
        Preview(
            place=(sequence, _part_or_none(node)),
            job_id=JobId(job_id),
            name=name or "",
            status=Status(status),
            has_children=bool(has_children),
            children=children,
            stop_orders=rows.stop_orders(orders),
        )
        for sequence, node, job_id, name, status, has_children, children, orders in connection.execute(
            statement, [*parameters, *place, limit]
        )
    )


def _bulk_stop(number: int, value: str) -> BulkStop:
    return replace(BULK_STOP.decode(value), number=number)


def _stored_part(part: int | None) -> int:
    return WHOLE if part is None else part


def _part_or_none(part: int) -> int | None:
    return None if part == WHOLE else part


# ---------------------------------------------------------------------------------------------- the jobs of a selection


def select_targets(selection: JobSelection, among: Collection[int] | None = None) -> Part:
    """A SELECT of the sequence and the node of each target; some may occur twice.

    `among`: only jobs with these sequences; the cost then grows with their number, not with the number of stored jobs.
    """
    parts = list(_conditions(selection))
    where = " AND ".join(condition for condition, _ in parts)
    parameters = [value for _, values in parts for value in values]
    sources = _sources(selection) if among is None else _sources_among(selection, among)
    rows_of = (f"SELECT jobs.sequence, {node} AS node FROM {source} AND {where}" for node, source, _ in sources)  # noqa: S608 - text of this module only
    return " UNION ALL ".join(rows_of), [value for _, _, values in sources for value in (*values, *parameters)]


def _sources(selection: JobSelection) -> list[Source]:
    """The rows to examine: the smallest set that an index finds. Invisible jobs are not read."""
    if selection.ids is not None:
        named = _json_of_members(selection.ids)
        own = ("named.node", f"{_NAMED} CROSS JOIN jobs ON jobs.id = named.id WHERE TRUE", [named])
        arrays = f"{_NAMED} CROSS JOIN jobs AS array ON array.id = named.id"
        children = (
            str(WHOLE),
            f"{arrays} CROSS JOIN jobs ON jobs.parent_sequence = array.sequence WHERE TRUE",
            [named],
        )
        return [own, children] if selection.compares_children else [own]
    if selection.groups is not None:
        groups = rows.json_texts(selection.groups)
        return [(str(WHOLE), f"jobs WHERE jobs.group_id IN ({LISTED})", [groups])]
    if selection.possible_statuses & UNFINISHED <= ACTIVE:
        return [(str(WHOLE), "jobs INDEXED BY jobs_active WHERE TRUE", [])]
    if selection.visibility is None:
        return [(str(WHOLE), "jobs INDEXED BY jobs_unfinished WHERE TRUE", [])]
    user, accounts = rows.text(selection.visibility.user), selection.visibility.accounts
    own = (str(WHOLE), "jobs INDEXED BY jobs_unfinished WHERE jobs.owner = ?", [user])
    if not accounts:
        return [own]
    others = f"{_OWNERS} CROSS JOIN jobs INDEXED BY jobs_unfinished ON jobs.owner = owners.owner"
    where = f"owners.owner <> ? AND jobs.account IN ({LISTED})"
    return [own, (str(WHOLE), f"{others} WHERE {where}", [user, rows.json_texts(accounts)])]


def _sources_among(selection: JobSelection, sequences: Collection[int]) -> list[Source]:
    among = json.dumps(sorted(sequences))
    found = "json_each(?) AS among CROSS JOIN jobs ON jobs.sequence = among.value"
    if selection.ids is None:
        return [(str(WHOLE), f"{found} WHERE TRUE", [among])]
    named = _json_of_members(selection.ids)
    own = (
        "named.node",
        f"{_NAMED} CROSS JOIN jobs ON jobs.id = named.id WHERE jobs.sequence IN ({LISTED})",
        [named, among],
    )
    arrays = f"{found} CROSS JOIN jobs AS array ON array.sequence = jobs.parent_sequence"
    ids = "SELECT json_extract(value, '$[0]') FROM json_each(?)"
    children = (str(WHOLE), f"{arrays} WHERE array.id IN ({ids})", [among, named])
    return [own, children] if selection.compares_children else [own]


def _json_of_members(ids: Iterable[JobId]) -> str:
    """The ids as pairs of a job and its selected node or container."""
    members = map(node_of, ids)
    return json.dumps([(rows.text(job_id), _stored_part(part)) for job_id, part in members])


def _conditions(selection: JobSelection) -> Iterator[Part]:
    """The conditions of the selection for unfinished jobs. The sources have those on ids."""
    statuses = selection.possible_statuses & UNFINISHED
    if statuses <= ACTIVE:
        yield "jobs.status IN ('STARTING', 'RUNNING')", []  # literally the condition of the partial index
    else:
        yield "jobs.finished_at IS NULL", []
    if selection.compares_children:
        yield f"NOT coalesce({HAS_CHILDREN}, FALSE)", []
    with_children = selection.compares_children or selection.includes_children
    narrowed = replace(selection, ids=None, statuses=statuses, children=with_children)
    for condition in conditions(PageQuery(selection=narrowed, limit=1)):
        yield condition.text.replace(T, "jobs"), list(condition.values)
