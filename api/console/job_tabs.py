"""The tabs of the list of jobs: states that are filters, each with the number of jobs that match the other filters."""

from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from batchq.api.console.job_filters import By, JobFilters, Stopped
from batchq.domain.enums import ACTIVE, QUEUED, Status, StopKind
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import JobCount, JobPage, PageQuery, SearchOrder

MAX_COUNTED = 999  # jobs: with one more, a count reads one chunk of an index
_STATE_FILTERS = frozenset({"state", "stopped"})

Filters = list[tuple[str, str]]
#: The filters of each tab. A tab of unfinished jobs is none of a list by end.
TABS: Mapping[str, Filters] = {
    "All": [],
    "Running": [("state", status.value) for status in Status if status in ACTIVE],
    "Waiting": [("state", status.value) for status in Status if status in QUEUED],
    "Failed": [("stopped", Stopped.NO.value)],
    "Stopped": [("stopped", Stopped.YES.value)],
}
_OF_UNFINISHED = frozenset({"Running", "Waiting"})
_STOPS = frozenset({StopKind.CANCEL, StopKind.TERMINATE})


class JobTab(Struct, frozen=True, kw_only=True):
    """A tab, with the path of its list."""

    name: str
    path: str
    is_current: bool
    count: JobCount


def current_tab(query: JobFilters) -> str | None:
    """The tab whose filters are those of the query; None: the query selects states of its own."""
    given = sorted(pair for pair in query.filters() if pair[0] in _STATE_FILTERS)
    return next((name for name, filters in TABS.items() if sorted(filters) == given), None)


def other_filters(query: JobFilters) -> Filters:
    """The filters without those of states."""
    return [pair for pair in query.filters() if pair[0] not in _STATE_FILTERS]


def job_tabs(query: JobFilters, view: Filters, counts: Mapping[str, JobCount]) -> list[JobTab]:
    """The tabs of `counts`. `view`: the members of the query that a tab keeps besides the filters."""
    current, others = current_tab(query), other_filters(query)
    return [
        JobTab(name=name, path=_path([*filters, *others, *view]), is_current=name == current, count=counts[name])
        for name, filters in TABS.items()
        if name in counts
    ]


def counting(query: JobFilters, now: datetime) -> dict[str, PageQuery]:
    """The queries that count the jobs of each tab, up to MAX_COUNTED."""
    by_ended = query.by is By.ENDED
    order, selection = SearchOrder.ENDED if by_ended else SearchOrder.CREATED, query.selection(now)
    return {
        name: PageQuery(selection=_on_tab(selection, filters), order_by=order, limit=MAX_COUNTED)
        for name, filters in TABS.items()
        if not (by_ended and name in _OF_UNFINISHED)
    }


def known_counts(query: JobFilters, found: JobPage | None) -> dict[str, JobCount]:
    """The counts that follow from the jobs of the current tab: its own one, and of all jobs those of every tab.

    `found`: all jobs of the query, or those that its search found before the search reached its bound; None: not known.
    """
    current = current_tab(query)
    if found is None or current is None:
        return {}
    if current == "All" and found.next is None:
        return {name: _count(sum(map(selects, found.jobs)), is_whole=True) for name, selects in _SELECTS.items()}
    return {current: _count(len(found.jobs), is_whole=found.next is None)}


#: Whether a job is on a tab.
_SELECTS: Mapping[str, Callable[[Job], bool]] = {
    "All": lambda _: True,
    "Running": lambda job: job.status in ACTIVE,
    "Waiting": lambda job: job.status in QUEUED,
    "Failed": lambda job: job.status is Status.FAILED and not _is_stopped(job),
    "Stopped": lambda job: job.status is Status.FAILED and _is_stopped(job),
}


def _is_stopped(job: Job) -> bool:
    return any(order.kind in _STOPS for order in job.stop_orders)


def _count(jobs: int, *, is_whole: bool) -> JobCount:
    return JobCount(jobs=min(jobs, MAX_COUNTED), is_exact=is_whole and jobs <= MAX_COUNTED)


def _path(pairs: Filters) -> str:
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


def _on_tab(selection: JobSelection, filters: Filters) -> JobSelection:
    states = frozenset(Status(value) for name, value in filters if name == "state")
    stopped = next((value == Stopped.YES for name, value in filters if name == "stopped"), None)
    return replace(selection, statuses=states or None, stopped=stopped)
