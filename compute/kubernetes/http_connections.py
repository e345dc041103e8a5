"""HTTP/1.1 connections to the API server, each for one request after another.

A request is written in one piece, and llhttp parses its reply, for less than half of the CPU of aiohttp: decision 0121.
Streams and commands have connections of aiohttp, and Docker's connections are those of threads.

No request is repeated. After an error a connection is never used again.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from batchq.compute.kubernetes.connection import ClusterAccess
from batchq.errors import RuntimeUnknown, RuntimeUnreachable

CONNECT_TIMEOUT = 5.0  # seconds, with the handshake of TLS
REQUEST_TIMEOUT = 30.0  # seconds from the request to the end of its reply
KEEPALIVE = 60.0  # seconds for which an idle connection is kept; the API server closes it after 90
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
        self._reply: asyncio.Future[HttpReply] | None = None
        self._date: str | None = None
        self._body = bytearray()
        #: When its last reply was complete, by the clock of the event loop.
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._parser is None

    def send(self, request: bytes) -> asyncio.Future[HttpReply]:
        """Send a request. Its future gets OSError, HttpParserError or HttpParserUpgrade if no valid reply arrives."""
        assert self._transport is not None, "the connection is not made"
        self._parser, self._date, self._body = HttpResponseParser(self), None, bytearray()
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._reply

    def close(self) -> None:
        """Close at once: an orderly end of TLS would wait for the server."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), transport
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            if self._parser is None:
                self.close()  # no request expects these bytes
            else:
                self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(exc or ConnectionResetError("the API server closed the connection"))

    def on_header(self, name: bytes, text: bytes) -> None:
        if name.lower() == b"date":
            self._date = text.decode("latin-1")

    def on_body(self, received: bytes) -> None:
        self._body += received

    def on_message_complete(self) -> None:
        parser, reply = self._parser, self._reply
        if parser is None or reply is None or parser.get_status_code() < FINAL_STATUS:
            return
        self._parser, self._reply = None, None
        self.idle_since = asyncio.get_running_loop().time()
        if not parser.should_keep_alive():
            self.close()
        if not reply.done():
            reply.set_result(HttpReply(status=parser.get_status_code(), content=bytes(self._body), date=self._date))

    def _fail(self, error: Exception) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(error)


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
            async with asyncio.timeout(REQUEST_TIMEOUT):
                reply = await connection.send(request)
        except (OSError, HttpParserError, HttpParserUpgrade) as error:
            raise RuntimeUnknown(f"{call}: {str(error) or type(error).__name__}") from error
        finally:
            if connection.is_usable:
                self._idle.append(connection)
            else:
                connection.close()
        return reply

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> _Connection | None:
        """The connection that was used last, so that the others become old; None: none can be used."""
        oldest = asyncio.get_running_loop().time() - KEEPALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

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
