"""The list of jobs: filters, pages of 50 jobs, and numbers of jobs by name."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_filter import (
    By,
    GroupBy,
    JobsQuery,
    chips,
    jobs_path,
    newer_path,
    older_path,
    position,
    search_query,
    stop_all_path,
)
from batchq.api.console.pages import Page, PageTable, Visit
from batchq.domain.job import Job, Status
from batchq.errors import NotFound
from batchq.ports.job_search import JobPage

PER_PAGE = 50  # jobs
COUNTED = 1000  # jobs of a page that is grouped by name
pages = PageTable()


class JobGroupRow(Struct, frozen=True, kw_only=True):
    """The jobs of one name."""

    name: str
    total: int
    counts: Mapping[Status, int]
    #: The path of the list of these jobs.
    path: str


@pages.get("/jobs")
async def jobs_page(context: ConsoleContext, visit: Visit[JobsQuery]) -> Page:
    query, caller = visit.input, visit.caller
    limit = COUNTED if query.group else PER_PAGE
    before = position(query, context.tokens, caller)
    search = search_query(query, now=context.clock.now(), limit=limit, before=before)
    missing = ""
    try:
        found = await context.search.search(search, caller=caller)
    except NotFound as error:  # a filter names a queue, user or account that does not exist, or is hidden
        found, missing = JobPage(jobs=(), next=None, searched_back_to=None), str(error)
    why = {} if query.group else await context.explanations.explain(found.jobs, caller=caller)
    values = {
        "query": query,
        "found": found,
        "missing": missing,
        "why": why,
        "groups": list(_groups(query, found.jobs)) if query.group else [],
        "group_statuses": [it for it in Status if any(job.status is it for job in found.jobs)],
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
    for it in jobs:
        counts.setdefault(it.spec.name, Counter())[it.status] += 1
    others = [it for it in query.filters() if it[0] != "name"]
    for name, numbers in sorted(counts.items(), key=lambda it: -it[1].total()):
        path = jobs_path(others, [("name", name)], _view(query.by, None))
        yield JobGroupRow(name=name, total=numbers.total(), counts=numbers, path=path)
