"""The page of a group of jobs: counts, a table of values and results, pictures of them, and all of it as CSV."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Struct
from pydantic import Field

from batchq.api.console.cell_grid import members_grid
from batchq.api.console.job_words import tab_title
from batchq.api.console.member_results import (
    CSV_LIMIT,
    LIST_ORDER,
    MemberRow,
    as_number,
    csv_answer,
    failure_reasons,
    member_names,
    member_row,
    run_time_picture,
    run_times,
)
from batchq.api.console.memory_offer import memory_offer
from batchq.api.console.pages import Page, PageAnswer, PageTable
from batchq.api.console.svg import scatter_plot, status_bar
from batchq.api.http.http import RequestQuery, Word
from batchq.api.operations.job_pages import in_slices
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import QUEUED
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, group_path
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.stopping import is_stopped_by_user
from batchq.domain.progress import JobProgress, progress_of
from batchq.errors import NotFound
from batchq.ports.job_search import PageQuery

MAX_JOBS = 1000  # of the table and the pictures: the newest
PER_PAGE = 100  # rows of the table
MAX_NAMES = 20  # columns of values, and of metrics; the CSV has all
NUMBERS = frozenset({"exit", "ran", "attempts", "cpu", "memory"})
FIXED = ("name", "state", "exit", "ran", "attempts", "cpu", "memory")

pages = PageTable()


class GroupPageQuery(RequestQuery):
    """What the page of a group shows."""

    #: `state`: failed jobs first, then running ones; or another
    #: column of FIXED, `value.NAME` or `metric.NAME`; with a leading hyphen descending.
    sort: Word = "state"
    page: Annotated[int, Field(ge=0, le=MAX_JOBS)] = 0
    #: A metric, and the value over which it is drawn; None: the first of each.
    metric: Word | None = None
    over: Word | None = None


class GroupColumn(Struct, frozen=True, kw_only=True):
    """The head of a column of the table."""

    key: str
    title: str
    #: The query that sorts by it.
    path: str
    #: `ascending`, `descending`, or empty for a column by which the table is not sorted.
    order: str
    is_number: bool


@pages.get("/groups/{group:g-[0-9a-f]{20}}", Permission.SELF)
async def group_page(parts: Parts, visit: Call[GroupPageQuery]) -> Page:
    query, caller = visit.input, visit.caller
    group = await find_group(parts, visit.path["group"], caller)
    found = await parts.search.search(PageQuery(selection=_selection(group), limit=MAX_JOBS), caller=caller)
    rows = [member_row(job) async for job in in_slices(reversed(found.jobs))]
    values = member_names((row.values for row in rows), most=MAX_NAMES)
    metrics = member_names((row.metrics for row in rows), most=MAX_NAMES)
    ordered = sorted_rows(rows, query.sort)
    first = query.page * PER_PAGE
    path = group_path(group.terms.id)
    waiting = [row.job for row in rows if row.job.status in QUEUED]
    held = sum(job.hold is not None for job in waiting)
    shown = {
        "group": group,
        "path": path,
        "grid": members_grid([row.job for row in rows]),
        "progress": progress_of_group(group),
        "bar": status_bar(group_parts(group), progress_of_group(group).counts),
        "columns": _columns(query, values, metrics),
        "rows": ordered[first : first + PER_PAGE],
        "values": values,
        "metrics": metrics,
        "total": len(rows),
        "is_complete": found.next is None,
        "held": held,
        "can_hold": held < len(waiting) if found.next is None else group.waiting,
        "can_release": held if found.next is None else group.waiting,
        "reasons": failure_reasons(rows),
        "more_memory": memory_offer(parts, found.jobs, {"group": group.terms.id}, caller=caller),
        "histogram": run_time_picture(run_times(rows)),
        "plot": _plot(rows, query.metric or next(iter(metrics), None), query.over or next(iter(values), None)),
        "query": query,
        "queues": sorted({row.job.spec.queue for row in rows}),
        "newer": _query(query, page=query.page - 1) if query.page else None,
        "older": _query(query, page=query.page + 1) if first + PER_PAGE < len(rows) else None,
    }
    name, counts = group.terms.name, {"running": group.active, "failed": group.failed}
    if group.ended_at is not None:
        counts = {"succeeded": group.succeeded, "failed": group.failed}
    return Page(template="group.html", title=f"Group {name}", values=shown, tab=tab_title(name, counts))


@pages.get("/groups/{group:g-[0-9a-f]{20}}/csv", Permission.SELF, limit=CSV_LIMIT)
async def group_csv(parts: Parts, visit: Call[None]) -> PageAnswer:
    """All jobs of the group, the newest first, with their values and results."""
    group = await find_group(parts, visit.path["group"], visit.caller)
    return await csv_answer(parts, _selection(group), name=group.terms.name, caller=visit.caller)


async def find_group(parts: Parts, group_id: str, caller: Caller) -> Group:
    """The group. Raises NotFound."""
    found = await parts.search.groups([GroupId(group_id)], caller=caller)
    if not found:
        raise NotFound(f"Group {group_id} not found.")
    return found[GroupId(group_id)]


def progress_of_group(group: Group) -> JobProgress:
    mean_run = group.run_time.total_seconds() / group.succeeded if group.succeeded else None
    return progress_of(group.terms.name, group.size, dict(group.counts), stopped=group.stopped, mean_run=mean_run)


def group_parts(group: Group) -> list[tuple[str, int]]:
    """The parts of the bar of a group: the class of the colour, and the number of jobs."""
    missing = group.size - group.submitted
    return [
        ("SUCCEEDED", group.succeeded),
        ("FAILED", group.failed + group.stopped),
        ("RUNNING", group.active),
        ("RUNNABLE", group.waiting + missing),
    ]


def sorted_rows(rows: Iterable[MemberRow], sort: str) -> list[MemberRow]:
    """The rows by a column. Rows without a value are last. An unknown column keeps the order of submission."""
    key = sort.removeprefix("-")
    found = [(value, row) for row in rows if (value := _value(row, key)) is not None]
    rest = [row for row in rows if _value(row, key) is None]
    numbers = [as_number(value) for value, _ in found]
    keys = [str(value) for value, _ in found] if None in numbers else numbers
    order = sorted(range(len(found)), key=keys.__getitem__, reverse=sort.startswith("-"))  # type: ignore[arg-type]  # all keys are numbers, or all are texts
    return [found[at][1] for at in order] + rest


def _value(row: MemberRow, key: str) -> str | float | None:
    fixed: Mapping[str, Callable[[], str | float | None]] = {
        "name": lambda: row.job.sequence,
        "state": lambda: LIST_ORDER.index(row.job.status) + is_stopped_by_user(row.job) / 2,
        "exit": lambda: row.exit_code,
        "ran": lambda: row.ran,
        "attempts": lambda: row.attempts,
        "cpu": lambda: None if row.use is None else row.use.cpu_seconds,
        "memory": lambda: None if row.use is None else row.use.peak_memory,
    }
    if key in fixed:
        return fixed[key]()
    kind, _, name = key.partition(".")
    return row.values.get(name) if kind == "value" else row.metrics.get(name)


def _columns(query: GroupPageQuery, values: Sequence[str], metrics: Sequence[str]) -> list[GroupColumn]:
    keys = {"name": "Job"} | {f"value.{name}": name for name in values}
    keys |= {"state": "Status", "exit": "Exit code", "ran": "Ran", "attempts": "Attempts"}
    keys |= {"cpu": "CPU time", "memory": "Peak memory"}
    keys |= {f"metric.{name}": name for name in metrics}
    return [_column(query, key, title) for key, title in keys.items()]


def _column(query: GroupPageQuery, key: str, title: str) -> GroupColumn:
    is_number = key in NUMBERS or key.startswith("metric.")
    order = {key: "ascending", f"-{key}": "descending"}.get(query.sort, "")
    sort = f"-{key}" if order == "ascending" else key
    return GroupColumn(key=key, title=title, path=_query(query, sort=sort, page=0), order=order, is_number=is_number)


def _query(query: GroupPageQuery, **changes: object) -> str:
    members = query.model_dump() | changes
    return f"?{urlencode({name: value for name, value in members.items() if value not in (None, 0)})}"


def _plot(rows: Iterable[MemberRow], metric: str | None, over: str | None) -> object:
    """A metric over a value; None without one of them, or if no job has both as numbers."""
    if metric is None or over is None:
        return None
    pairs = ((as_number(row.values.get(over)), row.metrics.get(metric), row.job.spec.name) for row in rows)
    points = [(x, y, name) for x, y, name in pairs if x is not None and y is not None]
    return scatter_plot(points, f"{metric} over {over}") if points else None


def _selection(group: Group) -> JobSelection:
    return JobSelection(groups=frozenset({group.terms.id}))
