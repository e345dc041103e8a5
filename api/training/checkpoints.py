"""Operations on the checkpoints of a training job."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.wire import EmptyRequest
from batchq.api.operation_table import Call, OperationTable
from batchq.api.training.context import JOB, TrainingContext, find_job, read_job
from batchq.api.training.errors import impossible, not_found, state_conflict
from batchq.api.training.figures import size_text
from batchq.api.training.job_answers import TrainingCheckpoint, checkpoint_answer
from batchq.api.training.job_status import TrainingStatus, status_of
from batchq.errors import Invalid, NotFound
from batchq.ports.checkpoints import Checkpoint

CHECKPOINTS = f"{JOB}/checkpoints"
CHECKPOINT = CHECKPOINTS + "/{checkpointId}"
MAX_ROWS = 100

_SHOWN = 200  # characters of an unknown id in an error


class ListTrainingCheckpointsQuery(BaseModel):
    """Which checkpoints are listed, and in which order. Those without an epoch or step are the smallest."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

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


class ListCheckpointsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Checkpoints of a job."""

    checkpoints: tuple[TrainingCheckpoint, ...]
    #: The number of all checkpoints, at most 1000.
    total_count: int
    summary: CheckpointsSummary


class CheckpointRequestAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that was sent to the program of a job: whether it writes a checkpoint is up to the program."""

    job_id: str
    #: The signal that was sent to its containers.
    signal: str


_KEYS: Mapping[str, Callable[[Checkpoint], float]] = {
    "createdAt": lambda it: it.created_at.timestamp(),
    "epoch": lambda it: -1 if it.epoch is None else it.epoch,
    "step": lambda it: -1 if it.step is None else it.step,
}


operations = OperationTable[TrainingContext]()


@operations.add("ListTrainingCheckpoints", "GET", CHECKPOINTS)
async def list_checkpoints(context: TrainingContext, call: Call[ListTrainingCheckpointsQuery]) -> ListCheckpointsAnswer:
    """Lists the checkpoints of a training job."""
    query, job = call.input, await find_job(context, call)
    found = await context.checkpoints.list(job.id, caller=call.caller)
    rows = sorted(found, key=_KEYS[query.sort_by], reverse=query.sort_order == "desc")
    complete = [it.id for it in found if it.complete]
    size = sum(it.size_bytes for it in found)
    return ListCheckpointsAnswer(
        checkpoints=tuple(map(checkpoint_answer, rows[: query.limit])),
        total_count=len(found),
        summary=CheckpointsSummary(
            latest_checkpoint=complete[-1] if complete else None, total_size=size_text(size), total_size_bytes=size
        ),
    )


@operations.add("CreateTrainingCheckpoint", "POST", CHECKPOINTS, optional_body=True, status=HTTPStatus.ACCEPTED)
async def create_checkpoint(context: TrainingContext, call: Call[EmptyRequest]) -> CheckpointRequestAnswer:
    """Requests a checkpoint of a running training job.

    Sends the signal that the job declared at its creation. The next checkpoint has the type `manual`.
    """
    job = await find_job(context, call)
    try:
        await context.checkpoints.request(job.id, caller=call.caller)
    except Invalid as why:
        status = status_of(await read_job(context, job.id, call.caller))
        if status is not TrainingStatus.RUNNING:
            raise state_conflict(job.id, status, required=TrainingStatus.RUNNING) from None
        raise impossible(str(why)) from None
    rules = job.spec.checkpoints
    return CheckpointRequestAnswer(job_id=job.id, signal=(None if rules is None else rules.signal) or "")


@operations.add("GetTrainingCheckpoint", "GET", CHECKPOINT)
async def get_checkpoint(context: TrainingContext, call: Call[None]) -> TrainingCheckpoint:
    """Describes a checkpoint of a training job."""
    job, checkpoint_id = await find_job(context, call), call.path["checkpointId"]
    try:
        return checkpoint_answer(await context.checkpoints.get(job.id, checkpoint_id, caller=call.caller))
    except NotFound:
        raise not_found("checkpoint", checkpoint_id[:_SHOWN]) from None


@operations.add("DeleteTrainingCheckpoint", "DELETE", CHECKPOINT)
async def delete_checkpoint(context: TrainingContext, call: Call[None]) -> None:
    """Deletes a checkpoint of a training job."""
    job, checkpoint_id = await find_job(context, call), call.path["checkpointId"]
    try:
        await context.checkpoints.delete(job.id, checkpoint_id, caller=call.caller)
    except NotFound:
        raise not_found("checkpoint", checkpoint_id[:_SHOWN]) from None
