"""The list of jobs: its filters, which are the query of the URL; pages of 50 jobs; and numbers of jobs by name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Struct
from pydantic import Field

from batchq.api.console.pages import Page, PageTable
from batchq.api.http.http import InvalidMember, RequestQuery, Word
from batchq.api.http.page_tokens import PageTokens, TokenQuery, parse_position, position_text
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.job import Job
from batchq.domain.times import duration_of, milliseconds
from batchq.errors import NotFound
from batchq.ports.job_search import JobPage, JobSearchQuery, SearchOrder, SearchPosition

PER_PAGE = 50  # jobs
COUNTED = 1000  # jobs of a page that is grouped by name
MAX_PAGES = 20  # tokens of earlier pages in a URL, so that a page links to the one before it
STOP_FILTERS = {"state", "queue", "name", "user", "account"}  # that an order to stop jobs has too
MAX_PATTERNS = 20  # names or definitions: each is compared with every row of the search
Token = Annotated[str, Field(max_length=1024)]
Words = Annotated[tuple[Word, ...], Field(max_length=100)]
Patterns = Annotated[tuple[Word, ...], Field(max_length=MAX_PATTERNS)]
pages = PageTable()


class By(StrEnum):
    """The time by which jobs are sorted, and to which `from` and `to` apply."""

    CREATED = "created"
    ENDED = "ended"


class GroupBy(StrEnum):
    """What the numbers of jobs are counted by."""

    NAME = "name"


class JobsQuery(RequestQuery):
    """The query of the list of jobs. The values of one filter are alternatives; a job must match all filters."""

    state: Annotated[tuple[Status, ...], Field(max_length=len(Status))] = ()
    queue: Words = ()
    #: In any case: `name`, `prefix*`, `*suffix` or `*part*`.
    name: Patterns = ()
    user: Words = ()
    #: With the accounts below them.
    account: Words = ()
    #: `name`, `prefix*` or `name:revision`.
    definition: Patterns = ()
    #: Exit codes of the latest attempt.
    exit_code: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**32)], ...], Field(alias="exit", max_length=20)] = ()
    #: A duration before now, as `24h`, or an ISO 8601 time, UTC without an offset.
    since: Annotated[Word | None, Field(alias="from")] = None
    #: As `from`.
    until: Annotated[Word | None, Field(alias="to")] = None
    by: By = By.CREATED
    group: GroupBy | None = None
    #: Page tokens: of the second page, and so on until the requested one.
    page: Annotated[tuple[Token, ...], Field(max_length=MAX_PAGES)] = ()

    def filters(self) -> list[tuple[str, str]]:
        """The filters that are given, as in the query."""
        every = self.model_dump(by_alias=True, exclude={"by", "group", "page"})
        return [(name, str(item)) for name, value in every.items() for item in _values(value)]

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
async def jobs_page(context: Parts, visit: Call[JobsQuery]) -> Page:
    query, caller = visit.input, visit.caller
    limit = COUNTED if query.group else PER_PAGE
    before = position(query, context.tokens, caller)
    search = search_query(query, now=context.clock.now(), limit=limit, before=before)
    missing = ""
    try:
        found = await context.search.search(search, caller=caller)
    except NotFound as error:  # a filter names a queue, user or account that does not exist, or is hidden
        found, missing = JobPage(jobs=(), next=None, searched_back_to=None), str(error)
    values = {
        "query": query,
        "found": found,
        "missing": missing,
        "views": () if query.group else await context.views.listed(found.jobs, caller=caller),
        "groups": list(_groups(query, found.jobs)) if query.group else [],
        "group_statuses": [status for status in Status if any(job.status is status for job in found.jobs)],
        "chips": list(chips(query)),
        "statuses": list(Status),
        "queues": sorted(context.catalog.queues_of(caller)),
        "by_ended": query.by is By.ENDED,
        "by_path": _with_order(query),
        "group_path": jobs_path(query.filters(), _view(query.by, None if query.group else GroupBy.NAME)),
        "older": older_path(query, found.next, context.tokens, caller),
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


def _values(value: object) -> tuple[object, ...]:
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)


def jobs_path(*parts: list[tuple[str, str]]) -> str:
    """The path of a list of jobs with these members of the query."""
    pairs = [pair for part in parts for pair in part]
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


def stop_all_path(query: JobsQuery) -> str | None:
    """The path of the page that stops all jobs of the filters; None for filters that an order to stop does not have."""
    filters = query.filters()
    has_same_meaning = all(
        name in STOP_FILTERS and not (name == "name" and "*" in condition[:-1]) for name, condition in filters
    )
    if not filters or not has_same_meaning or FINISHED & set(query.state):
        return None
    return f"/ui/stop?{urlencode(filters)}"


def chips(query: JobsQuery) -> Iterator[Chip]:
    filters = query.filters()
    for at, (name, value) in enumerate(filters):
        yield Chip(name=name, value=value, removed=jobs_path(filters[:at] + filters[at + 1 :], query.view()))


def search_query(query: JobsQuery, *, now: datetime, limit: int, before: SearchPosition | None) -> JobSearchQuery:
    """The search for one page. Raises InvalidMember."""
    since, until = milliseconds_at("from", query.since, now), milliseconds_at("to", query.until, now)
    ended = query.by is By.ENDED
    return JobSearchQuery(
        statuses=frozenset(query.state) or None,
        queues=frozenset(query.queue) or None,
        names=frozenset(query.name) or None,
        users=frozenset(query.user) or None,
        accounts=frozenset(query.account) or None,
        definitions=frozenset(query.definition) or None,
        exit_codes=frozenset(query.exit_code) or None,
        created_after=None if ended else since,
        created_before=None if ended else until,
        ended_after=since if ended else None,
        ended_before=until if ended else None,
        order_by=SearchOrder.ENDED if ended else SearchOrder.CREATED,
        limit=limit,
        before=before,
    )


def milliseconds_at(member: str, text: str | None, now: datetime) -> int | None:
    """The time that is given as `24h` before now or in ISO 8601, in milliseconds since the epoch; None for None."""
    if text is None:
        return None
    try:
        length = duration_of(text)
        at = datetime.fromisoformat(text) if length is None else now - length
        return max(milliseconds(at if at.tzinfo else at.replace(tzinfo=UTC)), 0)
    except (ValueError, OverflowError):
        message = f"'{member}' is neither a duration, as 24h, nor a time, as 2026-11-23T14:02."
        raise InvalidMember(message, member=member) from None


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
