"""GetTrainingJob and ListTrainingJobs."""

from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.api.http import InvalidMember
from batchq.api.operation_table import Call, CallLimit, OperationTable
from batchq.api.page_tokens import TokenQuery
from batchq.api.training.context import JOB, JOBS, TrainingContext, find_job
from batchq.api.training.job_answers import TrainingJobDetail, TrainingJobSummary, job_detail, job_summary
from batchq.api.training.job_status import STATUSES, TrainingStatus, status_of
from batchq.api.training_jobs import MAX_LISTS, MAX_WAITING_LISTS, matching_jobs, parse_position, position_text
from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId, node_id
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.errors import Invalid
from batchq.ports.job_search import JobSearchQuery, SearchPosition
from batchq.services.job_log import JobLogQuery

MAX_LOG_LINES = 1000
MAX_CHECKPOINTS = 10
MAX_ROWS = 100

Flag = Annotated[bool, Field(strict=False)]


class GetTrainingJobQuery(BaseModel):
    """What the answer contains."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    #: Whether `metrics` and `progress` are read, which costs a search of the log while the job runs.
    include_metrics: Flag = False
    include_logs: Flag = False
    #: The number of lines with `includeLogs`.
    log_lines: Annotated[int, Field(ge=1, le=MAX_LOG_LINES)] = 100


class ListTrainingJobsQuery(BaseModel):
    """Which jobs are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: TrainingStatus | None = None
    #: A job name in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    name: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50
    #: `nextCursor` of the answer before.
    cursor: Annotated[str, Field(max_length=256)] | None = None


class ListAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of jobs, newest first; it may have fewer jobs than `limit`, or none, although more follow."""

    jobs: tuple[TrainingJobSummary, ...]
    #: The `cursor` of the next page; null: no further job matches.
    next_cursor: str | None


operations = OperationTable[TrainingContext]()


@operations.add("GetTrainingJob", "GET", JOB)
async def get_training_job(context: TrainingContext, call: Call[GetTrainingJobQuery]) -> TrainingJobDetail:
    """Describes a training job.

    A job of another API of this server is described too, except arrays: each of their children is a job.
    """
    query, caller = call.input, call.caller
    job = await find_job(context, call)
    logs = await _log(context, job, query.log_lines, caller) if query.include_logs else None
    metrics = await context.costs.metrics.current(job, caller=caller) if query.include_metrics else None
    cost = await context.costs.of_job(job.id, caller=caller)
    found = await context.checkpoints.list(job.id, caller=caller) if job.spec.checkpoints is not None else ()
    newest, now = found[: -MAX_CHECKPOINTS - 1 : -1], context.clock.now()
    return job_detail(job, now=now, checkpoints=newest, cost=cost, metrics=metrics, logs=logs)


@operations.add("ListTrainingJobs", "GET", JOBS, limit=CallLimit(at_once=MAX_LISTS, waiting=MAX_WAITING_LISTS))
async def list_training_jobs(context: TrainingContext, call: Call[ListTrainingJobsQuery]) -> ListAnswer:
    """Lists training jobs, newest first.

    Lists all jobs that the caller may see, except arrays and their children.
    """
    query, caller = call.input, call.caller
    token = "ListTrainingJobs", caller.user, query.status, query.name
    wanted = JobSearchQuery(
        statuses=None if query.status is None else STATUSES[query.status],
        held=query.status is TrainingStatus.PAUSED,
        names=None if query.name is None else frozenset({query.name}),
        limit=query.limit,
        before=_position(context, token, query.cursor),
    )
    jobs, position = await matching_jobs(context.search, wanted, lambda it: _matches(it, query.status), caller=caller)
    after = None if position is None else context.tokens.make(token, position_text(position))
    return ListAnswer(jobs=tuple(map(job_summary, jobs)), next_cursor=after)


async def _log(context: TrainingContext, job: Job, lines: int, caller: Caller) -> tuple[str, ...]:
    """The last lines of the newest attempt; of a job with several containers, those of the leading one."""
    spec = job.spec
    job_id = job.id if spec.nodes is None else JobId(node_id(job.id, spec.nodes.main))
    leading = spec.task.leading.name if spec.task else spec.nodes.leading.name if spec.nodes else None
    query = JobLogQuery(job_id=job_id, container=leading, tail=lines, limit=lines, wait=0)
    try:
        page = await context.job_log.page(query, caller=caller)
    except Invalid:  # the log driver of the job stores the output elsewhere
        return ()
    return tuple(it.message for it in page.lines)


def _position(context: TrainingContext, token: TokenQuery, cursor: str | None) -> SearchPosition | None:
    if cursor is None:
        return None
    try:
        return parse_position(context.tokens.read(token, cursor))
    except Invalid:
        raise InvalidMember("'cursor' is not valid.", member="cursor") from None


def _matches(job: Job, status: TrainingStatus | None) -> bool:
    return not is_parent(job) and (status is None or status_of(job) is status)
