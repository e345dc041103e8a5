"""A connection to the engine's unix socket, which carries one request after another.

The SDK composes requests and judges the responses, which are of the class that it knows; llhttp parses them. The
layers of `requests` cost three to five times as much CPU: docs/decisions/0029.
"""

import re
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from threading import Lock
from typing import Protocol
from urllib.parse import urlencode

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from requests import Response
from requests.exceptions import ChunkedEncodingError, ReadTimeout, RequestException
from requests.exceptions import ConnectionError as NotConnected

Parameters = Mapping[str, str | int | None] | None

ALWAYS_SENT = ("Host: docker", "Accept-Encoding: identity")
UNSAYABLE = re.compile(r"[^\x21-\x7e]")  # characters that end a target, or that HTTP has no place for
WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
RECEIVE_SIZE = 2**16  # bytes


class Body(Protocol):
    """The body of a streamed response, as `requests` reads it."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and none at the end."""

    def close(self) -> None: ...


class _Parsed:
    """A response, parsed as its bytes are received. httptools calls the methods whose names begin with `on_`."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self.status = 0
        self.reason = ""
        #: Received and not read yet.
        self.body = bytearray()
        self.has_head = False
        self.is_whole = False
        #: Whether the connection may carry another request; known when the response is whole.
        self.keep_alive = False

    def receive(self) -> None:
        """Wait for more bytes. Raises OSError, HTTPException and HttpParserError."""
        received = self._connection.recv(RECEIVE_SIZE)
        if not received:
            raise IncompleteRead(bytes(self.body))
        assert self._parser is not None
        self._parser.feed_data(received)
        if self.is_whole:
            self._parser = None  # it refers to this object: without the cycle both are freed at once

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= HTTPStatus.OK
        self.keep_alive = self._parser.should_keep_alive()
        if not self.has_head:
            self.reason = ""  # a provisional response: the final one is still to come
        if self.status in WITHOUT_BODY:
            self.is_whole = True

    def on_body(self, received: bytes) -> None:
        self.body += received

    def on_message_complete(self) -> None:
        self.is_whole = self.has_head


class EngineConnection:
    """Connects when a request is made, and again after any error. No byte is waited for longer than `patience`."""

    def __init__(self, path: str, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._socket: socket | None = None
        self._readable = select.poll()
        self._streamed: StreamingBody | None = None

    def ask(self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]) -> Response:
        """Return the whole response. Raises the errors of `requests`."""
        try:
            parsed, _ = self._exchange(method, target, body, headers, self._patience)
            with _as_errors_of_requests(ChunkedEncodingError):
                while not parsed.is_whole:
                    parsed.receive()
        except BaseException:
            self.close()  # what is left of the response would be parsed as the next one
            raise
        if not parsed.keep_alive:
            self._disconnect()
        response = _response(target, parsed)
        response._content, response._content_consumed = bytes(parsed.body), True  # type: ignore[attr-defined]  # noqa: SLF001
        return response

    def open(self, target: str, *, patience: float | None = None) -> Response:
        """Return a response whose body is received as it is read, by any thread.

        The connection is free again when the body is at its end; until then another one is made for other requests.
        """
        try:
            wait = self._patience if patience is None else patience
            parsed, connection = self._exchange("GET", target, None, {}, wait)
        except BaseException:
            self.close()
            raise
        response = _response(target, parsed)
        response.raw = self._streamed = StreamingBody(parsed, connection)
        return response

    def close(self) -> None:
        self._take_back()
        self._disconnect()

    def _exchange(
        self, method: str, target: str, body: str | None, headers: Mapping[str, str], patience: float
    ) -> tuple[_Parsed, socket]:
        self._take_back()
        with _as_errors_of_requests(NotConnected):
            sent = request(method, target, body, headers)
            connection = self._connected(patience)
            connection.sendall(sent)
            parsed = _Parsed(connection)
            while not parsed.has_head:
                parsed.receive()
        return parsed, connection

    def _take_back(self) -> None:
        """The connection of a streamed body that is not at its end is left to the body's reader."""
        streamed, self._streamed = self._streamed, None
        if streamed is not None and not streamed.is_reusable:
            self._socket, self._readable = None, select.poll()
            streamed.own_connection()

    def _connected(self, patience: float) -> socket:
        """A connection that the engine closed is readable before anything is sent: a new one is made."""
        if self._socket is not None and self._readable.poll(0):
            self._disconnect()
        if self._socket is None:
            self._socket = socket(AF_UNIX, SOCK_STREAM)
            self._socket.settimeout(patience)
            self._socket.connect(self._path)
            self._readable.register(self._socket, select.POLLIN)
        elif self._socket.gettimeout() != patience:
            self._socket.settimeout(patience)
        return self._socket

    def _disconnect(self) -> None:
        connection, self._socket, self._readable = self._socket, None, select.poll()
        if connection is not None:
            connection.close()


class StreamingBody:
    """A body that one thread reads and any thread may close."""

    def __init__(self, parsed: _Parsed, connection: socket) -> None:
        self.connection = connection
        self._parsed = parsed
        self._reading = Lock()
        self._closed = False
        self._owns_connection = False

    @property
    def is_reusable(self) -> bool:
        return self._parsed.is_whole and self._parsed.keep_alive and not self._closed

    def own_connection(self) -> None:
        """From now on the connection is closed with the body, or at its end."""
        self._owns_connection = True
        if self._closed or self._parsed.is_whole:
            self.connection.close()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and none at the end."""
        with self._reading, _as_errors_of_requests(ChunkedEncodingError):
            while not self._parsed.body and not self._parsed.is_whole:
                self._receive()
            return self._take(size)

    def lines(self) -> Iterator[bytes]:
        """Each line as soon as it is received."""
        while line := self._line():
            yield line

    def close(self) -> None:
        """A thread that still reads is interrupted. At its end, the connection may carry another request by now."""
        self._closed = True  # before the next line: a connection that is shut down is not reused
        is_cut = not self._parsed.is_whole
        if is_cut:
            with suppress(OSError):
                self.connection.shutdown(SHUT_RDWR)
        if is_cut or self._owns_connection:
            with self._reading:
                self.connection.close()

    def _line(self) -> bytes:
        with self._reading, _as_errors_of_requests(ChunkedEncodingError):
            while (end := self._parsed.body.find(b"\n")) < 0:
                if self._parsed.is_whole:
                    if self._parsed.body:
                        raise IncompleteRead(bytes(self._parsed.body))
                    return b""
                self._receive()
            return self._take(end + 1)

    def _receive(self) -> None:
        self._parsed.receive()
        if self._parsed.is_whole and self._owns_connection:
            self.connection.close()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._parsed.body[:size])
        del self._parsed.body[:size]
        return taken


def request(method: str, target: str, body: str | None, headers: Mapping[str, str]) -> bytes:
    """The bytes of a request. Raises ValueError for a target or a header that HTTP cannot carry."""
    content = b"" if body is None else body.encode()
    lines = [*ALWAYS_SENT, *(f"{name}: {value}" for name, value in headers.items())]
    length = [] if body is None and method != "POST" else [f"Content-Length: {len(content)}"]
    if UNSAYABLE.search(target) or any("\r" in it or "\n" in it for it in lines):
        raise ValueError(f"Invalid header or target: {target!r}")
    return "\r\n".join((f"{method} {target} HTTP/1.1", *lines, *length, "", "")).encode() + content


def with_parameters(target: str, parameters: Parameters) -> str:
    given = {name: it for name, it in (parameters or {}).items() if it is not None}
    return f"{target}?{urlencode(given, doseq=True)}" if given else target


def _response(target: str, parsed: _Parsed) -> Response:
    response = Response()
    response.url, response.status_code, response.reason = target, parsed.status, parsed.reason.strip()
    response.encoding = "utf-8"
    return response


@contextmanager
def _as_errors_of_requests(broken: type[RequestException]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ReadTimeout(silence) from silence
    except (OSError, HTTPException, HttpParserError, HttpParserUpgrade, ValueError) as garbage:
        raise broken(garbage) from garbage
