"""Which jobs a selection means, in SQL. `matching` says the same in Python; one contract holds both.

Every word of the caller is bound; sets of them go as one JSON text each, for SQLite has only so many variables.
"""

import json
from collections.abc import Iterable, Iterator

from batchq.domain.job import ACTIVE, FINISHED, Status
from batchq.domain.sweep import Selection
from batchq.store import rows
from batchq.store.listing import Bound, any_of, like, within
from batchq.store.matching import folded

WHOLE = -1  # the `node` of a job as a whole

Part = tuple[str, Bound]

_LIVE = frozenset(Status) - FINISHED
_NAMED = "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS node FROM json_each(?)) AS named"


def _member(path: str) -> str:
    """A member of a job's JSON. What is damaged has none."""
    return f"CASE WHEN json_valid(jobs.state) THEN json_extract(jobs.state, '$.{path}') END"


HAS_CHILDREN = f"(jobs.array_size > 0 AND jobs.status = 'PENDING' AND {_member('family')} IS NOT NULL)"


def select(selection: Selection) -> Part:
    """SELECT the order and the node of each; some may come twice."""
    parts = list(_conditions(selection))
    where = " AND ".join(condition for condition, _ in parts)
    bound = [value for _, values in parts for value in values]
    if selection.members is None:
        source = f"jobs INDEXED BY {'jobs_active' if _statuses(selection) <= ACTIVE else 'jobs_unfinished'}"
        return f"SELECT jobs.ord, {WHOLE} AS node FROM {source} WHERE {where}", bound  # noqa: S608 - nobody's words
    named = json.dumps([(rows.text(it), WHOLE if node is None else node) for it, node in selection.members])
    source = f"{_NAMED} CROSS JOIN jobs ON jobs.id = named.id"
    own = f"SELECT jobs.ord, named.node FROM {source} WHERE {where}"  # noqa: S608 - nobody's words
    if not selection.by_child:
        return own, [named, *bound]
    source = f"{_NAMED} CROSS JOIN jobs AS array ON array.id = named.id CROSS JOIN jobs ON jobs.parent_ord = array.ord"
    children = f"SELECT jobs.ord, {WHOLE} FROM {source} WHERE {where}"  # noqa: S608 - nobody's words
    return f"{own} UNION {children}", [named, *bound, named, *bound]


def _conditions(selection: Selection) -> Iterator[Part]:
    statuses = _statuses(selection)
    if statuses <= ACTIVE:
        yield "jobs.status IN ('STARTING', 'RUNNING')", []  # as the index has it
    else:
        yield "jobs.finished_at IS NULL", []
    yield _among("jobs.status", statuses)
    if selection.by_child:
        yield f"NOT coalesce({HAS_CHILDREN}, FALSE)", []
    elif selection.members is None:
        yield "jobs.parent_ord IS NULL", []
    if selection.names is not None:
        alternatives = [like("jobs.name", rows.text(folded(name))) for name in sorted(selection.names)]
        yield any_of([it for it, _ in alternatives]), [value for _, values in alternatives for value in values]
    for column, values in (("owner", selection.users), ("account", selection.accounts), ("queue", selection.queues)):
        if values is not None:
            yield _among(f"jobs.{column}", values)
    if selection.environments is not None:
        yield _among(_member("attempt.environment"), selection.environments)
    if selection.reach is not None:
        yield within(selection.reach)


def _statuses(selection: Selection) -> frozenset[Status]:
    """Who runs somewhere is active."""
    asked = _LIVE if selection.statuses is None else selection.statuses & _LIVE
    return asked if selection.environments is None else asked & ACTIVE


def _among(column: str, values: Iterable[str]) -> Part:
    condition = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - nobody's words
    return condition, [json.dumps(sorted(map(rows.text, values)))]
