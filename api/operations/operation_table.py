"""Tables of operations that have their own routes, and what each does before and after its handler.

    operations = OperationTable(not_found=HTTPStatus.NOT_FOUND)

    @operations.add("SetBudget", "POST", "/v1/batchq/setbudget", permission=Permission.CATALOG)
    async def set_budget(parts: Parts, call: Call[SetBudgetRequest]) -> BudgetResponse:
        ...

The request is authorized and parsed, the caller's concurrent requests are limited, and the answer is sent. The shapes
of requests and answers are taken from the handler's annotations. The first paragraph of its docstring is the summary of
the operation in /openapi.json, and the rest its description.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from inspect import getdoc
from types import UnionType
from typing import Any, Generic, TypedDict, TypeVar, Unpack, get_args, get_type_hints

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from batchq.api.auth.authentication import authorize
from batchq.api.http.http import Dialect, HttpRefusal, parse, query_of, read_body, reply, validate_values
from batchq.api.operations.openapi import OperationDoc, document
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission, UserName
from batchq.domain.ids import JobId
from batchq.errors import NotFound
from batchq.system.throttling import ConcurrencyLimit

JOB = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}"
"""The path of a job in batchq's own API: its id, or that of a child of an array or of a node."""

Input = TypeVar("Input", bound=BaseModel | None)
Answer = TypeVar("Answer", bound=Struct | web.StreamResponse | None)


class Call(Struct, Generic[Input], frozen=True, kw_only=True):
    """One request, with its caller."""

    caller: Caller
    #: The query of a GET, and the body of others; None if the operation has none.
    input: Input
    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    http: web.Request

    @property
    def job_id(self) -> JobId:
        """The id in the path of a job."""
        return JobId(self.path["job"])


class CallLimit(Struct, frozen=True, kw_only=True):
    """How many requests of one user are carried out. Operations of a table with the same limit share it."""

    #: At the same time.
    at_once: int
    #: Requests that wait; more are refused with 429.
    waiting: int = 0


BULK_LIMIT = CallLimit(at_once=2, waiting=14)
"""For operations that read or stop many jobs."""


class _Options(TypedDict, total=False):
    permission: Permission
    status: HTTPStatus
    #: Required of a handler that returns a response of its own.
    answer: type[Struct] | tuple[type[Struct], ...]
    response_media: str
    optional_body: bool


class _Operation(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    handle: Callable[[Parts, Call[Any]], Awaitable[Struct | web.StreamResponse | None]]
    doc: OperationDoc
    limit: CallLimit | None


class OperationTable:
    """Operations that handle errors alike."""

    def __init__(
        self, *, not_found: HTTPStatus | None = None, check: Callable[[web.Request], None] | None = None
    ) -> None:
        """`not_found`: the status of an answer to NotFound; None: that of the dialect.

        `check` is called with each authorized request, and may raise HttpRefusal.
        """
        self._not_found = not_found
        self._check = check
        self._operations: list[_Operation] = []

    def add(
        self, name: str, method: str, path: str, *, limit: CallLimit | None = None, **options: Unpack[_Options]
    ) -> Callable[
        [Callable[[Parts, Call[Input]], Awaitable[Answer]]], Callable[[Parts, Call[Input]], Awaitable[Answer]]
    ]:
        """Decorate the handler of an operation. A handler that returns None sends a response without a body."""

        def of(
            handle: Callable[[Parts, Call[Input]], Awaitable[Answer]],
        ) -> Callable[[Parts, Call[Input]], Awaitable[Answer]]:
            doc = replace(_doc(name, method, handle), **options)
            self._operations.append(_Operation(method=method, path=path, handle=handle, doc=doc, limit=limit))
            return handle

        return of

    def dialect(self, parts: Parts) -> Dialect:
        return lambda app: self.mount(app, parts)

    def mount(self, app: web.Application, parts: Parts) -> None:
        """Add the routes to the application, with limits of their own."""
        limits = {
            operation.limit: ConcurrencyLimit[UserName](
                at_once=operation.limit.at_once, waiting=operation.limit.waiting
            )
            for operation in self._operations
            if operation.limit is not None
        }
        for operation in self._operations:
            endpoint = self._endpoint(parts, operation, None if operation.limit is None else limits[operation.limit].of)
            document(app, app.router.add_route(operation.method, operation.path, endpoint), operation.doc)

    def _endpoint(
        self,
        parts: Parts,
        operation: _Operation,
        limit: Callable[[UserName], AbstractAsyncContextManager[object]] | None,
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        assert operation.doc.permission is not None
        permission = operation.doc.permission

        async def endpoint(request: web.Request) -> web.StreamResponse:
            caller = authorize(request, permission, operation.doc.name)
            if self._check is not None:
                self._check(request)
            given = await _input(request, operation.doc)
            # `fast_router` sets no match_info.
            path = request.match_info if "{" in operation.path else {}
            call = Call(caller=caller, input=given, path=path, http=request)
            try:
                async with nullcontext() if limit is None else limit(caller.user):
                    answer = await operation.handle(parts, call)
            except NotFound as error:
                if self._not_found is None:
                    raise
                raise HttpRefusal(str(error), status=self._not_found) from None
            return _response(answer, operation.doc.status)

        return endpoint


async def _input(request: web.Request, doc: OperationDoc) -> BaseModel | None:
    if doc.query is not None:
        return validate_values(doc.query, query_of(request))
    if doc.body is None:
        return None
    body = await read_body(request)
    return parse(doc.body, body or b"{}" if doc.optional_body else body)


def _response(answer: Struct | web.StreamResponse | None, status: HTTPStatus) -> web.StreamResponse:
    match answer:
        case None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        case Struct():
            return reply(answer, status=status)
        case response:
            return response


def _doc(name: str, method: str, handle: Callable[..., object]) -> OperationDoc:
    summary, *description = (" ".join(part.split()) for part in (getdoc(handle) or "").split("\n\n"))
    hints = get_type_hints(handle)
    (given,) = get_args(hints["call"])
    shape = None if given is type(None) else given
    answers = get_args(hints["return"]) if isinstance(hints["return"], UnionType) else (hints["return"],)
    structs = tuple(answer for answer in answers if issubclass(answer, Struct))
    return OperationDoc(
        name=name,
        summary=summary,
        description="\n\n".join(description),
        body=None if method == "GET" else shape,
        query=shape if method == "GET" else None,
        answer=structs[0] if structs else None,
        status=HTTPStatus.NO_CONTENT if answers == (type(None),) else HTTPStatus.OK,
        empty_statuses=(HTTPStatus.NO_CONTENT,) if structs and type(None) in answers else (),
    )
