"""DrainQueue: a job queue accepts jobs and starts none, or starts them again."""

from typing import Annotated

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import QueueName
from batchq.services.catalog import CatalogService

DRAIN_QUEUE = "/v1/batchq/drainqueue"


class DrainQueueRequest(BaseModel):
    """A job queue, and whether it is drained."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Its name.
    queue: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)]
    #: True: it accepts jobs and starts none; false: it starts them again.
    drained: bool


class DrainQueueAnswer(Struct, frozen=True, kw_only=True):
    """The queue after the request."""

    queue: str
    #: Whether it accepts jobs and starts none.
    drained: bool


_DOC = OperationDoc(
    name="DrainQueue",
    summary="Lets a job queue accept jobs without starting them, or start them again.",
    description="Jobs that are STARTING or RUNNING continue. To AWS's clients the queue is ENABLED.",
    body=DrainQueueRequest,
    answer=DrainQueueAnswer,
    permission=Permission.CATALOG,
)


def dialect(catalog: CatalogService) -> Dialect:
    async def drain(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.CATALOG, _DOC.name)
        body = parse(DrainQueueRequest, await read_body(request))
        queue = await catalog.drain_queue(QueueName(body.queue), drained=body.drained, caller=caller)
        return reply(DrainQueueAnswer(queue=queue.name, drained=queue.drained))

    def mount(app: web.Application) -> None:
        document(app, app.router.add_post(DRAIN_QUEUE, drain), _DOC)

    return mount
