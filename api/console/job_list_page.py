"""The list of jobs: its filters, which are the query of the URL; pages of 50 jobs; and numbers of jobs by name."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.group_page import group_parts, progress_of_group
from batchq.api.console.job_collapse import CollapsedPage, GroupMatch, collapsed_page
from batchq.api.console.job_filters import By, JobFilters
from batchq.api.console.job_order import MAX_SORTED, JobSort, SortColumn, SortPosition, sorted_page
from batchq.api.console.job_tabs import JobTab, current_tab, job_tabs, other_filters
from batchq.api.console.job_words import tab_title
from batchq.api.console.pages import FRAGMENT, Page, PageAnswer, PageTable, Redirect
from batchq.api.console.svg import status_bar
from batchq.api.http.http import Word
from batchq.api.http.page_tokens import PageTokens, TokenQuery, parse_position, position_text
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId
from batchq.domain.job import Job
from batchq.domain.progress import JobProgress
from batchq.domain.times import milliseconds
from batchq.errors import NotFound
from batchq.ports.groups import GroupQuery
from batchq.ports.job_search import JobCount, PageQuery, SearchOrder, SearchPosition

PER_PAGE = 50  # jobs
COUNTED = 1000  # jobs of a page that is grouped by name
MAX_GROUPS = 20  # rows of groups above the jobs
RUNNING_TAB = "Running"
GROUPS_SHOWN_FOR = timedelta(days=1)  # after their end
MAX_PAGES = 20  # tokens of earlier pages in a URL, so that a page links to the one before it
Token = Annotated[str, Field(max_length=1024)]
Pairs = list[tuple[str, str]]
_SORT = f"^-?({'|'.join(SortColumn)})$"
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f-]{0,27})?(:[0-9]+)?")
#: The columns with a head that sorts by them, in their order; those after the status are sorted downwards first.
COLUMNS = {
    SortColumn.NAME: "Job",
    SortColumn.STATE: "Status",
    SortColumn.QUEUE: "Queue",
    SortColumn.OWNER: "Owner",
    SortColumn.TOOK: "Took",
}
pages = PageTable()


class GroupBy(StrEnum):
    """What the numbers of jobs are counted by."""

    NAME = "name"


class Choice(StrEnum):
    """Which jobs an order is for."""

    ALL = "all"


class JobsQuery(JobFilters):
    """The query of the list of jobs."""

    grouped: GroupBy | None = None
    #: A part of a name, or an id: the page redirects to the list with this filter, or to the job.
    search: Word | None = None
    #: A column, descending with a leading hyphen; None: by `by`, the newest first.
    sort: Annotated[str | None, Field(pattern=_SORT)] = None
    #: Whether all jobs that match are chosen.
    chosen: Choice | None = None
    #: Page tokens: of the second page, and so on until the requested one.
    page: Annotated[tuple[Token, ...], Field(max_length=MAX_PAGES)] = ()

    def view(self, **changes: str | None) -> Pairs:
        """The members that do not select jobs, and that a change of the filters keeps; with these changes."""
        by = None if self.by is By.CREATED else self.by.value
        given = {"by": by, "grouped": self.grouped and self.grouped.value, "sort": self.sort} | changes
        return [(name, value) for name, value in given.items() if value is not None]


class Chip(Struct, frozen=True, kw_only=True):
    """A filter that is given, with a link that removes it."""

    name: str
    #: The value; of a group its name.
    value: str
    #: The path of the list without this filter.
    removed: str


class ColumnHead(Struct, frozen=True, kw_only=True):
    """The head of a column of the list, a link that sorts by the column."""

    title: str
    path: str
    #: `ascending`, `descending`, or empty for a column by which the list is not sorted.
    order: str = ""


class JobGroupRow(Struct, frozen=True, kw_only=True):
    """The jobs of one name."""

    name: str
    total: int
    counts: Mapping[Status, int]
    #: The path of the list of these jobs.
    path: str


class JobGroupLine(Struct, frozen=True, kw_only=True):
    """A row of the list that stands for the jobs of a group."""

    group: Group
    progress: JobProgress
    bar: Markup
    #: How many of its jobs match the filters.
    matching: JobCount
    #: The path of the list of these jobs.
    path: str


class JobList(Struct, frozen=True, kw_only=True):
    """One page of the list."""

    jobs: Sequence[Job]
    #: Groups of which several jobs match, each in place of its jobs.
    groups: Sequence[GroupMatch] = ()
    #: The text of a page token; None: it is the last page.
    next: str | None
    #: See JobPage. Of a sorted list: the jobs that were created before this time are not in it.
    searched_back_to: datetime | None


@pages.get("/jobs", Permission.SELF)
async def jobs_page(parts: Parts, visit: Call[JobsQuery]) -> PageAnswer:
    query, caller = visit.input, visit.caller
    if query.search is not None:
        if FRAGMENT not in visit.http.headers:
            return Redirect(location=search_path(query, query.search))
        query = query.model_copy(update={"search": None, "name": (searched_names(query.search),)})
    recent, missing = await _recent_groups(parts, query, caller), ""
    try:
        found = await _listed(parts, query, caller)
    except NotFound as error:  # a filter names a queue, user or account that does not exist, or is hidden
        found, missing = JobList(jobs=(), next=None, searched_back_to=None), str(error)
    shown = {match.group.terms.id for match in recent}
    groups = [*recent, *(match for match in found.groups if match.group.terms.id not in shown)]
    jobs = [job for job in found.jobs if job.status is Status.FAILED or _group_id(job) not in shown]
    tabs = await job_tabs(parts, query, query.view(grouped=None), caller)
    values = {
        "query": query,
        "found": found,
        "missing": missing,
        "tabs": tabs,
        "matching": next((tab.count for tab in tabs if tab.is_current), None),
        "views": () if query.grouped else await parts.views.listed(jobs, caller=caller),
        "job_groups": [_group_row(query, match) for match in groups],
        "groups": list(_groups(query, found.jobs)) if query.grouped else [],
        "group_statuses": [status for status in Status if any(job.status is status for job in found.jobs)],
        "statuses": list(Status),
        "queues": sorted(parts.catalog.queues_of(caller)),
        "newer": newer_path(query),
        "older": None if found.next is None else older_path(query, found.next, parts.tokens, caller),
    }
    return Page(
        template="jobs.html",
        title="Jobs",
        tab=_tab_title(tabs),
        values=values | _paths(query, await _group_names(parts, query, caller)),
    )


def _group_id(job: Job) -> GroupId | None:
    return None if job.spec.group is None else job.spec.group.id


def _tab_title(tabs: Iterable[JobTab]) -> str:
    """The running and waiting jobs of the tabs; empty for a list by end, which has no unfinished jobs."""
    counts = {tab.name.lower(): tab.count for tab in tabs if tab.name in {"Running", "Waiting"}}
    lower_bounds = {word for word, count in counts.items() if not count.is_exact}
    shown = {word: count.jobs for word, count in counts.items()}
    return tab_title("Jobs", shown, lower_bounds=lower_bounds) if shown else ""


async def _group_names(parts: Parts, query: JobsQuery, caller: Caller) -> Mapping[str, str]:
    """The names of the groups of the filters, by their ids; hidden ones are left out."""
    found = await parts.search.groups(list(map(GroupId, query.group)), caller=caller) if query.group else {}
    return {group_id: group.terms.name for group_id, group in found.items()}


def _paths(query: JobsQuery, group_names: Mapping[str, str]) -> dict[str, object]:
    """The variables of the template that are links, or are made of the query alone."""
    by_ended = query.by is By.ENDED
    return {
        "chips": list(chips(query, group_names)),
        "cleared": jobs_path(query.view()),
        "heads": [_head(query, column, title) for column, title in COLUMNS.items()],
        "times": _time_heads(query),
        "by_ended": by_ended,
        "searched": _searched_text(query),
        "keeps_search": not query.name[1:] and all("*" in name for name in query.name),
        "group_path": jobs_path(query.filters(), query.view(grouped=None if query.grouped else "name", sort=None)),
        "newest": jobs_path(query.filters(), query.view()),
        "choose_all": jobs_path(query.filters(), query.view(), [("chosen", "all")]) if query.filters() else None,
        "stop_all": stop_all_path(query),
        "rerun_all": rerun_all_path(query),
    }


async def _listed(parts: Parts, query: JobsQuery, caller: Caller) -> JobList:
    """The requested page. Raises NotFound, and Invalid for a token of another query."""
    selection = query.selection(parts.clock.now())
    order_by = SearchOrder.ENDED if query.by is By.ENDED else SearchOrder.CREATED
    search = PageQuery(selection=selection, order_by=order_by, limit=COUNTED if query.grouped else PER_PAGE)
    if query.sort is not None and query.grouped is None:
        return await _sorted_list(parts, query, search, JobSort.parse(query.sort), caller)
    search = replace(search, before=position(query, parts.tokens, caller))
    if query.grouped or query.chosen or query.group or query.job:
        every = await parts.search.search(search, caller=caller)
        page = CollapsedPage(jobs=every.jobs, next=every.next, searched_back_to=every.searched_back_to)
    else:
        page = await collapsed_page(parts, search, caller)
    then = None if page.next is None else position_text(page.next)
    return JobList(jobs=page.jobs, groups=page.groups, next=then, searched_back_to=page.searched_back_to)


async def _sorted_list(parts: Parts, query: JobsQuery, search: PageQuery, sort: JobSort, caller: Caller) -> JobList:
    """The requested page of the newest MAX_SORTED jobs, as they were when the first page was shown."""
    begin = SortPosition(at=parts.clock.now())
    if query.page:
        begin = SortPosition.parse(parts.tokens.read(_token_query(query, caller), query.page[-1]))
    bound = "ended_before" if search.order_by is SearchOrder.ENDED else "created_before"
    given, end = getattr(search.selection, bound), milliseconds(begin.at) + 1
    selection = replace(search.selection, **{bound: end if given is None else min(given, end)})
    found = await parts.search.search(replace(search, selection=selection, limit=MAX_SORTED), caller=caller)
    jobs, then = sorted_page(found.jobs, sort, begin, PER_PAGE)
    return JobList(jobs=jobs, next=None if then is None else then.text(), searched_back_to=found.searched_back_to)


def search_path(query: JobsQuery, text: str) -> str:
    """The page that a search leads to: of a job for an id, else the list with the text as a part of names."""
    if _ID.fullmatch(text):
        return f"/ui/find?{urlencode({'q': text})}"
    others = [pair for pair in query.filters() if pair[0] != "name"]
    return jobs_path(others, [("name", searched_names(text))], query.view())


def searched_names(text: str) -> str:
    """The pattern of the names that a search finds: those with the text as a part, or of a pattern itself."""
    return text if text.startswith("*") or text.endswith("*") else f"*{text}*"


def _group_row(query: JobsQuery, match: GroupMatch) -> JobGroupLine:
    group = match.group
    jobs = [("group", group.terms.id), *query.filters()]
    return JobGroupLine(
        group=group,
        progress=progress_of_group(group),
        bar=status_bar(group_parts(group), group.terms.name),
        matching=match.count,
        path=jobs_path(jobs, query.view()),
    )


async def _recent_groups(parts: Parts, query: JobsQuery, caller: Caller) -> list[GroupMatch]:
    """The unfinished and lately ended groups of a tab without other filters, with the number of their jobs on it.

    They are on the first page, wherever their jobs are. On Running they are those that run.
    """
    tab = current_tab(query)
    is_plain = not (other_filters(query) or query.grouped or query.chosen or query.sort or query.page)
    if tab is None or not is_plain or query.by is By.ENDED:
        return []
    since = parts.clock.now() - (timedelta() if tab == RUNNING_TAB else GROUPS_SHOWN_FOR)
    newest = await parts.search.newest_groups(GroupQuery(since=since, limit=MAX_GROUPS, visibility=caller.visibility))
    counts = [(group, _TAB_GROUPS[tab](group)) for group in newest]
    return [GroupMatch(group=group, count=JobCount(jobs=count, is_exact=True)) for group, count in counts if count]


#: How many jobs of a group are on a tab.
_TAB_GROUPS: Mapping[str, Callable[[Group], int]] = {
    "All": lambda group: group.submitted,
    RUNNING_TAB: lambda group: group.active,
    "Waiting": lambda group: group.waiting,
    "Failed": lambda group: group.failed,
    "Stopped": lambda group: group.stopped,
}


def _head(query: JobsQuery, column: SortColumn, title: str) -> ColumnHead:
    sort = query.sort and JobSort.parse(query.sort)
    if sort and sort.column is column:
        order, then = ("descending", column.value) if sort.descending else ("ascending", f"-{column}")
    else:
        order, then = "", f"-{column}" if column is SortColumn.TOOK else column.value
    return ColumnHead(title=title, path=jobs_path(query.filters(), query.view(sort=then)), order=order)


def _time_heads(query: JobsQuery) -> list[ColumnHead]:
    """The heads of the time of creation and of that of the end, the shown one first. Only finished jobs have ended."""
    by_ended, is_oldest = query.by is By.ENDED, query.sort == SortColumn.CREATED
    order = "descending" if query.sort is None else "ascending" if is_oldest and not by_ended else ""
    created = query.view(by=None, sort="created" if order == "descending" and not by_ended else None)
    heads = [
        ColumnHead(title="Created", path=jobs_path(query.filters(), created), order="" if by_ended else order),
        ColumnHead(
            title="Ended",
            path=jobs_path(query.filters(), query.view(by=By.ENDED.value, sort=None)),
            order=order if by_ended else "",
        ),
    ]
    return heads[::-1] if by_ended else heads


def _searched_text(query: JobsQuery) -> str:
    """The text of the search field, from which `search_path` makes the filter by name."""
    name = query.name[0] if len(query.name) == 1 else ""
    part = name[1:-1]
    return part if name == f"*{part}*" and not (part.startswith("*") or part.endswith("*")) else name


def _groups(query: JobsQuery, jobs: Iterable[Job]) -> Iterable[JobGroupRow]:
    """The numbers of jobs by name and status, the most frequent name first."""
    counts: dict[str, Counter[Status]] = {}
    for job in jobs:
        counts.setdefault(job.spec.name, Counter())[job.status] += 1
    others = [condition for condition in query.filters() if condition[0] != "name"]
    for name, numbers in sorted(counts.items(), key=lambda count: -count[1].total()):
        path = jobs_path(others, [("name", name)], query.view(grouped=None))
        yield JobGroupRow(name=name, total=numbers.total(), counts=numbers, path=path)


def jobs_path(*parts: Pairs) -> str:
    """The path of a list of jobs with these members of the query."""
    pairs = [pair for part in parts for pair in part]
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


def stop_all_path(query: JobsQuery) -> str | None:
    """The path of the page that stops all jobs of the filters; None if it selects finished jobs, or all jobs."""
    selects_finished = FINISHED & set(query.state) or query.stopped is not None or query.by is By.ENDED
    if not query.narrowed_filters() or selects_finished:
        return None
    return f"/ui/stop?{urlencode(query.filters())}"


def rerun_all_path(query: JobsQuery) -> str | None:
    """The path of the page that submits all finished jobs of the filters again; None if no finished job can match."""
    if not query.narrowed_filters() or (query.state and not FINISHED & set(query.state)):
        return None
    matching = urlencode([*query.filters(), *query.view(grouped=None, sort=None)])
    return f"/ui/rerun?{urlencode({'matching': matching})}"


def chips(query: JobsQuery, group_names: Mapping[str, str]) -> Iterator[Chip]:
    """The filters, without those that the current tab has. `group_names`: of the filtered groups, by their ids."""
    filters = query.filters()
    shown = filters if current_tab(query) in {None, "All"} else other_filters(query)
    for at, (name, value) in enumerate(filters):
        if (name, value) in shown:
            shown_value = group_names.get(value, value) if name == "group" else value
            yield Chip(name=name, value=shown_value, removed=jobs_path(filters[:at] + filters[at + 1 :], query.view()))


def position(query: JobsQuery, tokens: PageTokens, caller: Caller) -> SearchPosition | None:
    """Where the requested page begins; None: the first page. Raises Invalid for a token of another query."""
    if not query.page:
        return None
    return parse_position(tokens.read(_token_query(query, caller), query.page[-1]))


def older_path(query: JobsQuery, position: str, tokens: PageTokens, caller: Caller) -> str:
    """The path of the next page, which begins at `position`."""
    token = tokens.make(_token_query(query, caller), position)
    pages = [*query.page, token][-MAX_PAGES:]
    return jobs_path(query.filters(), query.view(), [("page", page) for page in pages])


def newer_path(query: JobsQuery) -> str | None:
    """The path of the page before the requested one; None for the first page."""
    if not query.page:
        return None
    return jobs_path(query.filters(), query.view(), [("page", text) for text in query.page[:-1]])


def _token_query(query: JobsQuery, caller: Caller) -> TokenQuery:
    """Page tokens are bound to the caller and to everything that selects and sorts jobs."""
    order = query.by.value if query.grouped else f"{query.by.value} {query.sort or ''}"
    return "JobsPage", caller.user, order, *(f"{name}={value}" for name, value in query.filters())
