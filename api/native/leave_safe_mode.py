"""LeaveSafeMode: an admin ends safe mode after a restore (decision 0016), or accepts a new engine (decision 0037)."""

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.services.jobs import JobService

NAME = "LeaveSafeMode"
LEAVE_SAFE_MODE = "/v1/batchq/leavesafemode"


class LeaveSafeModeRequest(BaseModel):
    """How to leave safe mode."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Whether containers that no job owns are removed; otherwise they are left alone for good.
    purge: bool = False
    #: Required if another engine answers than the one of the jobs: accept it, and give up the jobs that ran on the
    #: other one.
    newEngine: bool = False  # noqa: N815 - the wire's name


class LeaveSafeModeAnswer(Struct, frozen=True):
    """An answer without members."""


_DOC = OperationDoc(
    name=NAME,
    summary="Ends the safe mode after a restore, or accepts a new container engine.",
    body=LeaveSafeModeRequest,
    answer=LeaveSafeModeAnswer,
    permission=Permission.MAINTENANCE,
)


def dialect(jobs: JobService) -> Dialect:
    async def leave(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.MAINTENANCE, NAME)
        body = parse(LeaveSafeModeRequest, await read_body(request))
        await jobs.leave_safe_mode(purge=body.purge, new_engine=body.newEngine, caller=caller)
        return reply(LeaveSafeModeAnswer())

    def mount(app: web.Application) -> None:
        document(app, app.router.add_post(LEAVE_SAFE_MODE, leave), _DOC)

    return mount
