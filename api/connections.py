"""Who holds a connection, and for how long: one that keeps us waiting is hung up on. aiohttp has no word for it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from socket import socket
from ssl import SSLContext

from aiohttp import web

from api.certificates import Certificate
from api.shortcut import Handler, shortcut

log = logging.getLogger(__name__)

AT_ONCE = 100  # connections that are let in before anything else is done
WAITING = 1024  # connections that the kernel keeps at the door; one more is told nothing, and knocks again in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections may be open, and how many seconds each may keep us waiting.

    That long for the first byte of a request, that long from there to its last, that long until an answer is taken.
    At the end requests that have begun have `drain` seconds to be answered.
    """

    connections: int = 256
    patience: float = 30.0
    drain: float = 5.0


LIMITS = Limits()


class Site(web.BaseSite):
    """A listening socket at which `runner`, when it is set up, is reached by as many as may at once.

    With a certificate by TLS alone.
    """

    def __init__(
        self, runner: web.AppRunner, *, door: socket, certificate: Certificate | None, limits: Limits = LIMITS
    ) -> None:
        super().__init__(runner)
        self._app = runner.app
        self._door = door
        self._certificate = certificate
        self._limits = limits
        self._crowd: Crowd | None = None

    @property
    def name(self) -> str:
        host, port = self._door.getsockname()[:2]
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        self._crowd = crowd = Crowd(server, self._limits, self._certificate)
        server.request_handler = crowd.answering(shortcut(self._app, server.request_handler))
        # asyncio takes so many at once before the crowd is asked: they must not use up the files that may be open.
        at_once = min(AT_ONCE, self._limits.connections)
        self._server = await asyncio.get_running_loop().create_server(crowd.admit, sock=self._door, backlog=at_once)
        self._door.listen(WAITING)

    async def stop(self) -> None:
        """Nobody new is let in. aiohttp hears no more of a request whose end is on its way, so that is waited for."""
        await super().stop()
        if self._crowd is not None:
            await self._crowd.settle(self._limits.drain)


class Crowd:
    """The open connections of a server."""

    def __init__(self, server: web.Server, limits: Limits, certificate: Certificate | None) -> None:
        self._server = server
        self._limits = limits
        self._certificate = certificate
        self._open: dict[web.RequestHandler, Connection] = {}
        self._fewer = asyncio.Event()

    def admit(self) -> asyncio.Protocol:
        """Who comes last is let in for whoever keeps us waiting longest, and turned away where nobody does."""
        if len(self._open) >= self._limits.connections and not self._make_room():
            log.warning("%d connections are open and busy: another is turned away", len(self._open))
            return Refusal()
        http = self._server()
        tls = self._certificate.context() if self._certificate else None
        self._open[http] = it = Connection(http, tls=tls, patience=self._limits.patience, left=self._left)
        return it

    def answering(self, handler: Handler) -> Handler:
        """The same handler; while it works on a request that came whole, nobody is waited for."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            connection = self._open.get(request.protocol)
            if connection is None:  # gone already: what was asked is done all the same
                return await handler(request)
            connection.asked(request)
            try:
                return await handler(request)
            finally:
                connection.answered()
                self._fewer.set()

        return answer

    async def settle(self, patience: float) -> None:
        """Until no request is under way, from its first byte to its answer; but not for longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while any(it.under_way for it in self._open.values()):
                    self._fewer.clear()
                    await self._fewer.wait()

    def _make_room(self) -> bool:
        waiting = [(it.waiting_since, it) for it in self._open.values() if it.waiting_since is not None]
        if not waiting:
            return False
        _, longest = min(waiting, key=itemgetter(0))
        self._left(longest)
        longest.hang_up()
        return True

    def _left(self, connection: "Connection") -> None:
        self._open.pop(connection.http, None)
        self._fewer.set()


class Connection(asyncio.Protocol):
    """aiohttp's protocol with a deadline, behind TLS if so. `waiting_since` is None while a request is worked on."""

    def __init__(
        self,
        http: web.RequestHandler,
        *,
        tls: SSLContext | None,
        patience: float,
        left: Callable[["Connection"], None],
    ) -> None:
        self.http = http
        self.waiting_since: float | None = None
        self._at_the_door = True
        self._tls = tls
        self._patience = patience
        self._left = left
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self._idle = True
        self._answering = False
        self._wait()

    @property
    def under_way(self) -> bool:
        """Whether a request has begun, and its answer is still to come."""
        return not self._idle

    def asked(self, request: web.BaseRequest) -> None:
        """The head of a request is here; its body may be on its way."""
        self._answering = True
        request.content.on_eof(self._whole)

    def answered(self) -> None:
        self._answering = False
        self._idle = True
        self._wait()

    def hang_up(self) -> None:
        """At once: what its client has not taken by now is lost."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._over:  # its place was given away before it came in
            transport.abort()
            return
        self._transport = transport
        if self._tls is None:
            self._come_in(transport)
        else:
            self._handshake = self._loop.create_task(self._shake_hands(transport, self._tls))

    def data_received(self, data: bytes) -> None:
        if self._idle:
            # Its time begins here, so that a request that comes late in an idle connection is not cut short.
            self._idle = False
            self._wait()
        if self._at_the_door:
            self._early += data
        else:
            self.http.data_received(data)

    def eof_received(self) -> None:
        if not self._at_the_door:
            self.http.eof_received()

    def pause_writing(self) -> None:
        self.http.pause_writing()

    def resume_writing(self) -> None:
        self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._left(self)
        if not self._at_the_door:
            self.http.connection_lost(exc)

    async def _shake_hands(self, transport: asyncio.Transport, tls: SSLContext) -> None:
        """Who does not come to its end keeps us waiting as others do. Who speaks no TLS is hung up on."""
        try:
            secured = await self._loop.start_tls(transport, self, tls, server_side=True)
        except OSError:
            secured = None
        if secured is None or self._over:
            self.connection_lost(None)
        else:
            self._come_in(secured)

    def _come_in(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._at_the_door = False
        self.http.connection_made(transport)
        if self._early:  # what came with the last words of the handshake
            self.http.data_received(self._early)
            self._early = b""

    def _whole(self) -> None:
        # A body that comes in after the answer (a refusal) is no request to work on.
        if self._answering:
            self._rest()

    def _wait(self) -> None:
        """Anew. The timer that is set goes on: it sees when it rings how long there is still to wait."""
        if not self._over:
            self.waiting_since = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(self._patience, self._lose_patience)

    def _lose_patience(self) -> None:
        self._timer = None
        if self.waiting_since is None:
            return
        until = self.waiting_since + self._patience
        if self._loop.time() < until:
            self._timer = self._loop.call_at(until, self._lose_patience)
        else:
            self.hang_up()

    def _rest(self) -> None:
        self.waiting_since = None

    def _end(self) -> None:
        self._over = True
        self._rest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Refusal(asyncio.Protocol):
    """For whom there is no room: hung up on at once. SDKs come again a little later."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
