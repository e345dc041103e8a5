"""The list of jobs: its filters, which are the query of the URL; pages of 50 jobs; and numbers of jobs by name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Struct
from pydantic import Field

from batchq.api.console.job_filters import By, JobFilters
from batchq.api.console.pages import Page, PageTable
from batchq.api.http.page_tokens import PageTokens, TokenQuery, parse_position, position_text
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.job import Job
from batchq.errors import NotFound
from batchq.ports.job_search import JobPage, PageQuery, SearchOrder, SearchPosition

PER_PAGE = 50  # jobs
COUNTED = 1000  # jobs of a page that is grouped by name
MAX_PAGES = 20  # tokens of earlier pages in a URL, so that a page links to the one before it
Token = Annotated[str, Field(max_length=1024)]
pages = PageTable()


class GroupBy(StrEnum):
    """What the numbers of jobs are counted by."""

    NAME = "name"


class JobsQuery(JobFilters):
    """The query of the list of jobs."""

    group: GroupBy | None = None
    #: Page tokens: of the second page, and so on until the requested one.
    page: Annotated[tuple[Token, ...], Field(max_length=MAX_PAGES)] = ()

    def view(self) -> list[tuple[str, str]]:
        """The members that do not select jobs, and that a change of the filters keeps."""
        order = [] if self.by is By.CREATED else [("by", self.by.value)]
        return [*order, *([] if self.group is None else [("group", self.group.value)])]


class Chip(Struct, frozen=True, kw_only=True):
    """A filter that is given, with a link that removes it."""

    name: str
    value: str
    #: The path of the list without this filter.
    removed: str


class JobGroupRow(Struct, frozen=True, kw_only=True):
    """The jobs of one name."""

    name: str
    total: int
    counts: Mapping[Status, int]
    #: The path of the list of these jobs.
    path: str


@pages.get("/jobs", Permission.SELF)
async def jobs_page(parts: Parts, visit: Call[JobsQuery]) -> Page:
    query, caller = visit.input, visit.caller
    limit = COUNTED if query.group else PER_PAGE
    before = position(query, parts.tokens, caller)
    search = PageQuery(
        selection=query.selection(parts.clock.now()),
        order_by=SearchOrder.ENDED if query.by is By.ENDED else SearchOrder.CREATED,
        limit=limit,
        before=before,
    )
    missing = ""
    try:
        found = await parts.search.search(search, caller=caller)
    except NotFound as error:  # a filter names a queue, user or account that does not exist, or is hidden
        found, missing = JobPage(jobs=(), next=None, searched_back_to=None), str(error)
    values = {
        "query": query,
        "found": found,
        "missing": missing,
        "views": () if query.group else await parts.views.listed(found.jobs, caller=caller),
        "groups": list(_groups(query, found.jobs)) if query.group else [],
        "group_statuses": [status for status in Status if any(job.status is status for job in found.jobs)],
        "chips": list(chips(query)),
        "statuses": list(Status),
        "queues": sorted(parts.catalog.queues_of(caller)),
        "by_ended": query.by is By.ENDED,
        "by_path": _with_order(query),
        "group_path": jobs_path(query.filters(), _view(query.by, None if query.group else GroupBy.NAME)),
        "older": older_path(query, found.next, parts.tokens, caller),
        "newer": newer_path(query),
        "newest": jobs_path(query.filters(), query.view()),
        "stop_all": stop_all_path(query),
    }
    return Page(template="jobs.html", title="Jobs", values=values)


def _with_order(query: JobsQuery) -> str:
    """The path of the same jobs in the other order."""
    return jobs_path(query.filters(), _view(By.CREATED if query.by is By.ENDED else By.ENDED, query.group))


def _view(by: By, group: GroupBy | None) -> list[tuple[str, str]]:
    return JobsQuery(by=by, group=group).view()


def _groups(query: JobsQuery, jobs: Iterable[Job]) -> Iterable[JobGroupRow]:
    """The numbers of jobs by name and status, the most frequent name first."""
    counts: dict[str, Counter[Status]] = {}
    for job in jobs:
        counts.setdefault(job.spec.name, Counter())[job.status] += 1
    others = [condition for condition in query.filters() if condition[0] != "name"]
    for name, numbers in sorted(counts.items(), key=lambda count: -count[1].total()):
        path = jobs_path(others, [("name", name)], _view(query.by, None))
        yield JobGroupRow(name=name, total=numbers.total(), counts=numbers, path=path)


def jobs_path(*parts: list[tuple[str, str]]) -> str:
    """The path of a list of jobs with these members of the query."""
    pairs = [pair for part in parts for pair in part]
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


def stop_all_path(query: JobsQuery) -> str | None:
    """The path of the page that stops all jobs of the filters; None if it selects finished jobs, or all jobs."""
    if not query.narrowed_filters() or FINISHED & set(query.state) or query.by is By.ENDED:
        return None
    return f"/ui/stop?{urlencode(query.filters())}"


def chips(query: JobsQuery) -> Iterator[Chip]:
    filters = query.filters()
    for at, (name, value) in enumerate(filters):
        yield Chip(name=name, value=value, removed=jobs_path(filters[:at] + filters[at + 1 :], query.view()))


def position(query: JobsQuery, tokens: PageTokens, caller: Caller) -> SearchPosition | None:
    """Where the requested page begins; None: the first page. Raises Invalid for a token of another query."""
    if not query.page:
        return None
    return parse_position(tokens.read(_token_query(query, caller), query.page[-1]))


def older_path(query: JobsQuery, position: SearchPosition | None, tokens: PageTokens, caller: Caller) -> str | None:
    """The path of the next page, which begins at `position`; None without one."""
    if position is None:
        return None
    token = tokens.make(_token_query(query, caller), position_text(position))
    pages = [*query.page, token][-MAX_PAGES:]
    return jobs_path(query.filters(), query.view(), [("page", page) for page in pages])


def newer_path(query: JobsQuery) -> str | None:
    """The path of the page before the requested one; None for the first page."""
    if not query.page:
        return None
    return jobs_path(query.filters(), query.view(), [("page", text) for text in query.page[:-1]])


def _token_query(query: JobsQuery, caller: Caller) -> TokenQuery:
    """Page tokens are bound to the caller and to everything that selects and sorts jobs."""
    return "JobsPage", caller.user, query.by.value, *(f"{name}={value}" for name, value in query.filters())
