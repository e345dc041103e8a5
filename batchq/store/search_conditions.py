"""The conditions of a job selection in SQL, each with the columns that it reads: for searches and for bulk stops.

A condition on columns of an index is evaluated on the index alone; the row of the job is read only for the others.
Every value of the caller is bound.
"""

import json
from collections.abc import Iterable, Iterator

from msgspec import Struct

from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.job_selection import JobSelection
from batchq.domain.times import microseconds
from batchq.ports.job_search import PageQuery, SearchOrder
from batchq.store import rows
from batchq.store.lists import LISTED, any_of, matches_definition, matches_name
from batchq.store.rows import WILDCARD, json_texts

T = "{t}"  # stands for the alias of the table or index in the text of a condition

_MILLISECOND = 1000  # microseconds

Value = str | int


class SearchCondition(Struct, frozen=True, kw_only=True):
    """One condition of a WHERE clause."""

    #: The columns that it reads.
    columns: frozenset[str]
    #: With T for the alias, and `?` for each value.
    text: str
    #: Bound to the `?`, in this order.
    values: tuple[Value, ...] = ()


_NOT_REPLACED = SearchCondition(
    columns=frozenset({"id", "group_id", "status", "rerun_of", "sequence"}),
    text=f"({T}.status NOT IN ('SUCCEEDED', 'FAILED') OR NOT (EXISTS "  # noqa: S608 - text of this module only
    f"(SELECT 1 FROM jobs AS again WHERE again.rerun_of = {T}.id AND again.group_id = {T}.group_id) OR EXISTS "
    f"(SELECT 1 FROM jobs AS later INDEXED BY jobs_by_rerun WHERE later.rerun_of = {T}.rerun_of "
    f"AND later.sequence > {T}.sequence AND later.group_id = {T}.group_id)))",
)
_STOPPED = (
    f"EXISTS (SELECT 1 FROM json_each({T}.state, '$.stop_orders') AS stop_order WHERE json_valid({T}.state) "  # noqa: S608 - text of this module only
    "AND json_extract(stop_order.value, '$.kind') IN ('CANCEL', 'TERMINATE'))"
)


def conditions(query: PageQuery) -> tuple[SearchCondition, ...]:
    """All conditions of a query except those on the position: cheap ones first, patterns of names last."""
    return tuple(_conditions(query))


def finished_at(query: PageQuery) -> SearchCondition:
    """The expression for the end of a job, in microseconds; NULL for an unfinished one."""
    if not query.ended_arrays:
        return SearchCondition(columns=frozenset({"finished_at"}), text=f"{T}.finished_at")
    ends = json.dumps([[order, microseconds(at)] for order, at in sorted(query.ended_arrays.items())])
    member = "json_extract(ended.value, '$[{}]')"
    known = f"(SELECT {member.format(1)} FROM json_each(?) AS ended WHERE {member.format(0)} = {T}.sequence)"  # noqa: S608 - text of this module only
    text = f"CASE WHEN {T}.status = 'PENDING' THEN {known} ELSE {T}.finished_at END"
    return SearchCondition(columns=frozenset({"finished_at", "sequence", "status"}), text=text, values=(ends,))


def effective_statuses(query: PageQuery) -> frozenset[Status]:
    """The statuses that can match."""
    possible = query.selection.possible_statuses
    return possible & FINISHED if query.order_by is SearchOrder.ENDED else possible


def _conditions(query: PageQuery) -> Iterator[SearchCondition]:
    selection = query.selection
    if not selection.includes_children:
        yield SearchCondition(columns=frozenset({"parent_sequence"}), text=f"{T}.parent_sequence IS NULL")
    yield from _named_jobs(selection)
    yield from _of_groups(selection)
    if selection.held:
        yield SearchCondition(columns=frozenset({"passed_over"}), text=f"{T}.passed_over = {rows.HELD}")
    if (statuses := effective_statuses(query)) != frozenset(Status):
        yield _has_status(query, statuses)
    for column, values in (
        ("owner", selection.users),
        ("account", selection.accounts),
        ("queue", selection.queues),
        ("share_identifier", selection.shares),
    ):
        if values is not None:
            yield _is_in(column, values)
    if selection.visibility is not None:
        text = f"({T}.owner = ? OR {T}.account IN ({LISTED}))"
        owners = (rows.text(selection.visibility.user), json_texts(selection.visibility.accounts))
        yield SearchCondition(columns=frozenset({"owner", "account"}), text=text, values=owners)
    if selection.stopped is not None:
        text = _STOPPED if selection.stopped else f"NOT {_STOPPED}"
        yield SearchCondition(columns=frozenset({"state"}), text=text)
    yield from _of_attempt(selection)
    yield from _times(query)
    if selection.definitions is not None:
        columns = frozenset({"definition", "revision"})
        yield _any(columns, [matches_definition(rows.text(text), T) for text in sorted(selection.definitions)])
    if selection.names is not None:
        yield _any(frozenset({"name"}), [_matches_name(rows.text(name.lower())) for name in sorted(selection.names)])


def _of_attempt(selection: JobSelection) -> Iterator[SearchCondition]:
    """Conditions on the JSON of the latest attempt."""
    if selection.environments is not None:
        environment = f"CASE WHEN json_valid({T}.state) THEN json_extract({T}.state, '$.attempt.environment') END"
        text, values = f"{environment} IN ({LISTED})", (json_texts(selection.environments),)
        yield SearchCondition(columns=frozenset({"state"}), text=text, values=values)
    if selection.exit_codes is not None:
        attempt = f"CASE WHEN json_type({T}.state, '$.attempt') = 'object' THEN '$.attempt' ELSE '$.attempts[#-1]' END"
        code = f"CASE WHEN json_valid({T}.state) THEN json_extract({T}.state, {attempt} || '.exit_code') END"
        text, values = f"{code} IN ({LISTED})", (json.dumps(sorted(selection.exit_codes)),)
        yield SearchCondition(columns=frozenset({"state"}), text=text, values=values)


def _named_jobs(selection: JobSelection) -> Iterator[SearchCondition]:
    if selection.ids is not None:
        yield _is_in("id", selection.ids)
    if selection.id_prefix is not None:
        prefix = rows.text(selection.id_prefix)
        text = f"({T}.id >= ? AND {T}.id < ?)"
        yield SearchCondition(columns=frozenset({"id"}), text=text, values=(prefix, prefix + rows.AFTER_ANY_SUFFIX))
    if selection.parent is not None:
        array = "SELECT array.sequence FROM jobs AS array WHERE array.id = ?"
        text = f"{T}.parent_sequence = ({array})"
        yield SearchCondition(columns=frozenset({"parent_sequence"}), text=text, values=(rows.text(selection.parent),))


def _of_groups(selection: JobSelection) -> Iterator[SearchCondition]:
    if selection.groups is not None:
        yield _is_in("group_id", selection.groups)
        yield _NOT_REPLACED
    if selection.ungrouped:
        yield SearchCondition(columns=frozenset({"group_id"}), text=f"{T}.group_id IS NULL")


def _times(query: PageQuery) -> Iterator[SearchCondition]:
    selection, created = query.selection, frozenset({"created_at"})
    if selection.created_after is not None:
        yield SearchCondition(columns=created, text=f"{T}.created_at > ?", values=(selection.created_after,))
    if selection.created_before is not None:
        yield SearchCondition(columns=created, text=f"{T}.created_at < ?", values=(selection.created_before,))
    ended = finished_at(query)
    if selection.ended_after is not None:
        first = rows.integer((selection.ended_after + 1) * _MILLISECOND)
        yield SearchCondition(columns=ended.columns, text=f"{ended.text} >= ?", values=(*ended.values, first))
    if selection.ended_before is not None:
        end = rows.integer(selection.ended_before * _MILLISECOND)
        yield SearchCondition(columns=ended.columns, text=f"{ended.text} < ?", values=(*ended.values, end))


def _has_status(query: PageQuery, statuses: frozenset[Status]) -> SearchCondition:
    """Jobs that an order to their array has ended count as FAILED before their rows are written. Decision 0027."""
    columns, cases, values = {"status"}, "", list[Value]()
    if query.ended_arrays:
        columns.add("sequence")
        cases += f"WHEN {T}.status = 'PENDING' AND {T}.sequence IN ({LISTED}) THEN 'FAILED' "
        values.append(json.dumps(sorted(query.ended_arrays)))
    if query.stopped_arrays and query.selection.includes_children:
        columns.add("parent_sequence")
        queued = ", ".join(f"'{status}'" for status in sorted(QUEUED))
        cases += f"WHEN {T}.status IN ({queued}) AND {T}.parent_sequence IN ({LISTED}) THEN 'FAILED' "
        values.append(json.dumps(sorted(query.stopped_arrays)))
    status = f"CASE {cases}ELSE {T}.status END" if cases else f"{T}.status"
    listed = ", ".join(f"'{status}'" for status in sorted(statuses)) or "NULL"
    return SearchCondition(columns=frozenset(columns), text=f"{status} IN ({listed})", values=tuple(values))


def _is_in(column: str, values: Iterable[str]) -> SearchCondition:
    return SearchCondition(
        columns=frozenset({column}), text=f"{T}.{column} IN ({LISTED})", values=(json_texts(values),)
    )


def _any(columns: frozenset[str], parts: list[tuple[str, list[Value]]]) -> SearchCondition:
    """A condition that holds if one of `parts` does."""
    values = tuple(value for _, values in parts for value in values)
    return SearchCondition(columns=columns, text=any_of([part for part, _ in parts]), values=values)


def _matches_name(pattern: str) -> tuple[str, list[Value]]:
    column = f"{T}.name"
    if not pattern.startswith(WILDCARD):
        return matches_name(column, pattern)
    inner = pattern.removeprefix(WILDCARD)
    if inner.endswith(WILDCARD) or not inner:
        return f"instr({column}, ?) > 0", [inner.removesuffix(WILDCARD)]
    return f"substr({column}, -length(?)) = ?", [inner, inner]
