"""HTTP/1.1 connections to the API server, each for one request after another.

A request is written in one piece, and llhttp parses its reply, for less than half of the CPU of aiohttp: decision 0121.
Commands have connections of aiohttp, which has WebSockets, and Docker's connections are those of threads.

No request is repeated. After an error a connection is never used again.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from batchq.compute.kubernetes.connection import ClusterAccess
from batchq.errors import RuntimeUnknown, RuntimeUnreachable

CONNECT_TIMEOUT = 5.0  # seconds, with the handshake of TLS
REQUEST_TIMEOUT = 30.0  # seconds from the request to the end of its reply, or to the head of a followed log
KEEPALIVE = 60.0  # seconds for which an idle connection is kept; the API server closes it after 90
MAX_UNREAD = 2**18  # bytes of a stream that wait in memory, before no more is received
FINAL_STATUS = 200  # the first one; a provisional response (1xx) comes before the final one
INVALID_IN_HEAD = re.compile(r"[^\x20-\x7e]")

Query = Mapping[str, str] | Sequence[tuple[str, str]]


class HttpReply(Struct, frozen=True, kw_only=True):
    """A complete reply."""

    status: int
    content: bytes
    #: The header `Date`; None if the reply does not have it.
    date: str | None


class _Connection(asyncio.Protocol):
    """One connection. httptools calls the methods whose names begin with `on_`."""

    def __init__(self) -> None:
        #: None: not connected.
        self._transport: asyncio.Transport | None = None
        #: The parser of the reply that is expected; None: no request was sent since the last reply.
        self._parser: HttpResponseParser | None = None
        #: Why no more of the reply arrives; None: nothing has failed.
        self._error: Exception | None = None
        #: Of the request whose reply is expected; None: it does not wait.
        self._waiter: asyncio.Future[None] | None = None
        #: Whether the request waits for each piece of its reply, not only for its end.
        self._is_streamed = False
        #: Whether no more is received until the body has been taken.
        self._is_paused = False
        #: Of the reply; 0: not known yet.
        self.status = 0
        self.date: str | None = None
        self._body = bytearray()
        #: When something was sent or received last, by the clock of the event loop.
        self.active_at = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._parser is None and not self._is_paused

    def send(self, request: bytes, *, is_streamed: bool) -> None:
        """Send a request, whose reply is waited for by `wait_for_end`, or by `wait_for_status` and `read`."""
        assert self._transport is not None, "the connection is not made"
        self._parser, self._is_streamed = HttpResponseParser(self), is_streamed
        self.status, self.date, self._body = 0, None, bytearray()
        self.active_at = asyncio.get_running_loop().time()
        self._transport.write(request)

    async def wait_for_end(self) -> bytes:
        """The body of the reply. Raises OSError, HttpParserError or HttpParserUpgrade if no valid reply arrives."""
        while self._parser is not None:
            await self._wait()
        return bytes(self._body)

    async def wait_for_status(self) -> None:
        """Wait for the head of a streamed reply. Raises as `wait_for_end`."""
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """What has arrived of the body since the last call; empty: the reply has ended. Raises as `wait_for_end`."""
        while not self._body and self._parser is not None:
            await self._wait()
        piece = bytes(self._body)
        self._body.clear()
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    def fail_if_silent(self, seconds: float) -> float:
        """End the connection if nothing has arrived for so many seconds. Returns after how many to check again."""
        now = asyncio.get_running_loop().time()
        if self._is_paused:
            self.active_at = now
        left = self.active_at + seconds - now
        if left <= 0:
            self._fail(TimeoutError(f"nothing has arrived for {seconds:g} s"))
            self.close()
        return max(left, 0.0)

    def close(self) -> None:
        """Close at once: an orderly end of TLS would wait for the server."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), transport
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.active_at = asyncio.get_running_loop().time()
        try:
            if self._parser is None:
                self.close()  # no request expects these bytes
            else:
                self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(error)
            self.close()
        if self._is_streamed or self._parser is None:
            self._wake()
        if self._is_streamed and len(self._body) >= MAX_UNREAD and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(exc or ConnectionResetError("the API server closed the connection"))

    def on_header(self, name: bytes, text: bytes) -> None:
        if name.lower() == b"date":
            self.date = text.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser is not None and self._parser.get_status_code() >= FINAL_STATUS:
            self.status = self._parser.get_status_code()

    def on_body(self, received: bytes) -> None:
        self._body += received

    def on_message_complete(self) -> None:
        if self._parser is None or not self.status:
            return
        if not self._parser.should_keep_alive():
            self.close()
        self._parser = None

    async def _wait(self) -> None:
        """Wait until more has arrived."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._wake()


class HttpStream:
    """A reply that is read as it arrives."""

    def __init__(self, call: str, connection: _Connection) -> None:
        self._call = call
        self._connection = connection
        self.status = connection.status

    async def read(self) -> bytes:
        """What has arrived since the last call; empty: the reply has ended. Raises RuntimeUnknown."""
        with _translated(self._call):
            return await self._connection.read()

    async def content(self) -> bytes:
        """The whole reply. Raises RuntimeUnknown."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """The reply in pieces as it arrives. Raises RuntimeUnknown."""
        while piece := await self.read():
            yield piece


class HttpConnections:
    """The connections to one API server. One is made when no idle one exists."""

    def __init__(self, cluster: ClusterAccess) -> None:
        url = urlsplit(cluster.server)
        self._cluster = cluster
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        #: The header `Host`, and the beginning of all paths.
        self._authority, self._base = url.netloc, url.path
        #: Idle connections; the most recently used connection is last.
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, path: str, query: Query, *, headers: Mapping[str, str], data: bytes | None
    ) -> HttpReply:
        """Raises RuntimeUnreachable if the request was not sent, and RuntimeUnknown if no valid reply arrived."""
        call = f"{method} {path}"
        request = self._encode(method, path, query, headers, data)
        connection = self._take_idle() or await self._connect(call)
        try:
            with _translated(call):
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    connection.send(request, is_streamed=False)
                    content = await connection.wait_for_end()
        finally:
            self._give_back(connection)
        return HttpReply(status=connection.status, content=content, date=connection.date)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, headers: Mapping[str, str], silence: float | None
    ) -> AsyncIterator[HttpStream]:
        """A GET request whose reply is read as it arrives. Raises as `request`.

        `silence`: seconds without a byte after which RuntimeUnknown is raised. None: REQUEST_TIMEOUT until the head of
        the reply, and no limit after it. A kubelet sends the head of a followed log at once.
        """
        call = f"GET {path}"
        request = self._encode("GET", path, query, headers, None)
        connection = self._take_idle() or await self._connect(call)
        timer: asyncio.TimerHandle | None = None

        def check(seconds: float) -> None:
            nonlocal timer
            if left := connection.fail_if_silent(seconds):
                timer = asyncio.get_running_loop().call_later(left, check, seconds)

        try:
            connection.send(request, is_streamed=True)
            if silence is not None:
                check(silence)
            with _translated(call):
                async with asyncio.timeout(REQUEST_TIMEOUT if silence is None else None):
                    await connection.wait_for_status()
            yield HttpStream(call, connection)
        finally:
            if timer is not None:
                timer.cancel()
            self._give_back(connection)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> _Connection | None:
        """The connection that was used last, so that the others become old; None: none can be used."""
        oldest = asyncio.get_running_loop().time() - KEEPALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.active_at >= oldest:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: _Connection) -> None:
        """Keep the connection for another request if the reply is complete."""
        if connection.is_usable:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connect(self, call: str) -> _Connection:
        """Raises RuntimeUnreachable."""
        tls: dict[str, Any] = {}
        if self._cluster.tls is not None:
            tls = {"ssl": self._cluster.tls, "server_hostname": self._cluster.tls_name or self._host}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, connection = await loop.create_connection(_Connection, self._host, self._port, **tls)
        except OSError as error:
            raise RuntimeUnreachable(f"{call}: {str(error) or type(error).__name__}") from error
        return connection

    def _encode(self, method: str, path: str, query: Query, headers: Mapping[str, str], data: bytes | None) -> bytes:
        """Raises RuntimeUnreachable for characters that HTTP does not allow."""
        target = f"{self._base}{path}?{urlencode(query)}" if query else f"{self._base}{path}"
        length = {} if data is None else {"Content-Length": str(len(data))}
        fields = {"Host": self._authority, **headers, **length}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
        if " " in target or any(INVALID_IN_HEAD.search(line) for line in lines):
            raise RuntimeUnreachable(f"{method} {path}: a header or the path has characters that HTTP does not allow")
        return "\r\n".join((*lines, "", "")).encode() + (data or b"")


@contextmanager
def _translated(call: str) -> Iterator[None]:
    """Raise RuntimeUnknown if a connection has failed."""
    try:
        yield
    except (OSError, HttpParserError, HttpParserUpgrade) as error:
        raise RuntimeUnknown(f"{call}: {str(error) or type(error).__name__}") from error
