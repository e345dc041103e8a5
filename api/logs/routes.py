"""The route of CloudWatch Logs: every operation is `POST /`, and the X-Amz-Target header names it."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

from batchq.api.authentication import scope
from batchq.api.authorization import asker
from batchq.api.http import REQUEST_ID, Dialect, HttpRefusal, read, refusal, reply
from batchq.api.logs import operations
from batchq.api.logs.arns import LogArns
from batchq.api.logs.context import LogsContext, LogsRequest
from batchq.api.openapi import OperationDoc, document
from batchq.api.operations import Operation
from batchq.domain.access.accounts import Permission
from batchq.errors import Invalid, NotFound, Unavailable

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/x-amz-json-1.1"
PREFIX = "Logs_20140328."
OPERATIONS: Mapping[str, Operation[LogsContext, LogsRequest]] = {
    "GetLogEvents": operations.get_log_events,
    "FilterLogEvents": operations.filter_log_events,
    "DescribeLogStreams": operations.describe_log_streams,
    "DescribeLogGroups": operations.describe_log_groups,
}


def dialect(desk: LogsContext) -> Dialect:
    async def endpoint(request: web.Request) -> web.Response:
        answer = await _answer(request, desk)
        answer.content_type = CONTENT_TYPE
        return answer

    def mount(app: web.Application) -> None:
        route = app.router.add_post("/", endpoint)
        for name, operation in OPERATIONS.items():
            document(app, route, OperationDoc(name=name, body=operation.body, target=PREFIX + name, media=CONTENT_TYPE))

    return mount


async def _answer(request: web.Request, desk: LogsContext) -> web.Response:
    target = request.headers.get("X-Amz-Target", "")
    operation = OPERATIONS.get(target.removeprefix(PREFIX)) if target.startswith(PREFIX) else None
    if operation is None:
        what = (
            f"{target[:200]!r} is not an operation of this server." if target else "The X-Amz-Target header is missing."
        )
        return refusal(HTTPStatus.BAD_REQUEST, "UnknownOperationException", what)
    try:
        return reply(await operation(desk, await _call(request, desk, target.removeprefix(PREFIX))))
    except HttpRefusal:
        raise
    except NotFound as why:
        return refusal(HTTPStatus.BAD_REQUEST, "ResourceNotFoundException", str(why))
    except Invalid as why:
        return refusal(HTTPStatus.BAD_REQUEST, "InvalidParameterException", str(why))
    except Unavailable as why:
        log.warning("request %s: %s", request[REQUEST_ID], why)
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(why))


async def _call(request: web.Request, desk: LogsContext, name: str) -> LogsRequest:
    said = scope(request.headers.get("Authorization", ""))
    arns = LogArns(account=desk.account, region=said.region or desk.region)
    return LogsRequest(
        body=await read(request),
        gone=lambda: request.transport is None,
        arns=arns,
        caller=asker(request, Permission.OWN, name),
    )
