"""An application served as in production: on a free port of loopback."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from socket import SO_RCVBUF, SOL_SOCKET, create_server, socket

from yarl import URL

from batchq.api.serving import app as api
from batchq.api.serving.server import LIMITS, ListeningSite

NARROW = 2**16  # bytes


@asynccontextmanager
async def serving(app, **how):
    """Yields the URL."""
    async with _site(app, **how) as site:
        yield site.name


@asynccontextmanager
async def _site(app, *, limits=LIMITS, certificate=None):
    runner = api.runner(app, drain_seconds=1)
    await runner.setup()
    try:
        site = ListeningSite(runner, listener=create_server(("127.0.0.1", 0)), certificate=certificate, limits=limits)
        await site.start()
        yield site
    finally:
        await runner.cleanup()


class Wire:
    """Serves an application, and opens connections on which a test sends raw bytes. `close` closes them all."""

    def __init__(self, app, *, files=None):
        self._app = app
        self._certificate = files and files.certificate()
        self._trust = files and files.trust()
        self._stack = AsyncExitStack()
        self._site = None

    @property
    def url(self):
        return self._site.name

    async def serve(self, limits=LIMITS):
        one = _site(self._app, limits=limits, certificate=self._certificate)
        self._site = await self._stack.enter_async_context(one)

    async def lets_in(self, number):
        """Wait until the server has accepted so many connections."""
        while len(self._site._connections._open) < number:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)

    async def connect(self, *data):
        """Connect, with TLS if the server has a certificate, and send the bytes."""
        return await self._open(data, self._trust)

    async def connect_narrowly(self, *data):
        """The same with a small receive buffer of the kernel."""
        return await self._open(data, self._trust, receive_buffer=NARROW)

    async def connect_in_the_clear(self, *data, host=None):
        return await self._open(data, None, host=host)

    async def close(self):
        await self._stack.aclose()

    async def _open(self, data, trust, *, host=None, receive_buffer=None):
        here, port = None if host is None else (host, 0), URL(self.url).port
        if receive_buffer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, local_addr=here)
        else:
            narrow = socket()
            narrow.setsockopt(SOL_SOCKET, SO_RCVBUF, receive_buffer)
            narrow.connect(("127.0.0.1", port))
            name = trust and "127.0.0.1"
            reader, writer = await asyncio.open_connection(sock=narrow, ssl=trust, server_hostname=name)
        self._stack.callback(writer.close)
        for part in data:
            writer.write(part)
        return reader, writer
