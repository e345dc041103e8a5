"""The children of an array: a grid of all, results, and a list, failed ones first. The page of the array has a part."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct
from pydantic import Field

from batchq.api.console.cell_grid import MAX_CELLS, children_grid
from batchq.api.console.job_words import JOB, job_crumbs, job_id_of, job_title
from batchq.api.console.member_results import (
    CSV_LIMIT,
    LIST_ORDER,
    MemberRow,
    csv_answer,
    failure_reasons,
    member_row,
    run_time_picture,
    run_times,
)
from batchq.api.console.memory_offer import MemoryOffer, memory_offer
from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect
from batchq.api.console.svg import status_bar
from batchq.api.http.http import RequestQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import child_id, job_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.domain.progress import JobProgress, progress_of
from batchq.errors import NotFound
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import ChildRun
from batchq.services.job_views import JobView

PER_PAGE = 50  # children
LISTED = 10  # of the page of the array
#: The order of the bar.
BAR = (Status.SUCCEEDED, Status.FAILED, Status.RUNNING, Status.STARTING, Status.RUNNABLE, Status.PENDING)
MAX_TIMED = 100  # children of a large array whose run times are read
MAX_RANGES = 100  # ranges of equal statuses that are listed
Index = Annotated[int, Field(ge=0, le=99_999)] | None
pages = PageTable()


class ChildrenQuery(RequestQuery):
    """Which children are listed."""

    #: None: all that exist.
    state: Status | None = None
    #: Without `state`: only children of this status and of those behind it in LIST_ORDER.
    at: Status | None = None
    #: Only children of the first of these statuses with an index below this one, and those behind them.
    before: Index = None
    #: The child whose page is opened.
    index: Index = None


class ChildrenPart(Struct, frozen=True, kw_only=True):
    """The children on the page of their array."""

    bar: Markup
    grid: Markup
    is_large: bool
    counts: Sequence[tuple[Status, int]]
    progress: JobProgress
    #: The first ones that failed, and then those that run.
    views: Sequence[JobView]
    #: A rerun of the failed ones with more memory; None: none was killed for a lack of memory.
    more_memory: MemoryOffer | None


@pages.get(f"{JOB}/children", Permission.SELF)
async def children_page(parts: Parts, visit: Call[ChildrenQuery]) -> PageAnswer:
    query, caller, job_id = visit.input, visit.caller, job_id_of(visit.path)
    array = await parts.jobs.find(job_id, caller=caller)
    if array is None or not is_parent(array):
        raise NotFound(f"Array {job_id} not found.")
    if query.index is not None and query.index < size(array):
        return Redirect(location=job_path(child_id(array.id, query.index)))
    runs = await parts.jobs.child_runs(array)
    counts, jobs = _counts(runs), await _in_cells(parts, array, caller)
    ended = await _ended(parts, array, runs, jobs, caller)
    statuses = LIST_ORDER[LIST_ORDER.index(query.at or LIST_ORDER[0]) :] if query.state is None else (query.state,)
    places = _places(runs, statuses, limit=PER_PAGE + 1, before=query.before)
    children = await _at(parts, array, places[:PER_PAGE], caller)
    values = {
        "array": array,
        "crumbs": job_crumbs(array.id, array.spec.name, (array.spec.name, job_path(array.id))),
        "query": query,
        "size": size(array),
        "counts": counts,
        "grid": children_grid(runs, jobs, size=size(array), array=array.id),
        "progress": _progress(array, counts, ended),
        "reasons": failure_reasons(ended),
        "histogram": run_time_picture(run_times(ended)),
        "max_failed": MAX_CELLS,
        "max_timed": MAX_TIMED,
        "more_memory": _more_memory(parts, array, ended, caller),
        "is_large": size(array) > MAX_CELLS,
        "ranges": runs[:MAX_RANGES],
        "more_ranges": len(runs) - MAX_RANGES,
        "rows": [(view, member_row(view.job)) for view in await parts.views.listed(children, caller=caller)],
        "older": _older(query, places[PER_PAGE - 1]) if len(places) > PER_PAGE else None,
    }
    return Page(template="children.html", title=f"Children of {job_title(array)}", values=values)


@pages.get(f"{JOB}/children/csv", Permission.SELF, limit=CSV_LIMIT)
async def children_csv(parts: Parts, visit: Call[None]) -> PageAnswer:
    """All children, the highest index first, with their results."""
    job_id = job_id_of(visit.path)
    array = await parts.jobs.find(job_id, caller=visit.caller)
    if array is None or not is_parent(array):
        raise NotFound(f"Array {job_id} not found.")
    return await csv_answer(parts, JobSelection(parent=array.id), name=array.spec.name, caller=visit.caller)


async def children_part(parts: Parts, array: Job, *, caller: Caller) -> ChildrenPart:
    """What the page of the array shows of its children. Raises StoreFailed."""
    runs = await parts.jobs.child_runs(array)
    counts, jobs = _counts(runs), await _in_cells(parts, array, caller)
    ended = await _ended(parts, array, runs, jobs, caller)
    shown = await _at(parts, array, _places(runs, LIST_ORDER[:3], limit=LISTED), caller)
    return ChildrenPart(
        bar=status_bar([(status.value, dict(counts).get(status, 0)) for status in BAR], "Statuses of the children"),
        grid=children_grid(runs, jobs, size=size(array), array=array.id),
        is_large=size(array) > MAX_CELLS,
        counts=counts,
        progress=_progress(array, counts, ended),
        views=await parts.views.listed(shown, caller=caller),
        more_memory=_more_memory(parts, array, ended, caller),
    )


async def _in_cells(parts: Parts, array: Job, caller: Caller) -> tuple[Job, ...]:
    """All children of an array whose grid has a cell for each; empty for a larger array."""
    if size(array) > MAX_CELLS:
        return ()
    return await parts.jobs.list(PageQuery(selection=JobSelection(parent=array.id), limit=MAX_CELLS), caller=caller)


async def _ended(
    parts: Parts, array: Job, runs: Sequence[ChildRun], jobs: Sequence[Job], caller: Caller
) -> Sequence[MemberRow]:
    """The ended children; of a large array the MAX_CELLS that FAILED and the MAX_TIMED others with the highest indices.

    `jobs`: all children of an array that is not large.
    """
    if size(array) > MAX_CELLS:
        failed = _places(runs, [Status.FAILED], limit=MAX_CELLS)
        jobs = await _at(parts, array, [*failed, *_places(runs, [Status.SUCCEEDED], limit=MAX_TIMED)], caller)
    return [member_row(job) for job in jobs if job.status in FINISHED]


def _progress(array: Job, counts: Sequence[tuple[Status, int]], ended: Sequence[MemberRow]) -> JobProgress:
    runs = run_times(ended)
    mean_run = sum(runs) / len(runs) if runs else None
    return progress_of(array.spec.name, size(array), dict(counts), mean_run=mean_run)


def _more_memory(parts: Parts, array: Job, ended: Sequence[MemberRow], caller: Caller) -> MemoryOffer | None:
    failed = [row.job for row in ended if row.job.status is Status.FAILED]
    return memory_offer(parts, failed, {"job": array.id}, caller=caller)


class _Place(NamedTuple):
    """A child in the list."""

    status: Status
    number: int


def _places(
    runs: Sequence[ChildRun], statuses: Sequence[Status], *, limit: int, before: int | None = None
) -> Sequence[_Place]:
    """The children of each status in turn, those with the highest index first.

    `before`: of the first status only children with an index below this one.
    """
    ends = {status: before if status is statuses[0] else None for status in statuses}
    found = (
        _Place(status, index)
        for status, end in ends.items()
        for run in reversed(runs)
        if run.status is status
        for index in reversed(range(run.first, run.end if end is None else min(run.end, end)))
    )
    return tuple(islice(found, limit))


async def _at(parts: Parts, array: Job, places: Sequence[_Place], caller: Caller) -> tuple[Job, ...]:
    return await parts.jobs.describe([child_id(array.id, place.number) for place in places], caller=caller)


def _counts(runs: Sequence[ChildRun]) -> list[tuple[Status, int]]:
    counts = Counter[Status]()
    for run in runs:
        counts[run.status] += run.end - run.first
    return [(status, counts[status]) for status in Status if counts[status]]


def _older(query: ChildrenQuery, last: _Place) -> str:
    """The query of the next page."""
    status = {"at": last.status.value} if query.state is None else {"state": query.state.value}
    return urlencode({**status, "before": last.number})
