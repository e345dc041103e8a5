"""`POST /` of AWS's JSON 1.1 protocol: the X-Amz-Target header, `PREFIX.Operation`, selects the dialect."""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.dialect_profiles import TARGET
from batchq.api.http import error_response
from batchq.api.openapi import OperationDoc, document

CONTENT_TYPE = "application/x-amz-json-1.1"

TargetHandler = Callable[[web.Request, str], Awaitable[web.Response]]
"""Handles a request; the second argument is the target without its prefix. The dispatcher sets the content type."""


class _Targets(Struct):
    route: web.AbstractRoute
    #: By prefix.
    handlers: dict[str, TargetHandler]


_TARGETS: web.AppKey[_Targets] = web.AppKey("targets")


def add_targets(app: web.Application, prefix: str, handler: TargetHandler, docs: Iterable[OperationDoc]) -> None:
    """Pass requests whose target begins with `prefix`, as `Logs_20140328.`, to `handler`."""
    if _TARGETS not in app:
        handlers: dict[str, TargetHandler] = {}
        app[_TARGETS] = _Targets(route=app.router.add_post("/", _dispatcher(handlers)), handlers=handlers)
    app[_TARGETS].handlers[prefix] = handler
    for doc in docs:
        document(app, app[_TARGETS].route, doc)


def unknown_operation(target: str) -> web.Response:
    """The response to a target that names no operation; empty: the request has none."""
    why = f"{target[:200]!r} is not an operation of this server." if target else "The X-Amz-Target header is missing."
    return error_response(HTTPStatus.BAD_REQUEST, "UnknownOperationException", why)


def _dispatcher(handlers: dict[str, TargetHandler]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def dispatch(request: web.Request) -> web.Response:
        target = request.headers.get(TARGET, "")
        prefix = f"{target.partition('.')[0]}."
        handler = handlers.get(prefix)
        response = unknown_operation(target) if handler is None else await handler(request, target[len(prefix) :])
        response.content_type = CONTENT_TYPE
        return response

    return dispatch
