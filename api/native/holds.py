"""HoldJob, ReleaseJob, PauseJob and ResumeJob: requests that keep one job from starting, or let it start again.

All are repeatable: a request that changes nothing succeeds.
"""

from http import HTTPStatus
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.wire import EmptyRequest
from batchq.api.operation_table import JOB, Call, OperationTable
from batchq.api.stop_orders import HoldAnswer, StopOrderAnswer, hold_answer, stop_order_answer
from batchq.domain.access.accounts import Caller
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import JobId
from batchq.domain.job import Job, Status
from batchq.errors import NotFound
from batchq.services.jobs import JobService

Reason = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]


class HoldJobRequest(BaseModel):
    """Why the job is held or paused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    reason: Reason | None = None


class HeldJobAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The job after the request."""

    job_id: str
    job_name: str
    status: Status
    status_reason: str | None = None
    #: Why it is held; absent if it is not.
    hold: HoldAnswer | None = None
    #: The latest order to cancel or stop the job. Its kind is PAUSE while a running job is being paused.
    stop_order: StopOrderAnswer | None = None


operations = OperationTable[JobService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("HoldJob", "POST", f"{JOB}/hold")
async def hold_job(jobs: JobService, call: Call[HoldJobRequest]) -> HeldJobAnswer:
    """Keeps a queued job from starting until it is released.

    The job keeps its position in line, and holds up no other job. A job that is STARTING or RUNNING is refused: pause
    it. Of an array all children are held, those that run after their attempt. A job that is held already is not
    changed.
    """
    await jobs.hold(call.job_id, call.input.reason or f"Held by {call.caller.user}", caller=call.caller)
    return await _held_job(jobs, call.job_id, call.caller)


@operations.add("ReleaseJob", "POST", f"{JOB}/release")
async def release_job(jobs: JobService, call: Call[EmptyRequest]) -> HeldJobAnswer:
    """Lets a held or paused job start again.

    It returns to its old position in line. A job that is not held is not changed.
    """
    await jobs.release(call.job_id, caller=call.caller)
    return await _held_job(jobs, call.job_id, call.caller)


@operations.add("PauseJob", "POST", f"{JOB}/pause")
async def pause_job(jobs: JobService, call: Call[HoldJobRequest]) -> HeldJobAnswer:
    """Stops a running job with a final checkpoint, and holds it until it is resumed.

    A job that is STARTING or RUNNING is stopped as by TerminateJob with a final checkpoint; then it is RUNNABLE and
    held, its resources are free, and the attempt does not count as one of its attempts. Its checkpoints are kept. This
    holds for every exit code. A queued job is held, and a held one is not changed.
    """
    await jobs.pause(call.job_id, call.input.reason or f"Paused by {call.caller.user}", caller=call.caller)
    return await _held_job(jobs, call.job_id, call.caller)


@operations.add("ResumeJob", "POST", f"{JOB}/resume")
async def resume_job(jobs: JobService, call: Call[EmptyRequest]) -> HeldJobAnswer:
    """Lets a paused or held job start again, from its newest checkpoint.

    It returns to its old position in line. A job that is not held is not changed.
    """
    await jobs.resume_job(call.job_id, caller=call.caller)
    return await _held_job(jobs, call.job_id, call.caller)


async def _held_job(jobs: JobService, job_id: JobId, caller: Caller) -> HeldJobAnswer:
    found = await jobs.describe([job_id], caller=caller)
    if not found:
        raise NotFound(f"Job {job_id} not found.")
    return held_job_answer(found[0][0])


def held_job_answer(job: Job) -> HeldJobAnswer:
    return HeldJobAnswer(
        job_id=job.id,
        job_name=job.spec.name,
        status=job.status,
        status_reason=status_reason(job),
        hold=hold_answer(job.hold),
        stop_order=stop_order_answer(job.stop_orders[-1]) if job.stop_orders else None,
    )
