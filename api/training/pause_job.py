"""PauseTrainingJob and ResumeTrainingJob."""

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from batchq.api.authorization import authorize
from batchq.api.http import parse, read_body, reply
from batchq.api.openapi import OperationDoc
from batchq.api.training.context import Reason, TrainingContext, find_job, read_job
from batchq.api.training.job_status import FINAL, TrainingStatus, status_of
from batchq.api.training.refusals import impossible, state_conflict
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.job import Job
from batchq.errors import Invalid

PAUSE = "PauseTrainingJob"
RESUME = "ResumeTrainingJob"
PAUSABLE = "queued, initializing, running, pausing or paused"
RESUMABLE = "pausing or paused"

_NOT_PAUSABLE = FINAL | {TrainingStatus.CANCELLING}


class PauseTrainingJobRequest(BaseModel):
    """Why a job is paused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Absent: `Paused by USER`.
    reason: Reason | None = None


class ResumeTrainingJobRequest(BaseModel):
    """A request without members."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PauseAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The job after the request."""

    job_id: str
    status: TrainingStatus


PAUSE_DOC = OperationDoc(
    name=PAUSE,
    summary="Pauses a training job until it is resumed.",
    description=(
        "A running job with a checkpoint directory is first requested to write a checkpoint. Then its containers are "
        "stopped, and its resources are released. The stopped attempt does not count as a retry. A job whose container "
        "exits with 0 is completed. A repeated request changes nothing."
    ),
    body=PauseTrainingJobRequest,
    optional_body=True,
    answer=PauseAnswer,
)
RESUME_DOC = OperationDoc(
    name=RESUME,
    summary="Resumes a paused training job.",
    description=(
        "The job waits at its old position in its queue, and its next attempt finds the checkpoints of the others. "
        "A job that is not paused is unchanged."
    ),
    body=ResumeTrainingJobRequest,
    optional_body=True,
    answer=PauseAnswer,
)


async def pause(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, PAUSE)
    body = parse(PauseTrainingJobRequest, await read_body(request) or b"{}")
    job = await find_job(context, request, caller)
    _refuse(job, _NOT_PAUSABLE, PAUSABLE)
    try:
        await context.jobs.pause(job.id, body.reason or f"Paused by {caller.user}", caller=caller)
    except Invalid as why:
        raise await _refusal(context, job, caller, why, PAUSABLE) from None
    return await _answer(context, job, caller)


async def resume(context: TrainingContext, request: web.Request) -> web.Response:
    caller = authorize(request, Permission.SELF, RESUME)
    parse(ResumeTrainingJobRequest, await read_body(request) or b"{}")
    job = await find_job(context, request, caller)
    _refuse(job, FINAL, RESUMABLE)
    try:
        await context.jobs.resume_job(job.id, caller=caller)
    except Invalid as why:
        raise await _refusal(context, job, caller, why, RESUMABLE) from None
    return await _answer(context, job, caller)


def _refuse(job: Job, statuses: frozenset[TrainingStatus], required: str) -> None:
    status = status_of(job)
    if status in statuses:
        raise state_conflict(job.id, status, required=required)


async def _refusal(context: TrainingContext, job: Job, caller: Caller, why: Invalid, required: str) -> Invalid:
    """The error for a request that the service refused: the job may have ended since it was read."""
    job = await read_job(context, job.id, caller)
    status = status_of(job)
    return state_conflict(job.id, status, required=required) if status in FINAL else impossible(str(why))


async def _answer(context: TrainingContext, job: Job, caller: Caller) -> web.Response:
    job = await read_job(context, job.id, caller)
    return reply(PauseAnswer(job_id=job.id, status=status_of(job)))
