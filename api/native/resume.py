"""Data that was restored from a backup goes on when an operator says so."""

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from batchq.api.authorization import asker
from batchq.api.http import Dialect, parse, read, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.services.jobs import JobService

NAME = "Resume"
RESUME = "/v1/batchq/resume"


class ResumeRequest(BaseModel):
    """`purge`: what no job owns is cleared away. `newEngine`: jobs that ran on another engine are given up."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    purge: bool = False
    newEngine: bool = False  # noqa: N815 - the wire's name


def dialect(jobs: JobService) -> Dialect:
    async def resume(request: web.Request) -> web.Response:
        caller = asker(request, Permission.DATA, NAME)
        asked = parse(ResumeRequest, await read(request))
        await jobs.resume(purge=asked.purge, new_engine=asked.newEngine, caller=caller)
        return reply({})

    def mount(app: web.Application) -> None:
        document(app, app.router.add_post(RESUME, resume), OperationDoc(name=NAME, body=ResumeRequest))

    return mount
