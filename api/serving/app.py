"""The HTTP application: middleware, /healthz, /openapi.json, and the routes of the dialects passed to it."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import cast

from aiohttp import web
from msgspec import Struct

from batchq import __version__
from batchq.api.auth.authentication import CALLER, HEALTH, Gate
from batchq.api.http.dialect_profiles import PROFILES, DialectProfiles
from batchq.api.http.http import BODY_LIMIT, Dialect, reply
from batchq.api.metrics.counters import RequestMetrics
from batchq.api.operations import openapi
from batchq.api.operations.middleware import request_middleware
from batchq.api.operations.openapi import ApiDescription, Description
from batchq.api.operations.operation_table import OperationTable, complete_routes
from batchq.api.operations.operations import ADDITIONS, OPERATIONS, Call, operations_by_place
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.ports.responses.server import HealthReport

Health = Callable[[], Awaitable[HealthReport]]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
RouteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServiceResponse(Struct, frozen=True, kw_only=True):
    """The server."""

    #: Always `batchq`.
    name: str
    version: str
    #: Paths of the server: its health, and the description of its operations.
    links: dict[str, str]


def build(
    *,
    dialects: Iterable[Dialect],
    health: Health,
    hosts: Collection[str],
    gate: Gate,
    requests: RequestMetrics,
    signed: bool = True,
) -> web.Application:
    """Build the application. `hosts`: the names, besides those of loopback, that a Host header may have.

    `signed`: whether `gate` requires signatures, for /openapi.json.
    """
    profiles = DialectProfiles()
    middleware = request_middleware(hosts, gate, requests.observe, profiles=profiles)
    app = web.Application(middlewares=[middleware], client_max_size=BODY_LIMIT)
    app[PROFILES] = profiles
    app[OPERATIONS], app[ADDITIONS] = {}, {}
    service = service_operations(health, ApiDescription(app, signed=signed))
    for mount in (service.dialect(cast("Parts", None)), *dialects):  # the handlers of `service` use no parts
        mount(app)
    complete_routes(app)
    requests.describe(operations_by_place(app))
    return app


def service_operations(health: Health, api: ApiDescription) -> OperationTable:
    """The operations that describe the server."""
    operations = OperationTable()
    links = {"health": HEALTH, "operations": openapi.PATH}
    description = ServiceResponse(name="batchq", version=__version__, links=links)

    @operations.add("DescribeApi", "GET", openapi.PATH, Permission.SELF)
    async def describe_api(_parts: Parts, _call: Call[None]) -> Description:
        """Returns this description of the API."""
        return await api.get()

    @operations.add("DescribeService", "GET", "/", Permission.SELF)
    async def describe_service(_parts: Parts, _call: Call[None]) -> ServiceResponse:
        """Returns the name and the version of the server."""
        return description

    @operations.public("GetHealth", "GET", HEALTH, answer=HealthReport)
    async def healthz(_: Parts, request: web.Request) -> web.StreamResponse:
        """Returns the health of the server and of its parts.

        A request without a signature is answered too: a server with keys then sends `status` only.
        """
        report, caller = await health(), request.get(CALLER)
        if caller is None:
            return reply(HealthReport(status=report.status))
        return reply(report if caller.reaches_all else report.without_errors())

    return operations


def runner(app: web.Application, *, drain_seconds: float) -> web.AppRunner:
    """Return a runner for `app`. Bodies are not decompressed; a handler runs on after its client has disconnected.

    `drain_seconds`: how long a shutdown waits for requests under way.
    """
    # aiohttp would log a traceback for each malformed request; the middleware logs the errors of handlers.
    parser_log = logging.getLogger("api.parser")
    parser_log.setLevel(logging.CRITICAL)
    return web.AppRunner(
        app,
        access_log=None,
        logger=parser_log,
        auto_decompress=False,
        handler_cancellation=False,
        shutdown_timeout=drain_seconds,
    )


def fast_router(app: web.Application, fallback: Handler) -> Handler:
    """Return a handler that serves exact matches of method and fixed path, and passes all others to `fallback`.

    The objects that aiohttp creates for each request to route it cost as much as a short operation.
    """
    handlers = _fixed_routes(app)

    def route(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        assert isinstance(request, web.Request)  # an application creates no others
        handle = handlers.get((request.method, request.raw_path))
        # aiohttp's router answers `Expect: 100-continue`.
        return fallback(request) if handle is None or "Expect" in request.headers else handle(request)

    return route


def _fixed_routes(app: web.Application) -> Mapping[tuple[str, str], RouteHandler]:
    handlers: dict[tuple[str, str], RouteHandler] = {}
    for route in app.router.routes():
        if isinstance(route.resource, web.PlainResource):
            handle: RouteHandler = route.handler
            for middleware in reversed(app.middlewares):
                handle = partial(middleware, handler=handle)
            # The router takes the first of several routes with the same method and path.
            handlers.setdefault((route.method, route.resource.canonical), handle)
    return handlers
