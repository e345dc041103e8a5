"""Operations on the checkpoints of a training job."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Literal

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.api.authorization import authorize
from batchq.api.http import parse, query_of, read_body, reply, validate
from batchq.api.openapi import OperationDoc
from batchq.api.training.checkpoint_answers import CheckpointAnswer, checkpoint_answer
from batchq.api.training.context import JOB, TrainingContext, find_job, read_job
from batchq.api.training.formats import size_text
from batchq.api.training.job_status import TrainingStatus, status_of
from batchq.api.training.refusals import impossible, not_found, state_conflict
from batchq.domain.access.accounts import Permission
from batchq.errors import Invalid, NotFound
from batchq.ports.checkpoints import Checkpoint

CHECKPOINTS = f"{JOB}/checkpoints"
CHECKPOINT = CHECKPOINTS + "/{checkpointId}"
LIST = "ListTrainingCheckpoints"
GET = "GetTrainingCheckpoint"
CREATE = "CreateTrainingCheckpoint"
DELETE = "DeleteTrainingCheckpoint"
MAX_ROWS = 100

_SHOWN = 200  # characters of an unknown id in an error


class ListTrainingCheckpointsQuery(BaseModel):
    """Which checkpoints are listed, and in which order. Those without an epoch or step are the smallest."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    sort_by: Literal["createdAt", "epoch", "step"] = "createdAt"
    sort_order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50


class CreateTrainingCheckpointRequest(BaseModel):
    """A request without members."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class CheckpointsSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all checkpoints of a job are together."""

    #: The id of the newest complete checkpoint; null: there is none.
    latest_checkpoint: str | None
    #: As `1.4 MB`, in powers of 1024.
    total_size: str
    total_size_bytes: int


class ListCheckpointsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Checkpoints of a job."""

    checkpoints: tuple[CheckpointAnswer, ...]
    #: The number of all checkpoints, at most 1000.
    total_count: int
    summary: CheckpointsSummary


class CheckpointRequested(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that was sent to the program of a job: whether it writes a checkpoint is up to the program."""

    job_id: str
    #: The signal that was sent to its containers.
    signal: str


LIST_DOC = OperationDoc(
    name=LIST,
    summary="Lists the checkpoints of a training job.",
    query=ListTrainingCheckpointsQuery,
    answer=ListCheckpointsAnswer,
)
GET_DOC = OperationDoc(name=GET, summary="Describes a checkpoint of a training job.", answer=CheckpointAnswer)
CREATE_DOC = OperationDoc(
    name=CREATE,
    summary="Requests a checkpoint of a running training job.",
    description="Sends the signal that the job declared at its creation. The next checkpoint has the type `manual`.",
    body=CreateTrainingCheckpointRequest,
    optional_body=True,
    answer=CheckpointRequested,
    status=HTTPStatus.ACCEPTED,
)
DELETE_DOC = OperationDoc(
    name=DELETE, summary="Deletes a checkpoint of a training job.", answer=None, status=HTTPStatus.NO_CONTENT
)

_KEYS: Mapping[str, Callable[[Checkpoint], float]] = {
    "createdAt": lambda it: it.created_at.timestamp(),
    "epoch": lambda it: -1 if it.epoch is None else it.epoch,
    "step": lambda it: -1 if it.step is None else it.step,
}


async def list_(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, LIST)
    query = validate(ListTrainingCheckpointsQuery, query_of(request))
    job = await find_job(context, request, caller)
    found = await context.checkpoints.list(job.id, caller=caller)
    rows = sorted(found, key=_KEYS[query.sort_by], reverse=query.sort_order == "desc")
    complete = [it.id for it in found if it.complete]
    size = sum(it.size_bytes for it in found)
    answer = ListCheckpointsAnswer(
        checkpoints=tuple(map(checkpoint_answer, rows[: query.limit])),
        total_count=len(found),
        summary=CheckpointsSummary(
            latest_checkpoint=complete[-1] if complete else None, total_size=size_text(size), total_size_bytes=size
        ),
    )
    return reply(answer)


async def get(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, GET)
    job, checkpoint_id = await find_job(context, request, caller), request.match_info["checkpointId"]
    try:
        return reply(checkpoint_answer(await context.checkpoints.get(job.id, checkpoint_id, caller=caller)))
    except NotFound:
        raise not_found("checkpoint", checkpoint_id[:_SHOWN]) from None


async def create(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, CREATE)
    parse(CreateTrainingCheckpointRequest, await read_body(request) or b"{}")
    job = await find_job(context, request, caller)
    rules = job.spec.checkpoints
    try:
        await context.checkpoints.request(job.id, caller=caller)
    except Invalid as why:
        status = status_of(await read_job(context, job.id, caller))
        if status is not TrainingStatus.RUNNING:
            raise state_conflict(job.id, status, required=TrainingStatus.RUNNING) from None
        raise impossible(str(why)) from None
    signal = None if rules is None else rules.signal
    return reply(CheckpointRequested(job_id=job.id, signal=signal or ""), status=HTTPStatus.ACCEPTED)


async def delete(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, DELETE)
    job, checkpoint_id = await find_job(context, request, caller), request.match_info["checkpointId"]
    try:
        await context.checkpoints.delete(job.id, checkpoint_id, caller=caller)
    except NotFound:
        raise not_found("checkpoint", checkpoint_id[:_SHOWN]) from None
    return web.Response(status=HTTPStatus.NO_CONTENT)
