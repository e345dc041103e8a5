"""Tables of operations: the only module that adds routes to an application.

    operations = OperationTable(failed=missing_is_404)

    @operations.add("SetBudget", "POST", "/v1/batchq/setbudget", Permission.CATALOG)
    async def set_budget(parts: Parts, call: Call[SetBudgetRequest]) -> BudgetResponse:
        ...

The caller is authorized, the request is parsed, the caller's concurrent requests are limited, and the answer is sent.
The shapes of requests and answers are taken from the handler's annotations. The first paragraph of its docstring is the
summary of the operation in /openapi.json, and the rest its description.

A handler gets a Call. Only an endpoint of this module makes a Call, after it has authorized the caller. An operation
that needs no permission is registered by `public`. Its handler gets the HTTP request, which may have no caller.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar, Unpack

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from batchq.api.auth.authentication import authorize, check_metrics_token
from batchq.api.http.dialect_profiles import TARGET, DialectProfile, register_dialect_profile
from batchq.api.http.http import Dialect, HttpRefusal, error_response, query_of, read_body, reply, validate_values
from batchq.api.operations.operations import (
    ADDITIONS,
    OPERATIONS,
    Call,
    CallLimit,
    Input,
    Operation,
    Public,
    documented,
    shapes,
)
from batchq.api.operations.parts import Parts
from batchq.api.operations.schemas import Additions
from batchq.domain.access.accounts import Permission, UserName
from batchq.errors import BatchqError, NotFound
from batchq.system.throttling import ConcurrencyLimit

CONTENT_TYPE = "application/x-amz-json-1.1"  # of AWS's JSON 1.1 protocol: all operations are `POST /` with a target

Result = TypeVar("Result", bound=Struct | web.StreamResponse | None)
Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]
Limit = Callable[[UserName], AbstractAsyncContextManager[object]]
PublicHandler = Callable[[Parts, web.Request], Awaitable[web.StreamResponse]]

#: Reads and parses what the operation takes. Raises InvalidMember or HttpRefusal.
Read = Callable[[web.Request, Operation], Awaitable[BaseModel | None]]
#: Calls the handler, and makes the response.
CarryOut = Callable[[Parts, Operation, Call[Any]], Awaitable[web.StreamResponse]]
#: Returns the response to an error of an authorized request, or raises an error. It is not called for HttpRefusal.
Failed = Callable[[web.Request, Operation, BatchqError], web.StreamResponse]


class _Options(TypedDict, total=False):
    limit: CallLimit
    status: HTTPStatus
    #: Required of a handler that returns a response of its own.
    answer: type[Struct] | tuple[type[Struct], ...]
    response_media: str
    optional_body: bool


async def read_input(request: web.Request, operation: Operation) -> BaseModel | None:
    """The query, or else the JSON body, of an operation that takes one."""
    if operation.query is not None:
        return validate_values(operation.query, query_of(request))
    return None if operation.body is None else operation.parse(await read_body(request))


async def send_answer(parts: Parts, operation: Operation, call: Call[Any]) -> web.StreamResponse:
    """Send the handler's answer as JSON; a response as it is, and for None a response without a body."""
    answer = await operation.handle(parts, call)
    if isinstance(answer, web.StreamResponse):
        return answer
    return web.Response(status=HTTPStatus.NO_CONTENT) if answer is None else reply(answer, status=operation.status)


def raise_error(_request: web.Request, _operation: Operation, error: BatchqError) -> web.StreamResponse:
    """The profile of the dialect makes the response."""
    raise error


def missing_is_404(_request: web.Request, _operation: Operation, error: BatchqError) -> web.StreamResponse:
    if isinstance(error, NotFound):
        raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
    raise error


class OperationTable:
    """Operations whose requests, answers and errors have the same form."""

    def __init__(
        self,
        operations: Iterable[Operation] = (),
        *,
        check: Callable[[web.Request], None] | None = None,
        read: Read = read_input,
        carry_out: CarryOut = send_answer,
        failed: Failed = raise_error,
    ) -> None:
        """`check` is called with each authorized request, and may raise HttpRefusal."""
        self.operations = list(operations)
        self._check = check
        self._read = read
        self._carry_out = carry_out
        self._failed = failed

    def add(
        self, name: str, method: str, path: str, permission: Permission, **options: Unpack[_Options]
    ) -> Callable[
        [Callable[[Parts, Call[Input]], Awaitable[Result]]], Callable[[Parts, Call[Input]], Awaitable[Result]]
    ]:
        """Decorate the handler of an operation. A handler that returns None sends a response without a body."""

        def decorate(
            handle: Callable[[Parts, Call[Input]], Awaitable[Result]],
        ) -> Callable[[Parts, Call[Input]], Awaitable[Result]]:
            members = {**shapes(method, handle), **options}
            self.operations.append(
                documented(handle, name=name, method=method, path=path, access=permission, **members)
            )
            return handle

        return decorate

    def public(
        self, name: str, method: str, path: str, access: Public = Public.ANYONE, **options: Unpack[_Options]
    ) -> Callable[[PublicHandler], PublicHandler]:
        """Decorate the handler of an operation that needs no permission. The gate must admit its path."""

        def decorate(handle: PublicHandler) -> PublicHandler:
            self.operations.append(documented(handle, name=name, method=method, path=path, access=access, **options))
            return handle

        return decorate

    def dialect(self, parts: Parts) -> Dialect:
        """Adds the operations to an application. All applications share the limits of users."""
        limits = {
            operation.limit: ConcurrencyLimit[UserName](
                at_once=operation.limit.at_once, waiting=operation.limit.waiting
            ).of
            for operation in self.operations
            if operation.limit is not None
        }

        def mount(app: web.Application) -> None:
            for operation in self.operations:
                limit = None if operation.limit is None else limits[operation.limit]
                _add(app, operation, self._endpoint(parts, operation, limit))

        return mount

    def _endpoint(self, parts: Parts, operation: Operation, limit: Limit | None) -> Endpoint:
        if isinstance(operation.access, Public):
            return _public_endpoint(parts, operation)
        permission, action = operation.access, operation.name
        has_path = "{" in operation.path

        async def endpoint(request: web.Request) -> web.StreamResponse:
            caller = authorize(request, permission, action)
            try:
                if self._check is not None:
                    self._check(request)
                given = await self._read(request, operation)
                # `fast_router` sets no match_info.
                call = Call(caller=caller, input=given, path=request.match_info if has_path else {}, http=request)
                if limit is None:
                    return await self._carry_out(parts, operation, call)
                async with limit(caller.user):
                    return await self._carry_out(parts, operation, call)
            except HttpRefusal:
                raise
            except BatchqError as error:
                return self._failed(request, operation, error)

        return endpoint


def _public_endpoint(parts: Parts, operation: Operation) -> Endpoint:
    async def endpoint(request: web.Request) -> web.StreamResponse:
        if operation.access is Public.METRICS_TOKEN and parts.monitoring.token is not None:
            check_metrics_token(request, parts.monitoring.token())
        response: web.StreamResponse = await operation.handle(parts, request)
        return response

    return endpoint


def dialect_of(
    *tables: OperationTable,
    profile: Callable[[Parts], DialectProfile] | None = None,
    additions: Additions = {},  # noqa: B006 - an immutable mapping
) -> Callable[[Parts], Dialect]:
    """A dialect with these operations.

    `profile`: of its paths; None: AWS's. `additions`: the `batchq` members that AWS's shapes have in its answers.
    """

    def dialect(parts: Parts) -> Dialect:
        mounts = [table.dialect(parts) for table in tables]

        def mount(app: web.Application) -> None:
            if profile is not None:
                register_dialect_profile(app, profile(parts))
            app[ADDITIONS].update(additions)
            for mount_table in mounts:
                mount_table(app)

        return mount

    return dialect


class _Targets(Struct):
    route: web.AbstractRoute
    #: By X-Amz-Target.
    endpoints: dict[str, Endpoint]


_TARGETS: web.AppKey[_Targets] = web.AppKey("targets")


def _add(app: web.Application, operation: Operation, endpoint: Endpoint) -> None:
    if operation.target:
        if _TARGETS not in app:
            endpoints: dict[str, Endpoint] = {}
            app[_TARGETS] = _Targets(route=app.router.add_post("/", _dispatcher(endpoints)), endpoints=endpoints)
        route = app[_TARGETS].route
        app[_TARGETS].endpoints[operation.target] = endpoint
    else:
        route = app.router.add_route(operation.method, operation.path, endpoint)
    app[OPERATIONS].setdefault(route, []).append(operation)


def _dispatcher(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def dispatch(request: web.Request) -> web.StreamResponse:
        target = request.headers.get(TARGET, "")
        endpoint = endpoints.get(target)
        response = _unknown_operation(target) if endpoint is None else await endpoint(request)
        response.content_type = CONTENT_TYPE
        return response

    return dispatch


def _unknown_operation(target: str) -> web.Response:
    """The response to a target that names no operation; empty: the request has none."""
    why = f"{target[:200]!r} is not an operation of this server." if target else "The X-Amz-Target header is missing."
    return error_response(HTTPStatus.BAD_REQUEST, "UnknownOperationException", why)


def complete_routes(app: web.Application) -> None:
    """Serve HEAD wherever GET is served (RFC 9110, section 9.1).

    Only the headers of GET's response are sent: aiohttp leaves out the body of a `Response`, `send_stream` all parts.

    Raises AssertionError for a route that no table has added: its requests would not be authorized.
    """
    for resource in app.router.resources():
        handlers = {route.method: route.handler for route in resource}
        if isinstance(resource, web.Resource) and "GET" in handlers and "HEAD" not in handlers:
            resource.add_route("HEAD", handlers["GET"])
    added = {route.handler for route in app[OPERATIONS]}
    for route in app.router.routes():
        if route.handler not in added:
            raise AssertionError(f"no table has the route {route.method} {route.resource}")
