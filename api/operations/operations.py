"""Operations of AWS: a handler with the shape of its request, and the X-Amz-Target header, which selects an operation.

    @takes(DescribeJobs)
    async def describe(parts: Parts, request: BatchRequest, body: DescribeJobs) -> Answer:
        ...

The first paragraph of a handler's docstring is the summary of the operation in /openapi.json.

In AWS's JSON 1.1 protocol all operations are `POST /`, and the header is `PREFIX.Operation`.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from inspect import getdoc
from typing import Generic, Protocol, TypeVar

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from batchq.api.http.dialect_profiles import TARGET
from batchq.api.http.http import error_response, parse
from batchq.api.operations.openapi import OperationDoc, document
from batchq.api.operations.parts import Parts
from batchq.api.operations.schemas import AwsResponse

CONTENT_TYPE = "application/x-amz-json-1.1"

Answer = Mapping[str, object]


class WithBody(Protocol):
    """One request, as a dialect passes it to a handler."""

    @property
    def body(self) -> bytes: ...


Request = TypeVar("Request", bound=WithBody)
Shape = TypeVar("Shape", bound=BaseModel)

TargetHandler = Callable[[web.Request, str], Awaitable[web.Response]]
"""Handles a request; the second argument is the target without its prefix. The dispatcher sets the content type."""


class Operation(Struct, Generic[Request], frozen=True):
    """A handler, and the shapes of its requests."""

    #: Handles one request, with the request.
    handle: Callable[[Parts, Request], Awaitable[Answer]]
    #: What the operation does: one sentence.
    summary: str = ""
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""

    def __call__(self, parts: Parts, request: Request) -> Awaitable[Answer]:
        return self.handle(parts, request)


def takes(
    shape: type[Shape], *, check: Callable[[bytes], None] | None = None
) -> Callable[[Callable[[Parts, Request, Shape], Awaitable[Answer]]], Operation[Request]]:
    """Decorate a handler that is called with the parsed body. A body of another shape raises Invalid.

    `check` gets the body before it is parsed, and may raise Invalid.
    """

    def of(handle: Callable[[Parts, Request, Shape], Awaitable[Answer]]) -> Operation[Request]:
        def carry_out(parts: Parts, request: Request) -> Awaitable[Answer]:
            if check is not None:
                check(request.body)
            return handle(parts, request, parse(shape, request.body))

        summary = " ".join((getdoc(handle) or "").partition("\n\n")[0].split())
        return Operation(carry_out, summary=summary, body=shape)

    return of


def target_docs(
    prefix: str, operations: Mapping[str, Operation[Request]], *, service: str, qualified: bool
) -> list[OperationDoc]:
    """The descriptions of operations with a target.

    `service`: its name in botocore. `qualified`: whether the names of the operations begin with the prefix.
    """
    return [
        OperationDoc(
            name=prefix + name if qualified else name,
            summary=operation.summary,
            body=operation.body,
            answer=AwsResponse(service, name),
            target=prefix + name,
            media=CONTENT_TYPE,
        )
        for name, operation in operations.items()
    ]


class _Targets(Struct):
    route: web.AbstractRoute
    #: By prefix.
    handlers: dict[str, TargetHandler]


_TARGETS: web.AppKey[_Targets] = web.AppKey("targets")


def add_targets(app: web.Application, prefix: str, handler: TargetHandler, docs: list[OperationDoc]) -> None:
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
