"""Operations on single jobs: GetJobHistory, and ForceFail, the last resort for a job whose container does not end."""

from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.authorization import authorize
from batchq.api.holds import HoldChangeAnswer, hold_change_answer
from batchq.api.http import Dialect, HttpRefusal, milliseconds, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.api.stop_orders import StopStepAnswer, stop_step_answer
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId
from batchq.domain.job import Status
from batchq.errors import NotFound
from batchq.ports.history import HistoryEntry
from batchq.services.jobs import JobService

GET_JOB_HISTORY = "GetJobHistory"
FORCE_FAIL = "ForceFail"

_JOB = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}"


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


_HISTORY = OperationDoc(
    name=GET_JOB_HISTORY,
    summary="Lists the statuses of a job, the orders to stop it and its holds, oldest first.",
    answer=JobHistoryAnswer,
)
_FORCE_FAIL = OperationDoc(
    name=FORCE_FAIL,
    summary="Ends a job as FAILED whose container does not end.",
    description="The last resort: its resources are free at once, and its containers are removed when the engine can.",
    body=ForceFailRequest,
    answer=ForceFailAnswer,
    permission=Permission.MAINTENANCE,
)


def dialect(jobs: JobService) -> Dialect:
    async def history(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, GET_JOB_HISTORY)
        job_id = JobId(request.match_info["job"])
        try:
            entries = await jobs.history(job_id, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(JobHistoryAnswer(job_id=job_id, history=tuple(map(_history_entry, entries))))

    async def force_fail(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.MAINTENANCE, FORCE_FAIL)
        body = parse(ForceFailRequest, await read_body(request))
        try:
            job = await jobs.force_fail(JobId(request.match_info["job"]), body.reason, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(ForceFailAnswer(job_id=job.id, status=job.status, status_reason=job.status_reason))

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(f"{_JOB}/history", history), _HISTORY)
        document(app, app.router.add_post(f"{_JOB}/forcefail", force_fail), _FORCE_FAIL)

    return mount


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
