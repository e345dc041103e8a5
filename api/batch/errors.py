"""Error responses of AWS Batch."""

from http import HTTPStatus

from aiohttp import web

from batchq.api.http import reply
from batchq.errors import Invalid


def client_exception(error: Invalid, *, request_id: str, bare: bool) -> web.Response:
    """AWS: most messages are wrapped in another text; those about queues and compute environments are not (`bare`)."""
    text = str(error)
    wrapped = text if bare else f"Error executing request, Exception : {text}, RequestId: {request_id}"
    response = reply({"message": wrapped}, status=HTTPStatus.BAD_REQUEST)
    response.headers["x-amzn-ErrorType"] = "ClientException"
    return response
