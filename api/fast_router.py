"""Fast router: finds the handlers of fixed paths in a dictionary, without aiohttp's router.

The objects that aiohttp creates for each request to route it cost as much as a short operation.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def shortcut(app: web.Application, long_way: Handler) -> Handler:
    """Return a handler that serves exact matches of method and fixed path, and passes all others to `long_way`."""
    known = _known(app)

    def answering(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        assert isinstance(request, web.Request)  # an application creates no others
        handle = known.get((request.method, request.raw_path))
        # aiohttp's router answers `Expect: 100-continue`.
        return long_way(request) if handle is None or "Expect" in request.headers else handle(request)

    return answering


def _known(app: web.Application) -> Mapping[tuple[str, str], Handle]:
    plain: dict[tuple[str, str], Handle] = {}
    for route in app.router.routes():
        if isinstance(route.resource, web.PlainResource):
            handle: Handle = route.handler
            for middleware in reversed(app.middlewares):
                handle = partial(middleware, handler=handle)
            # The router takes the first of several routes with the same method and path.
            plain.setdefault((route.method, route.resource.canonical), handle)
    return plain
