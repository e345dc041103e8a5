"""The training dialect: its routes, and the operations that describe jobs and their checkpoints."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import Field

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.http import InvalidMember, RequestQuery, Word
from batchq.api.http.page_tokens import SearchToken
from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.training.common.training_jobs import matching_jobs
from batchq.api.training.rest import create_job, stop_jobs
from batchq.api.training.rest.context import (
    JOB,
    JOBS,
    find_job,
    id_of_checkpoints,
    impossible,
    profile,
    read_job,
    state_conflict,
    training_resource_not_found,
)
from batchq.api.training.rest.figures import size_text
from batchq.api.training.rest.job_answers import (
    STATUSES,
    TrainingCheckpoint,
    TrainingJobDetail,
    TrainingJobSummary,
    TrainingStatus,
    checkpoint_answer,
    status_of,
    training_job_detail,
    training_job_summary,
)
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.ids import node_id
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.task import DefinitionForm
from batchq.domain.training_jobs import TrainingJobView, statuses_with
from batchq.errors import Invalid, NotFound
from batchq.ports.checkpoints import Checkpoint
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.services.job_log import JobLogQuery
from batchq.services.training import summary_of

MAX_LOG_LINES = 1000
MAX_CHECKPOINTS = 10
MAX_ROWS = 100


class GetTrainingJobQuery(RequestQuery):
    """What the answer contains."""

    #: Whether `metrics` and `progress` are read, which costs a search of the log while the job runs.
    include_metrics: bool = False
    include_logs: bool = False
    #: The number of lines with `includeLogs`.
    log_lines: Annotated[int, Field(ge=1, le=MAX_LOG_LINES)] = 100


class ListTrainingJobsQuery(RequestQuery):
    """Which jobs are listed."""

    status: TrainingStatus | None = None
    #: A job name in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    name: Word | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50
    #: `nextCursor` of the answer before.
    cursor: Annotated[str, Field(max_length=256)] | None = None


class ListResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of jobs, newest first; it may have fewer jobs than `limit`, or none, although more follow."""

    jobs: tuple[TrainingJobSummary, ...]
    #: The `cursor` of the next page; null: no further job matches.
    next_cursor: str | None


operations = OperationTable()


@operations.add("GetTrainingJob", "GET", JOB, Permission.SELF)
async def get_training_job(parts: Parts, call: Call[GetTrainingJobQuery]) -> TrainingJobDetail:
    """Describes a training job.

    A job of another API of this server is described too, except arrays: each of their children is a job.
    """
    query, caller = call.input, call.caller
    job = await find_job(parts, call)
    logs = await _log(parts, job, query.log_lines, caller) if query.include_logs else None
    metrics = await parts.costs.metrics.current(job, caller=caller) if query.include_metrics else None
    cost = await parts.costs.of_job(job.id, caller=caller)
    found = await parts.checkpoints.list(job.id, caller=caller) if job.spec.checkpoints is not None else ()
    newest, view, now = found[: -MAX_CHECKPOINTS - 1 : -1], TrainingJobView(job), parts.clock.now()
    return training_job_detail(view, now=now, checkpoints=newest, cost=cost, metrics=metrics, logs=logs)


@operations.add("ListTrainingJobs", "GET", JOBS, Permission.SELF, limit=BULK_LIMIT)
async def list_training_jobs(parts: Parts, call: Call[ListTrainingJobsQuery]) -> ListResponse:
    """Lists training jobs, newest first.

    Lists all jobs that the caller may see, except arrays and their children.
    """
    query, caller = call.input, call.caller
    token = SearchToken(parts.tokens, ("ListTrainingJobs", caller.user, query.status, query.name))
    selection = JobSelection(
        statuses=None if query.status is None else statuses_with(STATUSES, query.status),
        held=query.status is TrainingStatus.PAUSED,
        names=None if query.name is None else frozenset({query.name}),
    )
    page = PageQuery(selection=selection, limit=query.limit, before=_position(token, query.cursor))
    views, position = await matching_jobs(parts.search, page, lambda view: _matches(view, query.status), caller=caller)
    return ListResponse(jobs=tuple(map(training_job_summary, views)), next_cursor=token.make(position))


async def _log(parts: Parts, job: Job, lines: int, caller: Caller) -> tuple[str, ...]:
    """The last lines of the newest attempt; of a job with several containers, those of the leading one."""
    nodes = job.spec.nodes
    job_id = node_id(job.id, nodes.main) if nodes.form is DefinitionForm.NODES else job.id
    query = JobLogQuery(job_id=job_id, container=nodes.leading.name, tail=lines, limit=lines, wait=0)
    try:
        page = await parts.job_log.page(query, caller=caller)
    except Invalid:  # the log driver of the job stores the output elsewhere
        return ()
    return tuple(line.message for line in page.lines)


def _position(token: SearchToken, cursor: str | None) -> SearchPosition | None:
    try:
        return token.read(cursor)
    except Invalid:
        raise InvalidMember("'cursor' is not valid.", member="cursor") from None


def _matches(view: TrainingJobView, status: TrainingStatus | None) -> bool:
    return not is_parent(view.job) and (status is None or status_of(view) is status)


CHECKPOINTS = f"{JOB}/checkpoints"
CHECKPOINT = CHECKPOINTS + "/{checkpointId}"


class ListTrainingCheckpointsQuery(RequestQuery):
    """Which checkpoints are listed, and in which order. Those without an epoch or step are the smallest."""

    sort_by: Literal["createdAt", "epoch", "step"] = "createdAt"
    sort_order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50


class CheckpointsSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all checkpoints of a job are together."""

    #: The id of the newest complete checkpoint; null: there is none.
    latest_checkpoint: str | None
    #: As `1.4 MB`, in powers of 1024.
    total_size: str
    total_size_bytes: int


class ListCheckpointsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Checkpoints of a job."""

    checkpoints: tuple[TrainingCheckpoint, ...]
    #: The number of all checkpoints, at most 1000.
    total_count: int
    summary: CheckpointsSummary


class CheckpointRequestResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that was sent to the program of a job: whether it writes a checkpoint is up to the program."""

    job_id: str
    #: The signal that was sent to its containers.
    signal: str


_KEYS: Mapping[str, Callable[[Checkpoint], float]] = {
    "createdAt": lambda checkpoint: checkpoint.created_at.timestamp(),
    "epoch": lambda checkpoint: -1 if checkpoint.epoch is None else checkpoint.epoch,
    "step": lambda checkpoint: -1 if checkpoint.step is None else checkpoint.step,
}


@operations.add("ListTrainingCheckpoints", "GET", CHECKPOINTS, Permission.SELF)
async def list_training_checkpoints(parts: Parts, call: Call[ListTrainingCheckpointsQuery]) -> ListCheckpointsResponse:
    """Lists the checkpoints of a training job.

    Checkpoints of a job whose record was removed after the retention period are listed for operators.
    """
    query, job_id = call.input, await id_of_checkpoints(parts, call)
    found = await parts.checkpoints.list(job_id, caller=call.caller)
    rows = sorted(found, key=_KEYS[query.sort_by], reverse=query.sort_order == "desc")
    summary = summary_of(found)
    return ListCheckpointsResponse(
        checkpoints=tuple(map(checkpoint_answer, rows[: query.limit])),
        total_count=summary.count,
        summary=CheckpointsSummary(
            latest_checkpoint=None if summary.latest is None else summary.latest.id,
            total_size=size_text(summary.size_bytes),
            total_size_bytes=summary.size_bytes,
        ),
    )


@operations.add(
    "CreateTrainingCheckpoint", "POST", CHECKPOINTS, Permission.SELF, optional_body=True, status=HTTPStatus.ACCEPTED
)
async def create_checkpoint(parts: Parts, call: Call[EmptyRequest]) -> CheckpointRequestResponse:
    """Requests a checkpoint of a running training job.

    Sends the signal that the job declared at its creation. The next checkpoint has the type `manual`.
    """
    job = await find_job(parts, call)
    try:
        await parts.checkpoints.request(job.id, caller=call.caller)
    except Invalid as why:
        view = TrainingJobView(await read_job(parts, job.id, call.caller))
        if status_of(view) is not TrainingStatus.RUNNING:
            raise state_conflict(view, required=TrainingStatus.RUNNING) from None
        raise impossible(str(why)) from None
    rules = job.spec.checkpoints
    return CheckpointRequestResponse(job_id=job.id, signal=(None if rules is None else rules.signal) or "")


@operations.add("GetTrainingCheckpoint", "GET", CHECKPOINT, Permission.SELF)
async def get_checkpoint(parts: Parts, call: Call[None]) -> TrainingCheckpoint:
    """Describes a checkpoint of a training job."""
    job_id, checkpoint_id = await id_of_checkpoints(parts, call), call.path["checkpointId"]
    try:
        return checkpoint_answer(await parts.checkpoints.get(job_id, checkpoint_id, caller=call.caller))
    except NotFound:
        raise training_resource_not_found("checkpoint", checkpoint_id) from None


@operations.add("DeleteTrainingCheckpoint", "DELETE", CHECKPOINT, Permission.SELF)
async def delete_training_checkpoint(parts: Parts, call: Call[None]) -> None:
    """Deletes a checkpoint of a training job."""
    job_id, checkpoint_id = await id_of_checkpoints(parts, call), call.path["checkpointId"]
    try:
        await parts.checkpoints.delete(job_id, checkpoint_id, caller=call.caller)
    except NotFound:
        raise training_resource_not_found("checkpoint", checkpoint_id) from None


dialect = dialect_of(
    create_job.operations,
    operations,
    stop_jobs.operations,
    profile=lambda parts: profile(lambda: parts.clock.now()),  # noqa: PLW0108 - the parts are read by handlers only
)
