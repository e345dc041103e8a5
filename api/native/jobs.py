"""Operations on single jobs: GetJobHistory, and ForceFail, the last resort for a job whose container does not end."""

from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, HttpRefusal, milliseconds, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId
from batchq.errors import NotFound
from batchq.ports.jobs import HistoryEntry
from batchq.services.jobs import JobService

GET_JOB_HISTORY = "GetJobHistory"
FORCE_FAIL = "ForceFail"

_JOB = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}"


class ForceFailRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]


def dialect(jobs: JobService) -> Dialect:
    async def history(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, GET_JOB_HISTORY)
        job_id = JobId(request.match_info["job"])
        entries = await jobs.history(job_id, caller=caller)
        if not entries:
            raise HttpRefusal(f"Job {job_id} not found.", status=HTTPStatus.NOT_FOUND)
        return reply({"jobId": job_id, "history": [_history_entry(it) for it in entries]})

    async def force_fail(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.MAINTENANCE, FORCE_FAIL)
        body = parse(ForceFailRequest, await read_body(request))
        try:
            job = await jobs.force_fail(JobId(request.match_info["job"]), body.reason, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply({"jobId": job.id, "status": job.status.value, "statusReason": job.status_reason})

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(f"{_JOB}/history", history), OperationDoc(name=GET_JOB_HISTORY))
        route = app.router.add_post(f"{_JOB}/forcefail", force_fail)
        document(app, route, OperationDoc(name=FORCE_FAIL, body=ForceFailRequest))

    return mount


def _history_entry(entry: HistoryEntry) -> dict[str, object]:
    members = {
        "at": milliseconds(entry.at),
        "status": entry.status.value,
        "reason": entry.reason,
        "attempt": entry.attempt,
    }
    return {member: value for member, value in members.items() if value is not None}
