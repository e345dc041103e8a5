"""The HTTP application: middleware, /healthz, /openapi.json, and the routes of the dialects passed to it."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from aiohttp import web

from batchq import __version__
from batchq.api import openapi
from batchq.api.authentication import HEALTH, WHO, Gate, in_short
from batchq.api.http import BODY_LIMIT, Dialect, reply
from batchq.api.middleware import doors

Health = Callable[[], Awaitable[Mapping[str, object]]]


def build(*, dialects: Iterable[Dialect], health: Health, hosts: Collection[str], gate: Gate) -> web.Application:
    """Build the application. `hosts`: the names, besides those of loopback, that a Host header may have."""
    app = web.Application(middlewares=[doors(hosts, gate)], client_max_size=BODY_LIMIT)
    openapi.mount(app)

    links = {"health": HEALTH, "operations": openapi.PATH}
    about = {"name": "batchq", "version": __version__, "links": links}

    async def describe_service(_: web.Request) -> web.Response:
        return reply(about)

    async def healthz(request: web.Request) -> web.Response:
        told = await health()
        return reply(told if WHO in request else in_short(told))

    openapi.document(app, app.router.add_get("/", describe_service), openapi.OperationDoc(name="DescribeService"))
    app.router.add_get(HEALTH, healthz)
    for mount in dialects:
        mount(app)
    return app


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
