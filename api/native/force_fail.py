"""ForceFail: an admin's last resort for a job whose container does not end."""

from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.authorization import asker
from batchq.api.http import Dialect, HttpRefusal, parse, read, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId
from batchq.errors import NotFound
from batchq.services.jobs import JobService

NAME = "ForceFail"
FORCE_FAIL = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}/forcefail"


class ForceFailRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)]


def dialect(jobs: JobService) -> Dialect:
    async def force_fail(request: web.Request) -> web.Response:
        caller = asker(request, Permission.DATA, NAME)
        asked = parse(ForceFailRequest, await read(request))
        try:
            job = await jobs.force_fail(JobId(request.match_info["job"]), asked.reason, caller=caller)
        except NotFound as nobody:
            raise HttpRefusal(str(nobody), status=HTTPStatus.NOT_FOUND) from None
        return reply({"jobId": job.id, "status": job.status.value, "statusReason": job.status_reason})

    def mount(app: web.Application) -> None:
        route = app.router.add_post(FORCE_FAIL, force_fail)
        document(app, route, OperationDoc(name=NAME, body=ForceFailRequest))

    return mount
