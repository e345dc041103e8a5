"""ListCheckpoints, RequestCheckpoint and DeleteCheckpoint: the checkpoints of one job."""

from http import HTTPStatus

from msgspec import Struct

from batchq.accounts.wire import EmptyRequest
from batchq.api.operation_table import JOB, Call, OperationTable
from batchq.domain.ids import JobId
from batchq.domain.times import milliseconds
from batchq.ports.checkpoints import Checkpoint, CheckpointType
from batchq.services.checkpoints import CheckpointService


class CheckpointAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint: a file or directory in the job's checkpoint directory."""

    #: `ckpt_` and 12 hex digits.
    id: str
    #: The name of the file or directory.
    name: str
    type: CheckpointType
    #: A lower bound if it has very many files.
    size_bytes: int
    #: When it was last changed, in milliseconds since 1970.
    created_at: int
    #: From its name; absent if the name has none.
    epoch: int | None = None
    step: int | None = None
    #: Whether it is written completely, as far as can be known.
    complete: bool


class CheckpointsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The checkpoints of a job, oldest first, at most 1000."""

    job_id: str
    checkpoints: tuple[CheckpointAnswer, ...]
    #: The size of all of them.
    total_size_bytes: int
    #: The id of the newest complete one, from which the next attempt can continue; absent without one.
    latest: str | None = None


class RequestCheckpointAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request was delivered. The job writes the checkpoint later."""

    job_id: str


class DeleteCheckpointAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The deleted checkpoint."""

    job_id: str
    checkpoint_id: str


operations = OperationTable[CheckpointService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("ListCheckpoints", "GET", f"{JOB}/checkpoints")
async def list_checkpoints(checkpoints: CheckpointService, call: Call[None]) -> CheckpointsAnswer:
    """Lists the checkpoints of a job, oldest first.

    Checkpoints of a job whose record was removed after the retention period are listed for operators.
    """
    return checkpoints_answer(call.job_id, await checkpoints.list(call.job_id, caller=call.caller))


@operations.add("RequestCheckpoint", "POST", f"{JOB}/checkpoints")
async def request_checkpoint(checkpoints: CheckpointService, call: Call[EmptyRequest]) -> RequestCheckpointAnswer:
    """Sends the checkpoint signal that a running job declared.

    Refused for a job that does not run, is being stopped, or declared no signal.
    """
    await checkpoints.request(call.job_id, caller=call.caller)
    return RequestCheckpointAnswer(job_id=call.job_id)


@operations.add("DeleteCheckpoint", "DELETE", JOB + "/checkpoints/{checkpoint:ckpt_[0-9a-f]{12}}")
async def delete_checkpoint(checkpoints: CheckpointService, call: Call[None]) -> DeleteCheckpointAnswer:
    """Deletes a checkpoint of a job."""
    await checkpoints.delete(call.job_id, call.path["checkpoint"], caller=call.caller)
    return DeleteCheckpointAnswer(job_id=call.job_id, checkpoint_id=call.path["checkpoint"])


def checkpoints_answer(job_id: JobId, found: tuple[Checkpoint, ...]) -> CheckpointsAnswer:
    complete = [it for it in found if it.complete]
    return CheckpointsAnswer(
        job_id=job_id,
        checkpoints=tuple(map(_checkpoint, found)),
        total_size_bytes=sum(it.size_bytes for it in found),
        latest=complete[-1].id if complete else None,
    )


def _checkpoint(it: Checkpoint) -> CheckpointAnswer:
    return CheckpointAnswer(
        id=it.id,
        name=it.name,
        type=it.type,
        size_bytes=it.size_bytes,
        created_at=milliseconds(it.created_at),
        epoch=it.epoch,
        step=it.step,
        complete=it.complete,
    )
