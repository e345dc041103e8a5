"""Bulk stops in SQL: the jobs that a filter matches, and the targets that are not stopped yet.

Every value of the caller is bound; a set is bound as one JSON text, because SQLite limits the number of variables. Each
function runs inside one transaction; those named as methods of BulkStopStore are documented there. In names, a sweep is
a bulk stop, and "meant" jobs are its targets.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.json import Decoder

from batchq.domain.bulk_stop import (
    WHOLE,
    BulkStop,
    BulkStopOrder,
    Candidates,
    JobFilter,
    Preview,
    Progress,
    StopTarget,
    Target,
)
from batchq.domain.ids import JobId
from batchq.domain.intervals import merged
from batchq.domain.job import ACTIVE, FINISHED, Status
from batchq.ports.jobs import Changes
from batchq.store import job_reads, job_writes, rows
from batchq.store.job_lists import Bound, any_of, like, within
from batchq.store.matching import folded
from batchq.store.repair import readable
from batchq.store.statements import named

Part = tuple[str, Bound]

Source = tuple[str, str, Sequence[str | int]]

"""The node of each row, the FROM clause with the beginning of a WHERE clause, and its parameters."""

_LIVE = frozenset(Status) - FINISHED

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


def select(selection: JobFilter, among: Collection[int] | None = None) -> Part:
    """A SELECT of the order and the node of each target; some may occur twice.

    `among`: only jobs with these orders; the cost then grows with their number, not with the number of stored jobs.
    """
    parts = list(_conditions(selection))
    where = " AND ".join(condition for condition, _ in parts)
    bound = [value for _, values in parts for value in values]
    sources = _sources(selection) if among is None else _sources_among(selection, among)
    rows_of = (f"SELECT jobs.ord, {node} AS node FROM {source} AND {where}" for node, source, _ in sources)  # noqa: S608 - text of this module only
    return " UNION ALL ".join(rows_of), [value for _, _, values in sources for value in (*values, *bound)]


def _sources(selection: JobFilter) -> list[Source]:
    """The rows to examine: the smallest set that an index finds. With a `reach`, jobs of other owners are not read."""
    if selection.members is not None:
        named = _named(selection.members)
        own = ("named.node", f"{_NAMED} CROSS JOIN jobs ON jobs.id = named.id WHERE TRUE", [named])
        arrays = f"{_NAMED} CROSS JOIN jobs AS array ON array.id = named.id"
        children = (str(WHOLE), f"{arrays} CROSS JOIN jobs ON jobs.parent_ord = array.ord WHERE TRUE", [named])
        return [own, children] if selection.by_child else [own]
    if _statuses(selection) <= ACTIVE:
        return [(str(WHOLE), "jobs INDEXED BY jobs_active WHERE TRUE", [])]
    if selection.reach is None:
        return [(str(WHOLE), "jobs INDEXED BY jobs_unfinished WHERE TRUE", [])]
    user = rows.text(selection.reach.user)
    own = (str(WHOLE), "jobs INDEXED BY jobs_unfinished WHERE jobs.owner = ?", [user])
    if not selection.reach.accounts:
        return [own]
    condition, accounts = _among("jobs.account", selection.reach.accounts)
    others = f"{_OWNERS} CROSS JOIN jobs INDEXED BY jobs_unfinished ON jobs.owner = owners.owner"
    return [own, (str(WHOLE), f"{others} WHERE owners.owner <> ? AND {condition}", [user, *accounts])]


def _sources_among(selection: JobFilter, orders: Collection[int]) -> list[Source]:
    among = json.dumps(sorted(orders))
    found = "json_each(?) AS among CROSS JOIN jobs ON jobs.ord = among.value"
    if selection.members is None:
        return [(str(WHOLE), f"{found} WHERE TRUE", [among])]
    named = _named(selection.members)
    own = (
        "named.node",
        f"{_NAMED} CROSS JOIN jobs ON jobs.id = named.id WHERE jobs.ord IN (SELECT value FROM json_each(?))",  # noqa: S608 - text of this module only
        [named, among],
    )
    arrays = f"{found} CROSS JOIN jobs AS array ON array.ord = jobs.parent_ord"
    ids = "SELECT json_extract(value, '$[0]') FROM json_each(?)"
    children = (str(WHOLE), f"{arrays} WHERE array.id IN ({ids})", [among, named])
    return [own, children] if selection.by_child else [own]


def _named(members: Iterable[tuple[JobId, int | None]]) -> str:
    return json.dumps([(rows.text(it), WHOLE if node is None else node) for it, node in members])


def _conditions(selection: JobFilter) -> Iterator[Part]:
    """The conditions, cheap ones first: visibility excludes most rows of other users; name patterns come last."""
    statuses = _statuses(selection)
    if selection.reach is not None:
        yield within(selection.reach)
    if statuses <= ACTIVE:
        yield "jobs.status IN ('STARTING', 'RUNNING')", []  # literally the condition of the partial index
    else:
        yield "jobs.finished_at IS NULL", []
    yield _among("jobs.status", statuses)
    if selection.by_child:
        yield f"NOT coalesce({HAS_CHILDREN}, FALSE)", []
    elif selection.members is None:
        yield "jobs.parent_ord IS NULL", []
    for column, values in (("owner", selection.users), ("account", selection.accounts), ("queue", selection.queues)):
        if values is not None:
            yield _among(f"jobs.{column}", values)
    if selection.environments is not None:
        yield _among(_member("attempt.environment"), selection.environments)
    if selection.names is not None:
        alternatives = [like("jobs.name", rows.text(folded(name))) for name in sorted(selection.names)]
        yield any_of([it for it, _ in alternatives]), [value for _, values in alternatives for value in values]


def _statuses(selection: JobFilter) -> frozenset[Status]:
    """The statuses to select. A job on a compute environment is always STARTING or RUNNING."""
    asked = _LIVE if selection.statuses is None else selection.statuses & _LIVE
    return asked if selection.environments is None else asked & ACTIVE


def _among(column: str, values: Iterable[str]) -> Part:
    condition = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - text of this module only
    return condition, [json.dumps(sorted(map(rows.text, values)))]


SQL = named("bulk_stops.sql")

ORDER = Decoder(BulkStopOrder)

EACH = {"ord": -1, "node": WHOLE}  # deletes all targets: those from this order and node on

Connection = sqlite3.Connection


def commit(connection: Connection, changes: Changes) -> None:
    """Save a unit of work. Targets of new bulk stops are selected last, so that the selection sees all changes."""
    job_writes.commit(connection, changes)
    for progress in changes.progress:
        _go_on(connection, progress)
    for sweep, selection in changes.sweeps:
        _begin(connection, sweep, selection, dict(changes.candidates).get(sweep.number))


def _begin(connection: Connection, sweep: BulkStop, selection: JobFilter, candidates: Candidates | None) -> None:
    """Insert a bulk stop and its targets. Replaces an unreadable bulk stop with the same number."""
    connection.execute(SQL["delete_targets"], {"bulk_stop": sweep.number, **EACH})
    connection.execute(SQL["insert_bulk_stop"], {"number": sweep.number, "value": rows.as_json(sweep.order)})
    if candidates is not None:  # the earlier selection is still valid for jobs that have not changed since
        unchanged = [it for it in candidates.places if it[0] not in candidates.changed]
        connection.execute(SQL["insert_targets"], {"bulk_stop": sweep.number, "places": json.dumps(unchanged)})
    chosen, bound = select(selection, None if candidates is None else candidates.changed)
    statement = f"INSERT OR IGNORE INTO bulk_stop_targets (bulk_stop, ord, node) SELECT ?, * FROM ({chosen})"  # noqa: S608 - text of this module only
    connection.execute(statement, [sweep.number, *bound])


def _go_on(connection: Connection, progress: Progress) -> None:
    """Delete the targets that are stopped. A complete bulk stop is deleted, because its number may be used again."""
    asked = {"bulk_stop": progress.sweep, "ord": progress.order, "node": _node(progress.node)}
    if progress.over:
        asked |= EACH
        connection.execute(SQL["delete_bulk_stop"], {"bulk_stop": progress.sweep})
    connection.execute(SQL["delete_targets"], asked)


def sweeps(connection: Connection) -> tuple[BulkStop, ...]:
    """The bulk stops. An unreadable one is skipped: its order is unknown, so its targets keep running."""
    return tuple(readable(connection.execute(SQL["bulk_stops"]), _sweep))


def meant_orders(connection: Connection, sweep: int) -> tuple[tuple[int, int], ...]:
    return tuple(merged(connection.execute(SQL["target_ranges"], {"bulk_stop": sweep})))


def next_meant(connection: Connection, sweep: int, limit: int) -> tuple[StopTarget, ...]:
    found = connection.execute(SQL["next_targets"], {"bulk_stop": sweep, "limit": limit})
    return job_reads.made(found, lambda row: StopTarget(job=rows.stored(row[1:]), node=_said(row[0])), order=1)


def candidates(connection: Connection, selection: JobFilter) -> tuple[Target, ...]:
    chosen, bound = select(selection)
    return tuple(sorted(set(connection.execute(chosen, bound))))


def preview(
    connection: Connection, selection: JobFilter, limit: int, after: tuple[int, int | None] | None
) -> tuple[Preview, ...]:
    chosen, bound = select(selection)
    statement = SQL["preview"].format(chosen=chosen, has_children=HAS_CHILDREN)
    place = (-1, WHOLE) if after is None else (after[0], _node(after[1]))
    return tuple(
        Preview(
            place=(order, _said(node)),
            job_id=JobId(job_id),
            name=name or "",
            status=Status(status),
            has_children=bool(has_children),
        )
        for order, node, job_id, name, status, has_children in connection.execute(statement, [*bound, *place, limit])
    )


def _sweep(number: int, value: str) -> BulkStop:
    return BulkStop(number=number, order=ORDER.decode(value))


def _node(node: int | None) -> int:
    return WHOLE if node is None else node


def _said(node: int) -> int | None:
    return None if node == WHOLE else node
