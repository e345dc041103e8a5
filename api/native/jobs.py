"""Operations on single jobs: GetJobHistory, and ForceFail, the last resort for a job whose container does not end."""

from http import HTTPStatus
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.http import milliseconds
from batchq.api.operation_table import JOB, Call, OperationTable
from batchq.api.stop_orders import HoldChangeAnswer, StopStepAnswer, hold_change_answer, stop_step_answer
from batchq.domain.access.accounts import Permission
from batchq.domain.job import Status
from batchq.ports.history import HistoryEntry
from batchq.services.jobs import JobService


class HistoryEntryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A status that a job entered, or a step of an order to stop it."""

    #: Milliseconds since 1970.
    at: int
    #: The status that the job entered or, with `stopOrder` or `hold`, had at that time.
    status: Status
    #: Why the job has the status; absent if no reason is recorded.
    reason: str | None = None
    #: The number of the attempt that the status belongs to; absent before the first attempt.
    attempt: int | None = None
    #: The step of a stop order; absent if the job entered `status`.
    stop_order: StopStepAnswer | None = None
    #: The job was held or released; absent if the job entered `status`.
    hold: HoldChangeAnswer | None = None


class JobHistoryAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The history of a job, oldest entry first; without entries for a child that its array has not created yet."""

    job_id: str
    history: tuple[HistoryEntryAnswer, ...]


class ForceFailAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The job after the request."""

    job_id: str
    status: Status
    status_reason: str | None = None


class ForceFailRequest(BaseModel):
    """Why the job is given up."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]


operations = OperationTable[JobService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("GetJobHistory", "GET", f"{JOB}/history")
async def get_job_history(jobs: JobService, call: Call[None]) -> JobHistoryAnswer:
    """Lists the statuses of a job, the orders to stop it and its holds, oldest first."""
    entries = await jobs.history(call.job_id, caller=call.caller)
    return JobHistoryAnswer(job_id=call.job_id, history=tuple(map(_history_entry, entries)))


@operations.add("ForceFail", "POST", f"{JOB}/forcefail", permission=Permission.MAINTENANCE)
async def force_fail(jobs: JobService, call: Call[ForceFailRequest]) -> ForceFailAnswer:
    """Ends a job as FAILED whose container does not end.

    The last resort: its resources are free at once, and its containers are removed when the engine can.
    """
    job = await jobs.force_fail(call.job_id, call.input.reason, caller=call.caller)
    return ForceFailAnswer(job_id=job.id, status=job.status, status_reason=job.status_reason)


def _history_entry(it: HistoryEntry) -> HistoryEntryAnswer:
    step = None if it.stop is None else stop_step_answer(it.stop)
    return HistoryEntryAnswer(
        at=milliseconds(it.at),
        status=it.status,
        reason=it.reason,
        attempt=it.attempt,
        stop_order=step,
        hold=hold_change_answer(it.hold),
    )
