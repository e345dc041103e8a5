"""ListTrainingJobs, ListTrainingJobEvents and ListTrainingJobStages."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.api.operations.job_pages import job_pages
from batchq.api.operations.parts import Parts
from batchq.api.training.modelarts.context import describe_modelarts_job, job_phases
from batchq.api.training.modelarts.job_document import (
    AI_PROJECT,
    DIALECT,
    Phase,
    TrainingJobResponse,
    algorithm_name,
    definition_prefix,
    statuses_in,
    workspace_of,
)
from batchq.api.training.modelarts.wire import (
    INVALID_PARAMETER,
    UNSUPPORTED_KEY,
    UNSUPPORTED_OPERATOR,
    UNSUPPORTED_SORTING,
    UNSUPPORTED_VALUE,
    ModelArtsRefusal,
    SearchFilter,
    TrainingEventsQuery,
    TrainingJobSearch,
)
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import FINISHED, Status, StopProgress
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_values import StopStep
from batchq.domain.times import LATEST, milliseconds, optional_rfc3339, rfc3339
from batchq.domain.training_jobs import TrainingJobView
from batchq.ports.history import HistoryEntry
from batchq.ports.job_search import PageQuery

MAX_SEARCHED = 5000  # jobs
PAGE_SIZE = 100  # jobs that are in memory together
DEFAULT_LIMIT = 10
_NAME_PATTERN_LIMIT = 20  # names that the store compares; if there are more, only the predicate does

Predicate = Callable[[Job], bool]

#: The values that filters compare.
_VALUES: Mapping[str, Callable[[Job], str]] = {
    "name": lambda job: job.spec.name,
    "kind": lambda _: "job",
    "algorithm_name": algorithm_name,
    "user_id": lambda job: job.spec.owner.user,
}


class TrainingJobsResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    ai_project: str
    items: tuple[TrainingJobResponse, ...]


class _Selection(Struct, frozen=True, kw_only=True):
    """What a request selects: the query of the store, and the conditions that the store cannot check."""

    query: PageQuery
    predicates: tuple[Predicate, ...]


async def search_modelarts_jobs(
    parts: Parts, body: TrainingJobSearch, *, project: str, caller: Caller
) -> TrainingJobsResponse:
    """Carry out a search. Raises ModelArtsRefusal for an unsupported filter or order."""
    if body.sort_by not in {None, "", "create_time"}:
        raise ModelArtsRefusal(UNSUPPORTED_SORTING, solution="Use create_time.")
    order = body.order or "desc"
    if order not in {"asc", "desc"}:
        raise ModelArtsRefusal(INVALID_PARAMETER, "order", solution="Use asc or desc.")
    found = await _matching(parts, _selection(parts, body, project=project), caller)
    if order == "asc":
        found.reverse()
    limit, offset = body.limit or DEFAULT_LIMIT, body.offset or 0
    page = found[offset * limit : (offset + 1) * limit]
    described = await parts.jobs.describe(page, caller=caller)
    items = tuple(describe_modelarts_job(parts, job) for job in described)
    return TrainingJobsResponse(
        total=len(found),
        count=len(items),
        limit=limit,
        offset=offset,
        sort_by="create_time",
        order=order,
        group_by=body.group_by or None,
        workspace_id=body.workspace_id or None,
        ai_project=AI_PROJECT,
        items=items,
    )


async def _matching(parts: Parts, wanted: _Selection, caller: Caller) -> list[JobId]:
    """The ids of the matching jobs, newest first."""
    found: list[JobId] = []
    searched = 0
    async for page in job_pages(parts, wanted.query, caller=caller):
        found += [job.id for job in page.jobs if all(matches(job) for matches in wanted.predicates)]
        searched += len(page.jobs) or PAGE_SIZE
        if searched >= MAX_SEARCHED:
            break
    return found


def _selection(parts: Parts, body: TrainingJobSearch, *, project: str) -> _Selection:
    selection = JobSelection(definitions=frozenset({f"{definition_prefix(project)}_*"}))
    predicates: list[Predicate] = [lambda job: not DIALECT.is_deleted(job)]
    if body.workspace_id:
        predicates.append(lambda job: workspace_of(job) == body.workspace_id)
    if body.train_type not in {None, "", "job"}:
        predicates.append(lambda _: False)
    value_of = {**_VALUES, "phase": lambda job: job_phases(parts, TrainingJobView(job)).phase}
    for condition in body.filters or ():
        values = [value for value in condition.value or () if value]
        if not values:  # the vendor: an empty value is no condition
            continue
        if condition.key == "create_time":
            selection = _created_between(selection, condition, values)
        elif condition.key in value_of:
            selection = _narrowed(selection, condition, values)
            predicates.append(_compare(condition, values, value_of[condition.key]))
        else:
            raise ModelArtsRefusal(UNSUPPORTED_KEY, condition.key)
    return _Selection(query=PageQuery(selection=selection, limit=PAGE_SIZE), predicates=tuple(predicates))


def _narrowed(selection: JobSelection, condition: SearchFilter, values: Sequence[str]) -> JobSelection:
    """The selection with the part of a filter that the store can check: of a name all but its case."""
    if condition.key == "phase":
        for value in values:
            if value not in set(Phase):
                raise ModelArtsRefusal(UNSUPPORTED_VALUE, value, solution=f"Use {', '.join(Phase)}.")
    match condition.key, condition.operator:
        case "phase", "in":
            statuses = frozenset(status for value in values for status in statuses_in(Phase(value)))
            return replace(selection, statuses=statuses & selection.possible_statuses)
        case "name", "like" | "in" if len(values) <= _NAME_PATTERN_LIMIT and selection.names is None:
            stars = "*" if condition.operator == "like" else ""
            names = frozenset(f"{stars}{value}{stars}" for value in values)
            return selection if any("*" in value for value in values) else replace(selection, names=names)
        case _:
            return selection


def _created_between(selection: JobSelection, condition: SearchFilter, values: Sequence[str]) -> JobSelection:
    """Both times in milliseconds, inclusive; one value is the first time."""
    if condition.operator != "between":
        raise ModelArtsRefusal(UNSUPPORTED_OPERATOR, condition.operator or "", solution="Use between.")
    for value in values:
        if not (value.isascii() and value.isdigit() and int(value[:16]) <= LATEST and len(value) <= len(str(LATEST))):
            raise ModelArtsRefusal(UNSUPPORTED_VALUE, value, solution="Use milliseconds since 1970.")
    first, *rest = map(int, values)
    if len(rest) > 1:
        raise ModelArtsRefusal(UNSUPPORTED_VALUE, ", ".join(values), solution="Use two times.")
    after = max(first - 1, selection.created_after or -1)
    before = min((rest[0] if rest else LATEST) + 1, selection.created_before or LATEST + 1)
    return replace(selection, created_after=after, created_before=before)


def _compare(condition: SearchFilter, values: Sequence[str], attribute: Callable[[Job], str]) -> Predicate:
    match condition.operator:
        case "in":
            return lambda job: attribute(job) in values
        case "not":
            return lambda job: attribute(job) not in values
        case "like":
            return lambda job: any(value in attribute(job) for value in values)
        case operator:
            raise ModelArtsRefusal(UNSUPPORTED_OPERATOR, operator or "", solution="Use like, in or not.")


SOURCE = "batchq"
MAX_RECORDS = 50  # the newest attempts, whose stages are listed

_TEXTS = {
    Status.SUBMITTED: "The training job is created.",
    Status.PENDING: "The training job waits for other jobs.",
    Status.RUNNABLE: "The training job is queued.",
    Status.STARTING: "The containers of the training job are being created.",
    Status.RUNNING: "The training job is running.",
    Status.SUCCEEDED: "The training job is completed.",
    Status.FAILED: "The training job has ended and is not completed.",
}
#: The stages of an attempt, in their order.
_STAGES = {
    "scheduling": "The job is being scheduled.",
    "preparing": "The containers are created.",
    "running": "The job is running.",
    "end": "The attempt has ended.",
}
_STOP_TEXTS = {
    StopProgress.ORDERED: "The training job is to be stopped",
    StopProgress.CHECKPOINT_REQUESTED: "A final checkpoint is requested",
    StopProgress.CHECKPOINT_SEEN: "The final checkpoint is written",
    StopProgress.SIGNALLED: "The stop signal is sent",
    StopProgress.FORCED: "The stop is forced",
    StopProgress.KILLED: "The containers are killed",
}


class TrainingEvent(Struct, frozen=True, kw_only=True):
    """An event of a job."""

    message: str
    #: `Info`, `Warning` or `Error`.
    level: str
    #: RFC 3339, UTC.
    time: str
    source: str = SOURCE


class TrainingEventsResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of events."""

    #: All events that match.
    total: int
    limit: int
    #: The number of the page, from 0.
    offset: int
    #: `desc` or `asc`.
    order: str
    start_time: str | None = None
    end_time: str | None = None
    events: tuple[TrainingEvent, ...]


class TrainingStage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stage of an attempt."""

    job_id: str
    #: `scheduling`, `preparing`, `running` or `end`.
    name: str
    en_message: str
    #: RFC 3339, UTC, as is `end_time`.
    start_time: str
    #: Absent while the stage lasts.
    end_time: str | None = None
    #: From 1.
    stage_order: int


class TrainingStageRecord(Struct, frozen=True, kw_only=True):
    """The stages of one attempt."""

    #: From 1, oldest first.
    record_order: int
    stages: tuple[TrainingStage, ...]


class TrainingStagesResponse(Struct, frozen=True, kw_only=True):
    """The stages of all attempts, the oldest first."""

    total_count: int
    running_records: tuple[TrainingStageRecord, ...]


def events_answer(
    history: Sequence[HistoryEntry], query: TrainingEventsQuery, *, shown: Callable[[str], str]
) -> TrainingEventsResponse:
    """The events that a query selects. `history`: oldest first. `shown`: as in `job_answer`."""
    found = [_event(entry, shown) for entry in history if _is_within(entry.at, query)]
    found = [
        event
        for event in found
        if query.level in {None, event.level} and (query.pattern is None or query.pattern in event.message)
    ]
    if query.order == "desc":
        found.reverse()
    return TrainingEventsResponse(
        total=len(found),
        limit=query.limit,
        offset=query.offset,
        order=query.order,
        start_time=None if query.start_time is None else str(query.start_time),
        end_time=None if query.end_time is None else str(query.end_time),
        events=tuple(found[query.offset * query.limit : (query.offset + 1) * query.limit]),
    )


def stages_answer(job: Job) -> TrainingStagesResponse:
    """The stages of a job. A job without an attempt has the stage that it waits in."""
    known = job.all_attempts
    records = [
        TrainingStageRecord(
            record_order=attempt.number,
            stages=_stages(job, attempt, since=known[index - 1].stopped_at if index else job.created_at),
        )
        for index, attempt in enumerate(known)
        if index >= len(known) - MAX_RECORDS
    ]
    if not known or (job.attempt is None and job.status not in FINISHED):
        since = (known[-1].stopped_at if known else None) or job.created_at
        waiting = _stage(job, "scheduling", since, job.stopped_at)
        records.append(TrainingStageRecord(record_order=len(known) + 1, stages=(waiting,)))
    return TrainingStagesResponse(total_count=len(records), running_records=tuple(records))


def _is_within(at: datetime, query: TrainingEventsQuery) -> bool:
    moment = milliseconds(at)
    return (query.start_time or 0) <= moment and (query.end_time is None or moment <= query.end_time)


def _event(entry: HistoryEntry, shown: Callable[[str], str]) -> TrainingEvent:
    if entry.stop is not None:
        return TrainingEvent(message=_stop_text(entry.stop), level="Warning", time=rfc3339(entry.at))
    message = _TEXTS[entry.status] + (f" {shown(entry.reason)}" if entry.reason else "")
    return TrainingEvent(
        message=message, level="Error" if entry.status is Status.FAILED else "Info", time=rfc3339(entry.at)
    )


def _stop_text(step: StopStep) -> str:
    by = f" by {step.user}" if step.user else ""
    task = "" if step.node is None else f" (worker-{step.node})"
    checkpoint = "" if step.checkpoint is None else f" ({step.checkpoint})"
    return f"{_STOP_TEXTS[step.progress]}{checkpoint}{task}: {step.kind.value.lower()}{by}: {step.reason}"


def _stages(job: Job, attempt: Attempt, *, since: datetime | None) -> tuple[TrainingStage, ...]:
    """The stages of an attempt that began to wait at `since`."""
    placed = attempt.placed_at or attempt.started_at
    if placed is None:
        return ()
    stages = [_stage(job, "scheduling", min(since or placed, placed), placed)]
    stages.append(_stage(job, "preparing", placed, attempt.started_at or attempt.stopped_at))
    if attempt.started_at is not None:
        stages.append(_stage(job, "running", attempt.started_at, attempt.stopped_at))
    if attempt.stopped_at is not None:
        stages.append(_stage(job, "end", attempt.stopped_at, attempt.stopped_at))
    return tuple(stages)


def _stage(job: Job, name: str, start: datetime, end: datetime | None) -> TrainingStage:
    return TrainingStage(
        job_id=job.id,
        name=name,
        en_message=_STAGES[name],
        start_time=rfc3339(start),
        end_time=optional_rfc3339(end),
        stage_order=1 + [*_STAGES].index(name),
    )
