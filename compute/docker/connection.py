"""HTTP/1.1 over the engine's unix socket: one connection that carries one request after another.

The Docker SDK composes the requests and interprets the responses, which are `requests.Response` objects as it expects;
llhttp parses them. The layers of `requests` cost three to five times as much CPU: docs/decisions/0029.
"""

import re
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from threading import Lock
from urllib.parse import urlencode

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from requests import Response
from requests.exceptions import ChunkedEncodingError, ReadTimeout, RequestException
from requests.exceptions import ConnectionError as NotConnected

Headers = Mapping[str, str | bytes]
Parameters = Mapping[str, str | int | None] | None

NO_HEADERS: Headers = {}
ALWAYS_SENT = ("Host: docker", "Accept-Encoding: identity")
INVALID_IN_TARGET = re.compile(r"[^\x21-\x7e]")  # ends a request target, or is not allowed in it by HTTP
BODILESS_STATUSES = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
RECEIVE_SIZE = 2**16  # bytes


class _ParsedResponse:
    """A response, parsed as its bytes are received. httptools calls the methods whose names begin with `on_`."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        #: The status code; 0 before `has_headers`.
        self.status = 0
        self.reason = ""
        #: The bytes of the body that were received and not read yet.
        self.body = bytearray()
        #: Whether the status line and all headers of the final response were received.
        self.has_headers = False
        #: Whether the complete response was received.
        self.is_complete = False
        #: Whether the connection may carry another request; only valid once the response is complete.
        self.keep_alive = False

    def receive(self) -> None:
        """Wait for more bytes and parse them. Raises OSError, HTTPException and HttpParserError."""
        received = self._connection.recv(RECEIVE_SIZE)
        if not received:
            raise IncompleteRead(bytes(self.body))
        assert self._parser is not None
        self._parser.feed_data(received)
        if self.is_complete:
            self._parser = None  # it refers to this object: without the cycle no garbage collection is needed

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self.has_headers = self.status >= HTTPStatus.OK
        self.keep_alive = self._parser.should_keep_alive()
        if not self.has_headers:
            self.reason = ""  # a provisional response (1xx): the final one follows
        if self.status in BODILESS_STATUSES:
            self.is_complete = True

    def on_body(self, received: bytes) -> None:
        self.body += received

    def on_message_complete(self) -> None:
        self.is_complete = self.has_headers


class EngineConnection:
    """A connection for one thread, made with the first request, and again after any error."""

    def __init__(self, path: str, *, receive_timeout: float) -> None:
        """`path` is that of the socket; `receive_timeout` is the timeout of each send and receive, in seconds."""
        self._path = path
        self._receive_timeout = receive_timeout
        #: None: not connected.
        self._socket: socket | None = None
        self._readable = select.poll()
        #: The body of the last streamed response, which may still occupy the connection.
        self._streamed: StreamingBody | None = None

    def request(self, method: str, target: str, *, body: str | bytes | None, headers: Headers) -> Response:
        """Return the whole response. Raises the errors of `requests`."""
        try:
            parsed, _ = self._exchange(method, target, body, headers, self._receive_timeout)
            with _as_requests_errors(ChunkedEncodingError):
                while not parsed.is_complete:
                    parsed.receive()
        except BaseException:
            self.close()  # the rest of the response would be parsed as the next one
            raise
        if not parsed.keep_alive:
            self._disconnect()
        response = _response(target, parsed)
        response._content, response._content_consumed = bytes(parsed.body), True  # type: ignore[attr-defined]  # noqa: SLF001
        return response

    def open_stream(
        self,
        method: str,
        target: str,
        *,
        body: str | bytes | None = None,
        headers: Headers = NO_HEADERS,
        receive_timeout: float | None = None,
    ) -> Response:
        """Send a request, and return its response with a `StreamingBody` as `raw`. Raises the errors of `requests`.

        The connection is reused once the body has been received to its end; requests made before that use a new one.
        `receive_timeout` replaces that of the connection, in seconds.
        """
        try:
            timeout = self._receive_timeout if receive_timeout is None else receive_timeout
            parsed, connection = self._exchange(method, target, body, headers, timeout)
        except BaseException:
            self.close()
            raise
        response = _response(target, parsed)
        response.raw = self._streamed = StreamingBody(parsed, connection)
        return response

    def close(self) -> None:
        """Close the connection, unless a streamed body is still being read. A later request reconnects."""
        self._reclaim()
        self._disconnect()

    def abort(self) -> None:
        """Shut down the connection; from any thread. A request or a stream in progress fails."""
        connection = self._socket
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)

    def _exchange(
        self, method: str, target: str, body: str | bytes | None, headers: Headers, receive_timeout: float
    ) -> tuple[_ParsedResponse, socket]:
        self._reclaim()
        with _as_requests_errors(NotConnected):
            encoded = encode_request(method, target, body, headers)
            connection = self._connect(receive_timeout)
            connection.sendall(encoded)
            parsed = _ParsedResponse(connection)
            while not parsed.has_headers:
                parsed.receive()
        return parsed, connection

    def _reclaim(self) -> None:
        """Reclaim the connection from the last streamed body; a body that is not at its end takes ownership of it."""
        streamed, self._streamed = self._streamed, None
        if streamed is not None and not streamed.is_reusable:
            self._socket, self._readable = None, select.poll()
            streamed.own_connection()

    def _connect(self, receive_timeout: float) -> socket:
        """Return an open connection with this timeout.

        A connection that is readable before a request is sent was closed by the engine, and is replaced.
        """
        if self._socket is not None and self._readable.poll(0):
            self._disconnect()
        if self._socket is None:
            self._socket = socket(AF_UNIX, SOCK_STREAM)
            self._socket.settimeout(receive_timeout)
            self._socket.connect(self._path)
            self._readable.register(self._socket, select.POLLIN)
        elif self._socket.gettimeout() != receive_timeout:
            self._socket.settimeout(receive_timeout)
        return self._socket

    def _disconnect(self) -> None:
        connection, self._socket, self._readable = self._socket, None, select.poll()
        if connection is not None:
            connection.close()


class StreamingBody:
    """The body of a streamed response. One thread reads it; any thread may close it."""

    def __init__(self, parsed: _ParsedResponse, connection: socket) -> None:
        self.connection = connection
        self._parsed = parsed
        #: Held while the connection is read.
        self._reading = Lock()
        self._closed = False
        #: Whether the body closes the connection.
        self._owns_connection = False

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self._parsed.is_complete and self._parsed.keep_alive and not self._closed

    def own_connection(self) -> None:
        """Take ownership of the connection: it is closed at the end of the body, or when the body is closed."""
        self._owns_connection = True
        if self._closed or self._parsed.is_complete:
            self.connection.close()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; b"" at the end of the body. Raises the errors of `requests`."""
        with self._reading, _as_requests_errors(ChunkedEncodingError):
            while not self._parsed.body and not self._parsed.is_complete:
                self._receive()
            return self._take(size)

    def lines(self) -> Iterator[bytes]:
        """Yield each line, with its newline, when it is received. Raises the errors of `requests`."""
        while line := self._line():
            yield line

    def close(self) -> None:
        """Close the body, and interrupt a thread that reads it.

        A connection whose body was received to its end is left open, as it may already carry another request.
        """
        self._closed = True  # before the next line: a connection that is shut down is not reused
        is_incomplete = not self._parsed.is_complete
        if is_incomplete:
            with suppress(OSError):
                self.connection.shutdown(SHUT_RDWR)
        if is_incomplete or self._owns_connection:
            with self._reading:
                self.connection.close()

    def _line(self) -> bytes:
        """The next line; b"" at the end of the body."""
        with self._reading, _as_requests_errors(ChunkedEncodingError):
            while (end := self._parsed.body.find(b"\n")) < 0:
                if self._parsed.is_complete:
                    end = len(self._parsed.body)
                    break
                self._receive()
            return self._take(end + 1)

    def _receive(self) -> None:
        self._parsed.receive()
        if self._parsed.is_complete and self._owns_connection:
            self.connection.close()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._parsed.body[:size])
        del self._parsed.body[:size]
        return taken


def encode_request(method: str, target: str, body: str | bytes | None, headers: Headers) -> bytes:
    """Encode a request. Raises ValueError for a target or a header with characters that HTTP does not allow."""
    content = body.encode() if isinstance(body, str) else body or b""
    texts = {name: value.decode() if isinstance(value, bytes) else value for name, value in headers.items()}
    lines = [*ALWAYS_SENT, *(f"{name}: {text}" for name, text in texts.items())]
    length = [] if body is None and method != "POST" else [f"Content-Length: {len(content)}"]
    if INVALID_IN_TARGET.search(target) or any("\r" in line or "\n" in line for line in lines):
        raise ValueError(f"Invalid header or target: {target!r}")
    return "\r\n".join((f"{method} {target} HTTP/1.1", *lines, *length, "", "")).encode() + content


def with_query(target: str, parameters: Parameters) -> str:
    """Append a query string to `target`; parameters with the value None are omitted."""
    query = {name: value for name, value in (parameters or {}).items() if value is not None}
    return f"{target}?{urlencode(query, doseq=True)}" if query else target


def _response(target: str, parsed: _ParsedResponse) -> Response:
    response = Response()
    response.url, response.status_code, response.reason = target, parsed.status, parsed.reason.strip()
    response.encoding = "utf-8"
    return response


@contextmanager
def _as_requests_errors(error_type: type[RequestException]) -> Iterator[None]:
    """Translate timeouts to ReadTimeout, and other errors of the connection or the parser to `error_type`."""
    try:
        yield
    except TimeoutError as error:
        raise ReadTimeout(error) from error
    except (OSError, HTTPException, HttpParserError, HttpParserUpgrade, ValueError) as error:
        raise error_type(error) from error
