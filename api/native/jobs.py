"""Operations on one job: hold, pause, history, checkpoints and ForceFail; and DrainQueue and LeaveSafeMode."""

from typing import Any

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.answers import answer_of
from batchq.api.http.http import Reason, RequestBody, Word
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import (
    history_entry_answer,
    hold_answer,
    stop_order_answer,
)
from batchq.domain.access.accounts import Permission
from batchq.domain.enums import StopKind
from batchq.domain.ids import QueueName
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.stop_request import StopRequest
from batchq.errors import NotFound
from batchq.ports.responses.checkpoints import (
    CheckpointResponse,
    CheckpointsResponse,
    DeleteCheckpointResponse,
    RequestCheckpointResponse,
)
from batchq.ports.responses.jobs import ForceFailResponse, HeldJobResponse, JobHistoryResponse
from batchq.ports.responses.server import DrainQueueResponse, EmptyResponse


class HoldJobRequest(RequestBody):
    """Why the job is held or paused."""

    reason: Reason | None = None


class ForceFailRequest(RequestBody):
    """Why the job is given up."""

    reason: Reason


class LeaveSafeModeRequest(RequestBody):
    """How to leave safe mode."""

    #: Whether containers that no job owns are removed; otherwise they are left alone for good.
    purge: bool = False
    #: Required if another engine answers than the one of the jobs: accept it, and give up the jobs that ran on the
    #: other one.
    new_engine: bool = False


operations = OperationTable(failed=missing_is_404)


@operations.add("HoldJob", "POST", f"{JOB}/hold", Permission.SELF)
async def hold_job(parts: Parts, call: Call[HoldJobRequest]) -> HeldJobResponse:
    """Keeps a queued job from starting until it is released.

    The job keeps its position in line, and holds up no other job. A job that is STARTING or RUNNING is refused: pause
    it. Of an array all children are held, those that run after their attempt. A job that is held already is not
    changed.
    """
    await parts.jobs.hold(call.job_id, call.input.reason or f"Held by {call.caller.user}", caller=call.caller)
    return await _held_job(parts, call)


@operations.add("ReleaseJob", "POST", f"{JOB}/release", Permission.SELF)
async def release_job(parts: Parts, call: Call[EmptyRequest]) -> HeldJobResponse:
    """Lets a held or paused job start again.

    It returns to its old position in line. A job that is not held is not changed.
    """
    was_held = await parts.jobs.release(call.job_id, caller=call.caller)
    return await _held_job(parts, call, was_held=was_held)


@operations.add("PauseJob", "POST", f"{JOB}/pause", Permission.SELF)
async def pause_job(parts: Parts, call: Call[HoldJobRequest]) -> HeldJobResponse:
    """Stops a running job with a final checkpoint, and holds it until it is resumed.

    A job that is STARTING or RUNNING is stopped as by TerminateJob with a final checkpoint; then it is RUNNABLE and
    held, its resources are free, and the attempt does not count as one of its attempts. Its checkpoints are kept. This
    holds for every exit code. A queued job is held, and a held one is not changed.
    """
    request = StopRequest(kind=StopKind.PAUSE, reason=call.input.reason or f"Paused by {call.caller.user}")
    await parts.jobs.stop(call.job_id, request, caller=call.caller)
    return await _held_job(parts, call)


@operations.add("ResumeJob", "POST", f"{JOB}/resume", Permission.SELF)
async def resume_job(parts: Parts, call: Call[EmptyRequest]) -> HeldJobResponse:
    """Lets a paused or held job start again, from its newest checkpoint.

    It returns to its old position in line. A job that is not held is not changed.
    """
    was_held = await parts.jobs.resume_job(call.job_id, caller=call.caller)
    return await _held_job(parts, call, was_held=was_held)


@operations.add("GetJobHistory", "GET", f"{JOB}/history", Permission.SELF)
async def get_job_history(parts: Parts, call: Call[None]) -> JobHistoryResponse:
    """Lists the statuses of a job, the orders to stop it and its holds, oldest first."""
    entries = await parts.jobs.history(call.job_id, caller=call.caller)
    return JobHistoryResponse(job_id=call.job_id, history=tuple(map(history_entry_answer, entries)))


@operations.add("ForceFail", "POST", f"{JOB}/forcefail", Permission.MAINTENANCE)
async def force_fail(parts: Parts, call: Call[ForceFailRequest]) -> ForceFailResponse:
    """Ends a job as FAILED whose container does not end.

    The last resort: its resources are free at once, and its containers are removed when the container engine can.
    """
    job = await parts.jobs.force_fail(call.job_id, call.input.reason, caller=call.caller)
    return ForceFailResponse(job_id=job.id, status=job.status, status_reason=job.status_reason)


@operations.add("LeaveSafeMode", "POST", "/v1/batchq/leavesafemode", Permission.MAINTENANCE)
async def leave_safe_mode(parts: Parts, call: Call[LeaveSafeModeRequest]) -> EmptyResponse:
    """Ends the safe mode after a restore, or accepts a new container engine."""
    await parts.jobs.leave_safe_mode(purge=call.input.purge, new_engine=call.input.new_engine, caller=call.caller)
    return EmptyResponse()


async def _held_job(parts: Parts, call: Call[Any], *, was_held: bool | None = None) -> HeldJobResponse:
    found = await parts.jobs.describe([call.job_id], caller=call.caller)
    if not found:
        raise NotFound(f"Job {call.job_id} not found.")
    (job,) = found
    return HeldJobResponse(
        job_id=job.id,
        job_name=job.spec.name,
        status=job.status,
        status_reason=shown_status_reason(job),
        hold=hold_answer(job.hold),
        stop_order=stop_order_answer(job.stop_orders[-1]) if job.stop_orders else None,
        was_held=was_held,
    )


class DrainQueueRequest(RequestBody):
    """A job queue, and whether it is drained."""

    #: Its name.
    queue: Word
    #: True: it accepts jobs and starts none; false: it starts them again.
    drained: bool


queue_operations = OperationTable()


@queue_operations.add("DrainQueue", "POST", "/v1/batchq/drainqueue", Permission.CATALOG)
async def drain_queue(parts: Parts, call: Call[DrainQueueRequest]) -> DrainQueueResponse:
    """Lets a job queue accept jobs without starting them, or start them again.

    Jobs that are STARTING or RUNNING continue. To AWS's clients the queue is ENABLED.
    """
    name, drained = QueueName(call.input.queue), call.input.drained
    queue = await parts.catalog.drain_queue(name, drained=drained, caller=call.caller)
    return DrainQueueResponse(queue=queue.name, drained=queue.drained)


@operations.add("ListCheckpoints", "GET", f"{JOB}/checkpoints", Permission.SELF)
async def list_checkpoints(parts: Parts, call: Call[None]) -> CheckpointsResponse:
    """Lists the checkpoints of a job, oldest first.

    Checkpoints of a job whose record was removed after the retention period are listed for operators.
    """
    found = await parts.checkpoints.list(call.job_id, caller=call.caller)
    complete = [checkpoint.id for checkpoint in found if checkpoint.complete]
    return CheckpointsResponse(
        job_id=call.job_id,
        checkpoints=tuple(answer_of(CheckpointResponse, checkpoint) for checkpoint in found),
        total_size_bytes=sum(checkpoint.size_bytes for checkpoint in found),
        latest=complete[-1] if complete else None,
    )


@operations.add("RequestCheckpoint", "POST", f"{JOB}/checkpoints", Permission.SELF)
async def request_checkpoint(parts: Parts, call: Call[EmptyRequest]) -> RequestCheckpointResponse:
    """Sends the checkpoint signal that a running job declared.

    Refused for a job that does not run, is being stopped, or declared no signal.
    """
    await parts.checkpoints.request(call.job_id, caller=call.caller)
    return RequestCheckpointResponse(job_id=call.job_id)


@operations.add("DeleteCheckpoint", "DELETE", JOB + "/checkpoints/{checkpoint:ckpt_[0-9a-f]{12}}", Permission.SELF)
async def delete_checkpoint(parts: Parts, call: Call[None]) -> DeleteCheckpointResponse:
    """Deletes a checkpoint of a job."""
    await parts.checkpoints.delete(call.job_id, call.path["checkpoint"], caller=call.caller)
    return DeleteCheckpointResponse(job_id=call.job_id, checkpoint_id=call.path["checkpoint"])
