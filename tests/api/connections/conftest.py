"""Handlers for slow requests, and what clients see of a connection.

The deadlines of connections run on a clock that the tests advance, so a slow machine does not matter.
"""

import asyncio
from contextlib import suppress

from aiohttp import web

from batchq.api.auth.authentication import CALLER
from batchq.api.http.http import HttpRefusal, while_connected
from batchq.api.serving.server import ConnectionLimits
from tests.support.builders import ADMIN
from tests.support.clock import StandingLoop

GET = b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW_REQUEST = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 32 * 2**20  # more than the kernel takes for a client that does not read
TIMEOUT = 2.0  # seconds of a clock that the tests advance; aiohttp itself waits ten for the rest of a body
SHORT = ConnectionLimits(client_timeout=TIMEOUT)


def pytest_asyncio_loop_factories(config, item):
    return {"standing": StandingLoop}


class Handlers:
    """Handlers for the tests, and events of their requests."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.done = asyncio.Event()
        self.streams = 0
        self.app = web.Application()
        self.app.add_routes(
            [
                web.route("*", "/quick", self.quick),
                web.get("/slow", self.slow),
                web.get("/waiting", self.waiting),
                web.post("/echo", self.echo),
                web.get("/large", self.large),
                web.get("/stream", self.stream),
                web.get("/known", self.known),
                web.post("/v1/describejobs", self.no_jobs),
            ]
        )

    async def quick(self, request):
        return web.Response(text="quick")

    async def slow(self, request):
        self.reached.set()
        await self.gate.wait()
        self.done.set()
        return web.Response(text="slow")

    async def waiting(self, request):
        self.reached.set()
        try:
            await while_connected(request, self.gate.wait())
        except HttpRefusal:
            self.done.set()
            raise
        return web.Response(text="quick")

    async def echo(self, request):
        self.reached.set()
        return web.Response(body=await request.read())

    async def large(self, request):
        self.reached.set()
        return web.Response(body=bytes(LARGE))

    async def stream(self, request):
        """Pieces until the client disconnects."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        self.streams += 1
        self.reached.set()
        with suppress(ConnectionError):
            while True:
                await answer.write(bytes(2**16))
        self.streams -= 1
        return answer

    async def known(self, request):
        request[CALLER] = ADMIN
        return web.Response(text="known")

    async def no_jobs(self, request):
        await request.read()
        return web.json_response({"jobs": []})


def advance(seconds):
    asyncio.get_running_loop().advance(seconds)


async def is_closed(reader):
    """Whether the server has closed the connection."""
    try:
        return await reader.read() is not None
    except ConnectionError:
        return True


async def is_answered(reader):
    return (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200") and await reader.readexactly(5)


async def all_received(connect):
    """Wait until the server has read all data sent so far: it replies to the last request."""
    reader, _ = await connect(GET)
    assert await is_answered(reader)
