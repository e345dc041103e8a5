"""The page of a group of jobs: counts, a table of values and results, pictures of them, and all of it as CSV."""

import asyncio
import csv
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Annotated
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.cell_grid import members_grid
from batchq.api.console.job_words import tab_title
from batchq.api.console.memory_offer import memory_offer
from batchq.api.console.pages import HEADERS, Page, PageAnswer, PageTable
from batchq.api.console.svg import histogram, scatter_plot, status_bar
from batchq.api.http.http import RequestQuery, Word
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import Status
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, group_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.use import NOT_MEASURED, Use
from batchq.errors import NotFound
from batchq.ports.job_search import PageQuery

MAX_JOBS = 1000  # of the table and the pictures: the newest
PER_PAGE = 100  # rows of the table
MAX_REASONS = 20
MAX_NAMES = 20  # columns of values, and of metrics; the CSV has all
CSV_PAGE = 1000  # jobs that are read at once for the CSV
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # the beginnings of texts that a spreadsheet would compute
FIXED = ("name", "state", "exit", "ran", "attempts", "cpu", "memory")
USED = ("cpu seconds", "peak memory bytes", "working set bytes")  # columns of the CSV
RESULTS = ("state", "exit code", "reason", "run seconds", "attempts", *USED)

pages = PageTable()


class GroupPageQuery(RequestQuery):
    """What the page of a group shows."""

    #: A column of FIXED, `value.NAME` or `metric.NAME`; with a leading hyphen descending.
    sort: Word = "name"
    page: Annotated[int, Field(ge=0, le=MAX_JOBS)] = 0
    #: A metric, and the value over which it is drawn.
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


class MemberRow(Struct, frozen=True, kw_only=True):
    """A job of the group with its values and results."""

    job: Job
    exit_code: int | None
    #: The run time of its latest attempt in seconds; None: it has not started, or not ended.
    ran: float | None
    attempts: int
    #: What its latest attempt used; None: it was not measured.
    use: Use | None
    values: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def unmeasured(self) -> str:
        """The text for a figure that is not known; empty for a job that has not run."""
        return "" if self.job.started_at is None else NOT_MEASURED


class CsvRow(Struct, frozen=True, kw_only=True):
    """What the CSV has of a job. It is small, because all jobs of a group are in memory at the same time."""

    job_id: str
    name: str
    values: Mapping[str, str]
    #: State, exit code, reason, run time in seconds, attempts, CPU time in seconds, bytes of memory.
    results: tuple[object, ...]
    metrics: Mapping[str, float]


@pages.get("/groups/{group:g-[0-9a-f]{20}}", Permission.SELF)
async def group_page(parts: Parts, visit: Call[GroupPageQuery]) -> Page:
    query, caller = visit.input, visit.caller
    group = await find_group(parts, visit.path["group"], caller)
    found = await parts.search.search(PageQuery(selection=_selection(group), limit=MAX_JOBS), caller=caller)
    rows = [member_row(job) for job in reversed(found.jobs)]
    values = _names(row.values for row in rows)[:MAX_NAMES]
    metrics = _names(row.metrics for row in rows)[:MAX_NAMES]
    ordered = sorted_rows(rows, query.sort)
    first = query.page * PER_PAGE
    runs = [row.ran for row in rows if row.ran is not None and row.job.status is Status.SUCCEEDED]
    path = group_path(group.terms.id)
    shown = {
        "group": group,
        "path": path,
        "grid": members_grid([row.job for row in rows]),
        "bar": status_bar(group_parts(group), _counts_label(group)),
        "columns": _columns(query, values, metrics),
        "rows": ordered[first : first + PER_PAGE],
        "values": values,
        "metrics": metrics,
        "total": len(rows),
        "is_complete": found.next is None,
        "reasons": _reasons(rows),
        "more_memory": memory_offer(parts, found.jobs, {"group": group.terms.id}, caller=caller),
        "histogram": histogram(runs, "Run times of the jobs that succeeded") if len(runs) > 1 else None,
        "plot": _plot(query, rows),
        "query": query,
        "queues": sorted({row.job.spec.queue for row in rows}),
        "newer": _query(query, page=query.page - 1) if query.page else None,
        "older": _query(query, page=query.page + 1) if first + PER_PAGE < len(rows) else None,
    }
    name, counts = group.terms.name, {"running": group.active, "failed": group.failed}
    if group.ended_at is not None:
        counts = {"succeeded": group.succeeded, "failed": group.failed}
    return Page(template="group.html", title=f"Group {name}", values=shown, tab=tab_title(name, counts))


@pages.get("/groups/{group:g-[0-9a-f]{20}}/csv", Permission.SELF)
async def group_csv(parts: Parts, visit: Call[None]) -> PageAnswer:
    """All jobs of the group, the newest first, with their values and results."""
    group = await find_group(parts, visit.path["group"], visit.caller)
    rows = [_csv_row(member_row(job)) async for job in _all_jobs(parts, group, visit.caller)]
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{group.terms.name}.csv"'}
    text = await asyncio.to_thread(_csv_text, rows)
    return web.Response(text=text, content_type="text/csv", headers=headers)


def _csv_text(rows: Sequence[CsvRow]) -> str:
    values, metrics = _names(row.values for row in rows), _names(row.metrics for row in rows)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["job", "name", *values, *RESULTS, *metrics])
    for row in rows:
        given = [row.values.get(name, "") for name in values]
        measured = [row.metrics.get(name, "") for name in metrics]
        table.writerow([_cell(cell) for cell in (row.job_id, row.name, *given, *row.results, *measured)])
    return text.getvalue()


async def find_group(parts: Parts, group_id: str, caller: Caller) -> Group:
    """The group. Raises NotFound."""
    found = await parts.search.groups([GroupId(group_id)], caller=caller)
    if not found:
        raise NotFound(f"Group {group_id} not found.")
    return found[GroupId(group_id)]


def group_parts(group: Group) -> list[tuple[str, int]]:
    """The parts of the bar of a group: the class of the colour, and the number of jobs."""
    missing = group.size - group.submitted
    return [
        ("SUCCEEDED", group.succeeded),
        ("FAILED", group.failed + group.stopped),
        ("RUNNING", group.active),
        ("RUNNABLE", group.waiting + missing),
    ]


def member_row(job: Job) -> MemberRow:
    run = job.latest_attempt
    ran = None if job.started_at is None or job.stopped_at is None else job.stopped_at - job.started_at
    metrics = {} if run is None else {name: value.value for name, value in run.metrics}
    return MemberRow(
        job=job,
        exit_code=None if run is None else run.exit_code,
        ran=None if ran is None else ran.total_seconds(),
        attempts=len(job.all_attempts),
        use=None if run is None else run.use,
        values=dict(job.spec.parameters),
        metrics=metrics,
    )


def _csv_row(row: MemberRow) -> CsvRow:
    used = (None, None, None) if row.use is None else (row.use.cpu_seconds, row.use.peak_memory, row.use.working_set)
    results = (row.job.status.value, row.exit_code, shown_status_reason(row.job), row.ran, row.attempts, *used)
    return CsvRow(job_id=row.job.id, name=row.job.spec.name, values=row.values, results=results, metrics=row.metrics)


def sorted_rows(rows: Iterable[MemberRow], sort: str) -> list[MemberRow]:
    """The rows by a column. Rows without a value are last. An unknown column keeps the order of submission."""
    key = sort.removeprefix("-")
    found = [(value, row) for row in rows if (value := _value(row, key)) is not None]
    rest = [row for row in rows if _value(row, key) is None]
    numbers = [_number(value) for value, _ in found]
    keys = [str(value) for value, _ in found] if None in numbers else numbers
    order = sorted(range(len(found)), key=keys.__getitem__, reverse=sort.startswith("-"))  # type: ignore[arg-type]  # all keys are numbers, or all are texts
    return [found[at][1] for at in order] + rest


def _value(row: MemberRow, key: str) -> str | float | None:
    fixed: Mapping[str, Callable[[], str | float | None]] = {
        "name": lambda: row.job.sequence,
        "state": lambda: row.job.status.value,
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


def _number(value: str | float | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _columns(query: GroupPageQuery, values: Sequence[str], metrics: Sequence[str]) -> list[GroupColumn]:
    keys = {"name": "Job"} | {f"value.{name}": name for name in values}
    keys |= {"state": "Status", "exit": "Exit code", "ran": "Ran", "attempts": "Attempts"}
    keys |= {"cpu": "CPU time", "memory": "Peak memory"}
    keys |= {f"metric.{name}": name for name in metrics}
    return [_column(query, key, title) for key, title in keys.items()]


def _column(query: GroupPageQuery, key: str, title: str) -> GroupColumn:
    order = {key: "ascending", f"-{key}": "descending"}.get(query.sort, "")
    sort = f"-{key}" if order == "ascending" else key
    return GroupColumn(key=key, title=title, path=_query(query, sort=sort, page=0), order=order)


def _query(query: GroupPageQuery, **changes: object) -> str:
    members = query.model_dump() | changes
    return f"?{urlencode({name: value for name, value in members.items() if value not in (None, 0)})}"


def _names(members: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for each in members for name in each))


def _reasons(rows: Iterable[MemberRow]) -> list[tuple[str, int]]:
    """Why jobs failed, the most frequent reason first."""
    failed = Counter(_reason(row) for row in rows if row.job.status is Status.FAILED)
    return failed.most_common(MAX_REASONS)


def _reason(row: MemberRow) -> str:
    reason = shown_status_reason(row.job) or ""
    return f"exit code {row.exit_code}: {reason}".removesuffix(": ") if row.exit_code else reason


def _plot(query: GroupPageQuery, rows: Iterable[MemberRow]) -> object:
    """One metric over one value; None if the query names none, or no job has both as numbers."""
    if query.metric is None or query.over is None:
        return None
    pairs = ((_number(row.values.get(query.over)), row.metrics.get(query.metric), row.job.spec.name) for row in rows)
    points = [(x, y, name) for x, y, name in pairs if x is not None and y is not None]
    return scatter_plot(points, f"{query.metric} over {query.over}") if points else None


def _counts_label(group: Group) -> str:
    return (
        f"{group.succeeded} succeeded, {group.failed} failed, {group.stopped} stopped, {group.active} running, "
        f"{group.size - group.submitted + group.waiting} waiting"
    )


def _selection(group: Group) -> JobSelection:
    return JobSelection(groups=frozenset({group.terms.id}))


async def _all_jobs(parts: Parts, group: Group, caller: Caller) -> AsyncIterator[Job]:
    query = PageQuery(selection=_selection(group), limit=CSV_PAGE)
    while True:
        page = await parts.search.search(query, caller=caller)
        for job in page.jobs:
            yield job
        if page.next is None:
            return
        query = replace(query, before=page.next)


def _cell(value: object) -> object:
    """The value for a spreadsheet: a text that would be a formula is quoted."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA) and _number(value) is None
    return f"'{value}" if is_formula else value
