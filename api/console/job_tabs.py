"""The tabs of the list of jobs: states that are filters, each with the number of jobs that match the other filters."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct

from batchq.api.console.job_filters import By, JobFilters, Stopped
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import ACTIVE, QUEUED, Status
from batchq.ports.job_search import JobCount, PageQuery, SearchOrder

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


async def job_tabs(parts: Parts, query: JobFilters, view: Filters, caller: Caller) -> list[JobTab]:
    """All tabs. `view`: the members of the query that a tab keeps besides the filters."""
    names = [name for name in TABS if query.by is not By.ENDED or name not in _OF_UNFINISHED]
    counts = await asyncio.gather(*(_count(parts, _with_states(query, TABS[name]), caller) for name in names))
    current = current_tab(query)
    return [
        JobTab(
            name=name, path=_path([*TABS[name], *other_filters(query), *view]), is_current=name == current, count=count
        )
        for name, count in zip(names, counts, strict=True)
    ]


def _path(pairs: Filters) -> str:
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


async def _count(parts: Parts, query: JobFilters, caller: Caller) -> JobCount:
    """How many jobs match, up to MAX_COUNTED."""
    order = SearchOrder.ENDED if query.by is By.ENDED else SearchOrder.CREATED
    search = PageQuery(selection=query.selection(parts.clock.now()), order_by=order, limit=MAX_COUNTED)
    return await parts.search.count(search, caller=caller)


def _with_states(query: JobFilters, filters: Filters) -> JobFilters:
    states = tuple(Status(value) for name, value in filters if name == "state")
    stopped = next((Stopped(value) for name, value in filters if name == "stopped"), None)
    return query.model_copy(update={"state": states, "stopped": stopped})
