"""ListCheckpoints, RequestCheckpoint and DeleteCheckpoint: the checkpoints of one job."""

from http import HTTPStatus

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, HttpRefusal, milliseconds, parse, read_body, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId
from batchq.errors import NotFound
from batchq.ports.checkpoints import Checkpoint, CheckpointType
from batchq.services.checkpoints import CheckpointService

_CHECKPOINTS = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}/checkpoints"


class CheckpointAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint: a file or directory in the job's checkpoint directory."""

    #: `ckpt_` and 12 hex digits.
    id: str
    #: The name of the file or directory.
    name: str
    type: CheckpointType
    #: A lower bound if it has very many files.
    size_bytes: int
    #: When it was last changed, in milliseconds since 1970.
    created_at: int
    #: From its name; absent if the name has none.
    epoch: int | None = None
    step: int | None = None
    #: Whether it is written completely, as far as can be known.
    complete: bool


class CheckpointsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The checkpoints of a job, oldest first, at most 1000."""

    job_id: str
    checkpoints: tuple[CheckpointAnswer, ...]
    #: The size of all of them.
    total_size_bytes: int
    #: The id of the newest complete one, from which the next attempt can continue; absent without one.
    latest: str | None = None


class RequestCheckpointRequest(BaseModel):
    """An empty object."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RequestCheckpointAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request was delivered. The job writes the checkpoint later."""

    job_id: str


class DeleteCheckpointAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The deleted checkpoint."""

    job_id: str
    checkpoint_id: str


_LIST = OperationDoc(
    name="ListCheckpoints",
    summary="Lists the checkpoints of a job, oldest first.",
    description="Checkpoints of a job whose record was removed after the retention period are listed for operators.",
    answer=CheckpointsAnswer,
)
_REQUEST = OperationDoc(
    name="RequestCheckpoint",
    summary="Sends the checkpoint signal that a running job declared.",
    description="Refused for a job that does not run, is being stopped, or declared no signal.",
    body=RequestCheckpointRequest,
    answer=RequestCheckpointAnswer,
)
_DELETE = OperationDoc(
    name="DeleteCheckpoint",
    summary="Deletes a checkpoint of a job.",
    answer=DeleteCheckpointAnswer,
)


def dialect(checkpoints: CheckpointService) -> Dialect:
    async def list_checkpoints(request: web.Request) -> web.Response:
        caller, job_id = authorize(request, Permission.SELF, _LIST.name), JobId(request.match_info["job"])
        try:
            found = await checkpoints.list(job_id, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(checkpoints_answer(job_id, found))

    async def request_checkpoint(request: web.Request) -> web.Response:
        caller, job_id = authorize(request, Permission.SELF, _REQUEST.name), JobId(request.match_info["job"])
        parse(RequestCheckpointRequest, await read_body(request))
        try:
            await checkpoints.request(job_id, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(RequestCheckpointAnswer(job_id=job_id))

    async def delete_checkpoint(request: web.Request) -> web.Response:
        caller, job_id = authorize(request, Permission.SELF, _DELETE.name), JobId(request.match_info["job"])
        checkpoint_id = request.match_info["checkpoint"]
        try:
            await checkpoints.delete(job_id, checkpoint_id, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(DeleteCheckpointAnswer(job_id=job_id, checkpoint_id=checkpoint_id))

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(_CHECKPOINTS, list_checkpoints), _LIST)
        document(app, app.router.add_post(_CHECKPOINTS, request_checkpoint), _REQUEST)
        path = _CHECKPOINTS + "/{checkpoint:ckpt_[0-9a-f]{12}}"
        document(app, app.router.add_delete(path, delete_checkpoint), _DELETE)

    return mount


def checkpoints_answer(job_id: JobId, found: tuple[Checkpoint, ...]) -> CheckpointsAnswer:
    complete = [it for it in found if it.complete]
    return CheckpointsAnswer(
        job_id=job_id,
        checkpoints=tuple(map(_checkpoint, found)),
        total_size_bytes=sum(it.size_bytes for it in found),
        latest=complete[-1].id if complete else None,
    )


def _checkpoint(it: Checkpoint) -> CheckpointAnswer:
    return CheckpointAnswer(
        id=it.id,
        name=it.name,
        type=it.type,
        size_bytes=it.size_bytes,
        created_at=milliseconds(it.created_at),
        epoch=it.epoch,
        step=it.step,
        complete=it.complete,
    )
