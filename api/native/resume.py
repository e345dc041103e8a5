"""Resume: an admin ends the safe mode after a restore (decision 0016), or accepts a new engine (decision 0037)."""

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.services.jobs import JobService

NAME = "Resume"
RESUME = "/v1/batchq/resume"


class ResumeRequest(BaseModel):
    """How to resume."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Whether containers that no job owns are removed; otherwise they are left alone for good.
    purge: bool = False
    #: Required if another engine answers than the one of the jobs: accept it, and give up the jobs that ran on the
    #: other one.
    newEngine: bool = False  # noqa: N815 - the wire's name


class ResumeAnswer(Struct, frozen=True):
    """An answer without members."""


_DOC = OperationDoc(
    name=NAME,
    summary="Ends the safe mode after a restore, or accepts a new container engine.",
    body=ResumeRequest,
    answer=ResumeAnswer,
    permission=Permission.MAINTENANCE,
)


def dialect(jobs: JobService) -> Dialect:
    async def resume(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.MAINTENANCE, NAME)
        body = parse(ResumeRequest, await read_body(request))
        await jobs.resume(purge=body.purge, new_engine=body.newEngine, caller=caller)
        return reply(ResumeAnswer())

    def mount(app: web.Application) -> None:
        document(app, app.router.add_post(RESUME, resume), _DOC)

    return mount
