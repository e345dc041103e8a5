"""ListTrainingJobs: the jobs of a project that match filters, a page at a time.

The vendor's pages are numbered and the answer has the number of all matches, so every page searches again. At most
MAX_SEARCHED jobs are searched, the newest ones.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from batchq.api.modelarts.context import ModelArtsContext
from batchq.api.modelarts.create_job import definition_prefix
from batchq.api.modelarts.errors import (
    INVALID_PARAMETER,
    UNSUPPORTED_KEY,
    UNSUPPORTED_OPERATOR,
    UNSUPPORTED_SORTING,
    UNSUPPORTED_VALUE,
    modelarts_refusal,
)
from batchq.api.modelarts.job_document import (
    STATUSES,
    Phase,
    TrainingJobAnswer,
    algorithm_name,
    is_deleted,
    workspace_of,
)
from batchq.api.modelarts.wire import SearchFilter, TrainingJobSearch
from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.ports.job_search import JobSearchQuery

MAX_SEARCHED = 5000  # jobs
PAGE_SIZE = 100  # jobs that are in memory together
DEFAULT_LIMIT = 10
LATEST = 253_402_300_799_999  # milliseconds: the last of the year 9999
_NAME_PATTERN_LIMIT = 20  # names that the store compares; if there are more, only the predicate does

Predicate = Callable[[Job], bool]


class TrainingJobsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of jobs."""

    #: All jobs that match, as far as they were searched.
    total: int
    #: The jobs of this page.
    count: int
    limit: int
    #: The number of the page, from 0.
    offset: int
    sort_by: str
    #: `desc` or `asc`.
    order: str
    group_by: str | None = None
    workspace_id: str | None = None
    ai_project: str = "default-ai-project"
    items: tuple[TrainingJobAnswer, ...]


class _Selection(Struct, frozen=True, kw_only=True):
    """What a request selects: the query of the store, and the conditions that the store cannot check."""

    query: JobSearchQuery
    predicates: tuple[Predicate, ...]


async def search_modelarts_jobs(
    context: ModelArtsContext, body: TrainingJobSearch, *, project: str, caller: Caller
) -> TrainingJobsAnswer:
    """Carry out a search. Raises ModelArtsRefusal for an unsupported filter or order."""
    if body.sort_by not in {None, "", "create_time"}:
        raise modelarts_refusal(UNSUPPORTED_SORTING, solution="Use create_time.")
    order = body.order or "desc"
    if order not in {"asc", "desc"}:
        raise modelarts_refusal(INVALID_PARAMETER, "order", solution="Use asc or desc.")
    found = await _matching(context, _selection(context, body, project=project, caller=caller), caller)
    if order == "asc":
        found.reverse()
    limit, offset = body.limit or DEFAULT_LIMIT, body.offset or 0
    page = found[offset * limit : (offset + 1) * limit]
    described = await context.jobs.describe(page, caller=caller)
    items = tuple(context.describe(job, caller) for job, _ in described)
    return TrainingJobsAnswer(
        total=len(found),
        count=len(items),
        limit=limit,
        offset=offset,
        sort_by="create_time",
        order=order,
        group_by=body.group_by or None,
        workspace_id=body.workspace_id or None,
        items=items,
    )


async def _matching(context: ModelArtsContext, wanted: _Selection, caller: Caller) -> list[JobId]:
    """The ids of the matching jobs, newest first."""
    found: list[JobId] = []
    query, searched = wanted.query, 0
    while searched < MAX_SEARCHED:
        page = await context.search.search(query, caller=caller)
        found += [it.id for it in page.jobs if all(matches(it) for matches in wanted.predicates)]
        if page.next is None:
            break
        searched += len(page.jobs) or PAGE_SIZE
        query = replace(query, before=page.next)
    return found


def _selection(context: ModelArtsContext, body: TrainingJobSearch, *, project: str, caller: Caller) -> _Selection:
    selection = _Selection(
        query=JobSearchQuery(definitions=frozenset({f"{definition_prefix(project)}_*"}), limit=PAGE_SIZE),
        predicates=(lambda job: not is_deleted(job),),
    )
    if body.workspace_id:
        selection = _and(selection, lambda job: workspace_of(job) == body.workspace_id)
    if body.train_type not in {None, "", "job"}:
        selection = _and(selection, lambda _: False)
    for it in body.filters or ():
        values = [value for value in it.value or () if value]
        if values:
            selection = _with_filter(selection, it, values, lambda job: context.phases(job, caller).phase)
    return selection


def _with_filter(
    selection: _Selection, it: SearchFilter, values: Sequence[str], phase_of: Callable[[Job], str]
) -> _Selection:
    """The selection with one filter. The vendor: an empty value is no condition."""
    match it.key:
        case "create_time":
            return _created_between(selection, it, values)
        case "phase":
            return _in_phase(selection, it, values, phase_of)
        case "name":
            return _named(selection, it, values)
        case "kind":
            return _and(selection, _compare(it, values, lambda _: "job"))
        case "algorithm_name":
            return _and(selection, _compare(it, values, algorithm_name))
        case "user_id":
            return _and(selection, _compare(it, values, lambda job: job.spec.owner.user))
        case unknown:
            raise modelarts_refusal(UNSUPPORTED_KEY, unknown)


def _named(selection: _Selection, it: SearchFilter, values: Sequence[str]) -> _Selection:
    """The store compares names without their case; the predicate compares the case."""
    narrowed = selection.query
    if it.operator in {"like", "in"} and len(values) <= _NAME_PATTERN_LIMIT and narrowed.names is None:
        stars = "*" if it.operator == "like" else ""
        if not any("*" in value for value in values):
            narrowed = replace(narrowed, names=frozenset(f"{stars}{value}{stars}" for value in values))
    return _and(replace(selection, query=narrowed), _compare(it, values, lambda job: job.spec.name))


def _in_phase(
    selection: _Selection, it: SearchFilter, values: Sequence[str], phase_of: Callable[[Job], str]
) -> _Selection:
    for value in values:
        if value not in set(Phase):
            raise modelarts_refusal(UNSUPPORTED_VALUE, value, solution=f"Use {', '.join(Phase)}.")
    matching = _and(selection, _compare(it, values, phase_of))
    if it.operator != "in":
        return matching
    statuses = frozenset(status for value in values for status in STATUSES[Phase(value)])
    before = selection.query.statuses
    both = statuses if before is None else statuses & before
    return replace(matching, query=replace(matching.query, statuses=both))


def _created_between(selection: _Selection, it: SearchFilter, values: Sequence[str]) -> _Selection:
    """Both times in milliseconds, inclusive; one value is the first time."""
    if it.operator != "between":
        raise modelarts_refusal(UNSUPPORTED_OPERATOR, it.operator or "", solution="Use between.")
    for value in values:
        if not (value.isascii() and value.isdigit() and int(value[:16]) <= LATEST and len(value) <= len(str(LATEST))):
            raise modelarts_refusal(UNSUPPORTED_VALUE, value, solution="Use milliseconds since 1970.")
    first, last = int(values[0]), int(values[1]) if len(values) > 1 else LATEST
    query, both = selection.query, 2
    if len(values) > both:
        raise modelarts_refusal(UNSUPPORTED_VALUE, ", ".join(values), solution="Use two times.")
    after = max(first - 1, query.created_after or -1)
    before = min(last + 1, query.created_before or LATEST + 1)
    return replace(selection, query=replace(query, created_after=after, created_before=before))


def _compare(it: SearchFilter, values: Sequence[str], of: Callable[[Job], str]) -> Predicate:
    match it.operator:
        case "in":
            return lambda job: of(job) in values
        case "not":
            return lambda job: of(job) not in values
        case "like":
            return lambda job: any(value in of(job) for value in values)
        case operator:
            raise modelarts_refusal(UNSUPPORTED_OPERATOR, operator or "", solution="Use like, in or not.")


def _and(selection: _Selection, predicate: Predicate) -> _Selection:
    return replace(selection, predicates=(*selection.predicates, predicate))
