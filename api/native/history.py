"""GetJobHistory: the statuses that a job has had, and when."""

from http import HTTPStatus

from aiohttp import web

from batchq.api.authorization import asker
from batchq.api.http import Dialect, HttpRefusal, reply
from batchq.api.openapi import OperationDoc, document
from batchq.api.times import milliseconds
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId
from batchq.ports.jobs import Moment
from batchq.services.jobs import JobService

NAME = "GetJobHistory"
HISTORY = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}/history"


def dialect(jobs: JobService) -> Dialect:
    async def history(request: web.Request) -> web.Response:
        job_id = JobId(request.match_info["job"])
        walk = await jobs.history(job_id, caller=asker(request, Permission.OWN, NAME))
        if not walk:
            raise HttpRefusal(f"Job {job_id} not found.", status=HTTPStatus.NOT_FOUND)
        return reply({"jobId": job_id, "history": [_told(moment) for moment in walk]})

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(HISTORY, history), OperationDoc(name=NAME))

    return mount


def _told(moment: Moment) -> dict[str, object]:
    told = {
        "at": milliseconds(moment.at),
        "status": moment.status.value,
        "reason": moment.reason,
        "attempt": moment.attempt,
    }
    return {member: value for member, value in told.items() if value is not None}
