"""DrainQueue: a job queue accepts jobs and starts none, or starts them again."""

from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.operation_table import Call, OperationTable
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import QueueName
from batchq.services.catalog import CatalogService


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


operations = OperationTable[CatalogService]()


@operations.add("DrainQueue", "POST", "/v1/batchq/drainqueue", permission=Permission.CATALOG)
async def drain_queue(catalog: CatalogService, call: Call[DrainQueueRequest]) -> DrainQueueAnswer:
    """Lets a job queue accept jobs without starting them, or start them again.

    Jobs that are STARTING or RUNNING continue. To AWS's clients the queue is ENABLED.
    """
    name, drained = QueueName(call.input.queue), call.input.drained
    queue = await catalog.drain_queue(name, drained=drained, caller=call.caller)
    return DrainQueueAnswer(queue=queue.name, drained=queue.drained)
