"""The list of jobs: pages of 50 jobs, with groups in place of their jobs; and numbers of jobs by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.console.group_page import group_parts, progress_of_group
from batchq.api.console.job_collapse import CollapsedPage, GroupMatch, collapsed_page
from batchq.api.console.job_filters import By
from batchq.api.console.job_list_query import (
    JobsQuery,
    chips,
    column_heads,
    jobs_path,
    newer_path,
    older_path,
    position,
    rerun_all_path,
    search_path,
    searched_names,
    searched_text,
    stop_all_path,
    time_heads,
    token_query,
)
from batchq.api.console.job_order import MAX_SORTED, JobSort, SortPosition, sorted_page
from batchq.api.console.job_tabs import JobTab, counting, current_tab, job_tabs, known_counts, other_filters
from batchq.api.console.job_words import tab_title
from batchq.api.console.pages import FRAGMENT, Page, PageAnswer, PageTable, Redirect
from batchq.api.console.svg import status_bar
from batchq.api.http.page_tokens import position_text
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import Status
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId
from batchq.domain.job import Job
from batchq.domain.progress import JobProgress
from batchq.domain.times import milliseconds
from batchq.errors import NotFound
from batchq.ports.groups import GroupQuery
from batchq.ports.job_search import JobCount, JobPage, ListFacts, PageQuery, SearchOrder

PER_PAGE = 50  # jobs
COUNTED = 1000  # jobs of a page that is grouped by name
MAX_GROUPS = 20  # rows of groups above the jobs
RUNNING_TAB = "Running"
GROUPS_SHOWN_FOR = timedelta(days=1)  # after their end
pages = PageTable()


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
    #: See CollapsedPage.
    omits_groups: bool = False
    #: All jobs that match, or those that a search from the newest job found before it reached its bound; else None.
    known: JobPage | None = None


@pages.get("/jobs", Permission.SELF)
async def jobs_page(parts: Parts, visit: Call[JobsQuery]) -> PageAnswer:
    query, caller = visit.input, visit.caller
    if query.search is not None:
        if FRAGMENT not in visit.http.headers:
            return Redirect(location=search_path(query, query.search))
        query = query.model_copy(update={"search": None, "name": (searched_names(query.search),)})
    missing = ""
    try:
        found = await _listed(parts, query, caller)
    except NotFound as error:  # a filter names a queue, user or account that does not exist, or is hidden
        found, missing = JobList(jobs=(), next=None, searched_back_to=None), str(error)
    counts, facts = await _facts(parts, query, found, caller)
    recent = _on_tab(query, facts.groups)
    shown = {match.group.terms.id for match in recent}
    groups = [*recent, *(match for match in found.groups if match.group.terms.id not in shown)]
    jobs = [job for job in found.jobs if job.status is Status.FAILED or _group_id(job) not in shown]
    tabs = job_tabs(query, query.view(grouped=None), counts)
    values = {
        "query": query,
        "found": found,
        "missing": missing,
        "tabs": tabs,
        "matching": next((tab.count for tab in tabs if tab.is_current), None),
        "views": () if query.grouped else await parts.views.listed(jobs, reruns=facts.reruns, caller=caller),
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


async def _facts(
    parts: Parts, query: JobsQuery, found: JobList, caller: Caller
) -> tuple[Mapping[str, JobCount], ListFacts]:
    """The count of each tab; and what else the list shows beside its jobs."""
    queries = counting(query, parts.clock.now())
    known = {name: count for name, count in known_counts(query, found.known).items() if name in queries}
    unknown = {name: search for name, search in queries.items() if name not in known}
    facts = await parts.search.list_facts(
        () if query.grouped else found.jobs,
        counts=list(unknown.values()),
        groups=_recent(parts, query, caller),
        caller=caller,
    )
    return known | dict(zip(unknown, facts.counts, strict=True)), facts


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
        "heads": column_heads(query),
        "times": time_heads(query),
        "by_ended": by_ended,
        "searched": searched_text(query),
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
        page = CollapsedPage(jobs=every.jobs, next=every.next, searched_back_to=every.searched_back_to, first=every)
    else:
        page = await collapsed_page(parts, search, caller)
    then = None if page.next is None else position_text(page.next)
    is_known = search.before is None and (page.first.next is None or len(page.first.jobs) < search.limit)
    return JobList(
        jobs=page.jobs,
        groups=page.groups,
        next=then,
        searched_back_to=page.searched_back_to,
        omits_groups=page.omits_groups,
        known=page.first if is_known else None,
    )


async def _sorted_list(parts: Parts, query: JobsQuery, search: PageQuery, sort: JobSort, caller: Caller) -> JobList:
    """The requested page of the newest MAX_SORTED jobs, as they were when the first page was shown."""
    begin = SortPosition(at=parts.clock.now())
    if query.page:
        begin = SortPosition.parse(parts.tokens.read(token_query(query, caller), query.page[-1]))
    bound = "ended_before" if search.order_by is SearchOrder.ENDED else "created_before"
    given, end = getattr(search.selection, bound), milliseconds(begin.at) + 1
    selection = replace(search.selection, **{bound: end if given is None else min(given, end)})
    found = await parts.search.search(replace(search, selection=selection, limit=MAX_SORTED), caller=caller)
    jobs, then = sorted_page(found.jobs, sort, begin, PER_PAGE)
    return JobList(jobs=jobs, next=None if then is None else then.text(), searched_back_to=found.searched_back_to)


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


def _recent(parts: Parts, query: JobsQuery, caller: Caller) -> GroupQuery | None:
    """The unfinished and lately ended groups of a tab without other filters; None: the list has none of them.

    They are on the first page, wherever their jobs are. On Running they are those that run.
    """
    tab = current_tab(query)
    is_plain = not (other_filters(query) or query.grouped or query.chosen or query.sort or query.page)
    if tab is None or not is_plain or query.by is By.ENDED:
        return None
    since = parts.clock.now() - (timedelta() if tab == RUNNING_TAB else GROUPS_SHOWN_FOR)
    return GroupQuery(since=since, limit=MAX_GROUPS, visibility=caller.visibility)


def _on_tab(query: JobsQuery, groups: Iterable[Group]) -> list[GroupMatch]:
    """The groups with jobs on the current tab."""
    counts = [(group, _TAB_GROUPS[current_tab(query) or "All"](group)) for group in groups]
    return [GroupMatch(group=group, count=JobCount(jobs=count, is_exact=True)) for group, count in counts if count]


#: How many jobs of a group are on a tab.
_TAB_GROUPS: Mapping[str, Callable[[Group], int]] = {
    "All": lambda group: group.submitted,
    RUNNING_TAB: lambda group: group.active,
    "Waiting": lambda group: group.waiting,
    "Failed": lambda group: group.failed,
    "Stopped": lambda group: group.stopped,
}


def _groups(query: JobsQuery, jobs: Iterable[Job]) -> Iterable[JobGroupRow]:
    """The numbers of jobs by name and status, the most frequent name first."""
    counts: dict[str, Counter[Status]] = {}
    for job in jobs:
        counts.setdefault(job.spec.name, Counter())[job.status] += 1
    others = [condition for condition in query.filters() if condition[0] != "name"]
    for name, numbers in sorted(counts.items(), key=lambda count: -count[1].total()):
        path = jobs_path(others, [("name", name)], query.view(grouped=None))
        yield JobGroupRow(name=name, total=numbers.total(), counts=numbers, path=path)
