"""The short way to an operation whose path is one word: it is found in a dictionary, and no router is asked.

What aiohttp makes and undoes of each request for its router costs as much as an operation that is quickly done.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def shortcut(app: web.Application, long_way: Handler) -> Handler:
    """What the router would do, for whoever spells a path as it stands there. All others go the long way."""
    known = _known(app)

    def answering(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        assert isinstance(request, web.Request)  # an application has no others made
        handle = known.get((request.method, request.raw_path))
        # Who asks first whether he may send his body is answered by the router.
        return long_way(request) if handle is None or "Expect" in request.headers else handle(request)

    return answering


def _known(app: web.Application) -> Mapping[tuple[str, str], Handle]:
    plain: dict[tuple[str, str], Handle] = {}
    for route in app.router.routes():
        if isinstance(route.resource, web.PlainResource):
            handle: Handle = route.handler
            for middleware in reversed(app.middlewares):
                handle = partial(middleware, handler=handle)
            # Of several of one path the router takes the first.
            plain.setdefault((route.method, route.resource.canonical), handle)
    return plain
