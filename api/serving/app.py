"""The HTTP application: middleware, /healthz, /openapi.json, and the routes of the dialects passed to it."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial

from aiohttp import web
from msgspec import Struct

from batchq import __version__
from batchq.api.auth.authentication import CALLER, HEALTH, Gate, HealthReport
from batchq.api.http.dialect_profiles import PROFILES, DialectProfiles
from batchq.api.http.http import BODY_LIMIT, Dialect, reply
from batchq.api.metrics.counters import RequestMetrics
from batchq.api.operations import openapi
from batchq.api.operations.middleware import request_middleware
from batchq.api.operations.openapi import OperationDoc, Security, document

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


_SERVICE = OperationDoc(
    name="DescribeService",
    summary="Returns the name and the version of the server.",
    answer=ServiceResponse,
    permission=None,
)
_HEALTH = OperationDoc(
    name="GetHealth",
    summary="Returns the health of the server and of its parts.",
    description="A request without a signature is answered too: a server with keys then sends `status` only.",
    answer=HealthReport,
    permission=None,
    security=Security.NONE,
)


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
    openapi.mount_openapi(app, signed=signed)

    links = {"health": HEALTH, "operations": openapi.PATH}
    description = ServiceResponse(name="batchq", version=__version__, links=links)

    async def describe_service(_: web.Request) -> web.Response:
        return reply(description)

    async def healthz(request: web.Request) -> web.Response:
        report, caller = await health(), request.get(CALLER)
        if caller is None:
            return reply(HealthReport(status=report.status))
        return reply(report if caller.reaches_all else report.without_errors())

    document(app, app.router.add_get("/", describe_service), _SERVICE)
    document(app, app.router.add_get(HEALTH, healthz), _HEALTH)
    for mount in dialects:
        mount(app)
    _add_head_routes(app)
    requests.describe(openapi.operations(app))
    return app


def _add_head_routes(app: web.Application) -> None:
    """Serve HEAD wherever GET is served (RFC 9110, section 9.1): aiohttp sends the headers of GET's response only."""
    for resource in app.router.resources():
        handlers = {route.method: route.handler for route in resource}
        if isinstance(resource, web.Resource) and "GET" in handlers and "HEAD" not in handlers:
            resource.add_route("HEAD", handlers["GET"])


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
