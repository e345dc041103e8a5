"""Connections: limits of their number, deadlines for slow clients, and TLS. aiohttp offers none of the limits."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from socket import socket
from ssl import SSLContext

from aiohttp import web
from msgspec import Struct

from batchq.api.auth.authentication import CALLER
from batchq.api.http.client_connection import client_address
from batchq.api.http.tls import Certificate
from batchq.api.serving.app import Handler, fast_router

log = logging.getLogger(__name__)

ACCEPT_BATCH = 100  # connections that asyncio accepts in one iteration of the event loop
LISTEN_BACKLOG = 1024  # connections in the kernel's backlog; a further client gets no reply and retries after a second
WARNING_INTERVAL = 10.0  # seconds between two log lines about refused connections


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections may be open, and how long each may keep the server waiting."""

    #: Connections that may be open at the same time.
    connections: int = 256
    #: Connections that may be open from one IPv4 address, one /64 network of IPv6, or one user of a unix socket.
    per_address: int = 128
    #: Seconds that a client may take to send the first byte of a request, from there to send its last byte, and to
    #: read the response.
    client_timeout: float = 30.0
    #: Bytes a second. A streamed response may wait for its client longer than `client_timeout` in all: by the time that
    #: the bytes that the client has read would take at this rate.
    min_rate: float = 8 * 1024
    #: Seconds that a shutdown waits for requests under way.
    drain_timeout: float = 5.0


LIMITS = ConnectionLimits()


class ListeningSite(web.BaseSite):
    """A listening socket, of TCP or a unix socket, that serves `runner`, which must be set up, within `limits`.

    With a certificate it accepts TLS only. `path`: of a unix socket's file.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        *,
        listener: socket,
        certificate: Certificate | None,
        limits: ConnectionLimits = LIMITS,
        path: Path | None = None,
    ) -> None:
        super().__init__(runner)
        self._path = path
        self._app = runner.app
        self._listener = listener
        self._certificate = certificate
        self._limits = limits
        self._connections: ConnectionTable | None = None

    @property
    def name(self) -> str:
        if self._path is not None:
            return f"unix://{self._path}"
        host, port = self._listener.getsockname()[:2]
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        self._connections = table = ConnectionTable(server, self._limits, self._certificate)
        server.request_handler = table.wrap(fast_router(self._app, server.request_handler))
        # asyncio accepts up to `backlog` connections before the table counts them: they must not use up the file
        # descriptors.
        at_once = min(ACCEPT_BATCH, self._limits.connections)
        self._server = await asyncio.get_running_loop().create_server(
            table.create_protocol, sock=self._listener, backlog=at_once
        )
        self._listener.listen(LISTEN_BACKLOG)

    async def stop(self) -> None:
        """Accept no further connections, and wait for the requests under way.

        After this aiohttp shuts down, and would not receive the rest of a request that is still arriving.
        """
        await super().stop()
        if self._connections is not None:
            await self._connections.drain(self._limits.drain_timeout)


class ConnectionTable:
    """The open connections of a server.

    If a new connection would exceed a limit, per address or in total, the one whose client keeps the server waiting
    longest is closed; connections with a request of a known user are closed last. If no client keeps the server
    waiting, the new connection is refused. Decision 0032.
    """

    def __init__(self, server: web.Server, limits: ConnectionLimits, certificate: Certificate | None) -> None:
        self._server = server
        self._limits = limits
        self._certificate = certificate
        self._open: dict[web.RequestHandler, Connection] = {}
        self._changed = asyncio.Event()
        self._warned_at = -WARNING_INTERVAL

    def create_protocol(self) -> asyncio.Protocol:
        """Create the protocol of a new connection. Its address is known from `connection_made` on."""
        tls = self._certificate.context() if self._certificate else None
        return Connection(self._server(), tls=tls, limits=self._limits, on_open=self._add, on_close=self._remove)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap `handler`: while it works on a complete request, the client's deadline does not run."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            connection = self._open.get(request.protocol)
            if connection is None:  # closed already: the request is carried out all the same
                return await handler(request)
            connection.request_started(request)
            try:
                return await handler(request)
            finally:
                connection.authenticated = connection.authenticated or CALLER in request
                connection.response_sent()
                self._changed.set()

        return answer

    async def drain(self, seconds: float) -> None:
        """Wait until no request is under way, from its first byte to its response; at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(connection.under_way for connection in self._open.values()):
                    self._changed.clear()
                    await self._changed.wait()

    def _add(self, connection: "Connection") -> bool:
        """Add a connection, and close another one for it if necessary. False if there is no room."""
        same = [each for each in self._open.values() if each.address == connection.address]
        if len(same) >= self._limits.per_address:
            room = self._make_room(same)
        else:
            room = len(self._open) < self._limits.connections or self._make_room(self._open.values())
        if room:
            self._open[connection.http] = connection
        elif asyncio.get_running_loop().time() >= self._warned_at + WARNING_INTERVAL:
            self._warned_at = asyncio.get_running_loop().time()
            what = "%d connections are open, %d of them from %s, and all are busy: a new one is refused"
            log.warning(what, len(self._open), len(same), connection.address)
        return room

    def _make_room(self, among: Iterable["Connection"]) -> bool:
        waiting = [
            (connection.authenticated, connection.waiting_since, connection)
            for connection in among
            if connection.waiting_since is not None
        ]
        if not waiting:
            return False
        *_, longest = min(waiting, key=itemgetter(0, 1))
        self._remove(longest)
        longest.abort()
        return True

    def _remove(self, connection: "Connection") -> None:
        self._open.pop(connection.http, None)
        self._changed.set()


class Connection(asyncio.Protocol):
    """aiohttp's protocol with deadlines for the client, behind TLS if `tls` is given."""

    def __init__(
        self,
        http: web.RequestHandler,
        *,
        tls: SSLContext | None,
        limits: ConnectionLimits,
        on_open: Callable[["Connection"], bool],
        on_close: Callable[["Connection"], None],
    ) -> None:
        self.http = http
        #: The client's address, as connections are counted by it; empty until the connection is made.
        self.address = ""
        #: Whether a known user has made a request on it.
        self.authenticated = False
        #: Since when the client keeps the server waiting, in the event loop's time; None while a request is handled.
        self.waiting_since: float | None = None
        self._deadline = 0.0
        #: Seconds that the current response may still wait for the client.
        self._credit = limits.client_timeout
        self._unsent = 0
        self._handshaking = True
        self._tls = tls
        self._limits = limits
        self._on_open = on_open
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._buffered = b""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._idle = True
        self._responding = False
        self._start_deadline()

    @property
    def under_way(self) -> bool:
        """Whether a request has begun, and its response is not complete."""
        return not self._idle

    def request_started(self, request: web.BaseRequest) -> None:
        """The head of a request has arrived; its body may still be arriving."""
        self._responding = True
        self._credit = self._limits.client_timeout
        request.content.on_eof(self._body_complete)

    def response_sent(self) -> None:
        """The response is complete: the deadline of the idle connection runs."""
        self._responding = False
        self._idle = True
        self._start_deadline()

    def abort(self) -> None:
        """Close the connection at once. Data that the client has not read yet is lost."""
        self._close()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._closed:  # closed before it was established
            transport.abort()
            return
        self._transport = transport
        self.address = client_address(transport)
        if not self._on_open(self):  # SDKs retry a little later
            self.abort()
        elif self._tls is None:
            self._establish(transport)
        else:
            self._handshake = self._loop.create_task(self._do_handshake(transport, self._tls))

    def data_received(self, data: bytes) -> None:
        if self._idle:
            # The deadline of the request begins here: that of the idle connection may be near its end.
            self._idle = False
            self._start_deadline()
        if self._handshaking:
            self._buffered += data
        else:
            self.http.data_received(data)

    def eof_received(self) -> None:
        if not self._handshaking:
            self.http.eof_received()

    def pause_writing(self) -> None:
        """Part of a response waits for the client: the deadline runs."""
        self.http.pause_writing()
        if self._responding and self._transport is not None and self.waiting_since is None:
            self._unsent = self._transport.get_write_buffer_size()
            self._start_deadline(self._credit)

    def resume_writing(self) -> None:
        """The client has read enough. The wait reduces its credit, and the bytes that it has read increase it."""
        if self._responding and self._transport is not None and self.waiting_since is not None and self._unsent:
            taken = self._unsent - self._transport.get_write_buffer_size()
            waited = self._loop.time() - self.waiting_since
            credit = self._credit - waited + taken / self._limits.min_rate
            self._credit, self._unsent = min(credit, self._limits.client_timeout), 0
            self.waiting_since = None
        self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()
        self._on_close(self)
        if not self._handshaking:
            self.http.connection_lost(exc)

    async def _do_handshake(self, transport: asyncio.Transport, tls: SSLContext) -> None:
        """Do the TLS handshake, within the client's deadline. A client that does not speak TLS is disconnected."""
        try:
            secured = await self._loop.start_tls(transport, self, tls, server_side=True)
        except OSError:
            secured = None
        if secured is None or self._closed:
            self.connection_lost(None)
        else:
            self._establish(secured)

    def _establish(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._handshaking = False
        self.http.connection_made(transport)
        if self._buffered:  # data that arrived together with the end of the handshake
            self.http.data_received(self._buffered)
            self._buffered = b""

    def _body_complete(self) -> None:
        # A body that is complete only after its response (an error) starts no further handling.
        if self._responding:
            self.waiting_since = None

    def _start_deadline(self, seconds: float | None = None) -> None:
        """Restart the deadline. An earlier timer is not replaced: when it fires, it is set to the remaining time."""
        if self._closed:
            return
        self.waiting_since = self._loop.time()
        self._deadline = self.waiting_since + (self._limits.client_timeout if seconds is None else seconds)
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self.waiting_since is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        else:
            self.abort()

    def _close(self) -> None:
        self._closed = True
        self.waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
