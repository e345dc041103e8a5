"""What AWS Batch says when it does not do as it is told."""

from http import HTTPStatus

from aiohttp import web

from batchq.api.http import reply
from batchq.errors import Invalid


def client_exception(error: Invalid, *, request_id: str, bare: bool) -> web.Response:
    """AWS: most texts come wrapped; those about the state of queues and compute environments come bare."""
    text = str(error)
    wrapped = text if bare else f"Error executing request, Exception : {text}, RequestId: {request_id}"
    response = reply({"message": wrapped}, status=HTTPStatus.BAD_REQUEST)
    response.headers["x-amzn-ErrorType"] = "ClientException"
    return response
