"""A connection to the engine's unix socket, and one request after another on it.

The SDK says what is asked, and judges the answer, which is of the kind that it knows; `http.client` carries both.
`requests` and what is below it spend three to four times as much: docs/decisions/0029.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from io import BytesIO
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from threading import Lock
from typing import Protocol
from urllib.parse import urlencode

from requests import Response
from requests.exceptions import ChunkedEncodingError, ReadTimeout, RequestException
from requests.exceptions import ConnectionError as NotConnected
from urllib3.util.wait import wait_for_read

from compute.docker_head import Answer

Parameters = Mapping[str, str | int | None] | None


class Content(Protocol):
    """As `requests` reads it: at most so many bytes, none at the end."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class Line:
    """It waits for no byte longer than its patience, and is connected anew after whatever went wrong on it."""

    def __init__(self, path: str, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._connection = _Connection(path, patience)
        self._lent: _Lent | None = None

    def ask(self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]) -> Response:
        """The whole answer. Raises what `requests` would."""
        try:
            told = self._told(method, target, body, headers)
            with _as_requests_says(ChunkedEncodingError):
                content = told.read()
        except BaseException:
            self.close()  # or what is left of it would be taken for the next answer
            raise
        return _answer(target, told, BytesIO(content))

    def open(self, target: str) -> Response:
        """An answer that is read as it comes, by whichever thread. Until its end it has the connection for itself."""
        try:
            told = self._told("GET", target, None, {})
        except BaseException:
            self.close()
            raise
        self._lent = _Lent(told, self._connection.way)
        return _answer(target, told, self._lent)

    def close(self) -> None:
        self._take_back()
        self._connection.close()
        self._connection = _Connection(self._path, self._patience)  # the old one keeps what was not said to its end

    def _take_back(self) -> None:
        """A connection that is still read from is left to who reads it."""
        if self._lent is not None and not self._lent.at_its_end:
            self._lent.way.close()  # as soon as it has been read
            self._connection = _Connection(self._path, self._patience)
        self._lent = None

    def _told(self, method: str, target: str, body: str | None, headers: Mapping[str, str]) -> HTTPResponse:
        self._take_back()
        if self._connection.sock is not None and wait_for_read(self._connection.sock, timeout=0.0):
            self.close()  # the engine has hung up: to an engine that is back nothing was said yet
        with _as_requests_says(NotConnected):
            self._connection.request(method, target, None if body is None else body.encode(), headers)
            return self._connection.getresponse()


class _Connection(HTTPConnection):
    response_class = Answer

    def __init__(self, path: str, patience: float) -> None:
        super().__init__("docker", timeout=patience)
        self._path = path
        self.way: socket

    def connect(self) -> None:
        self.sock = self.way = socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Lent:
    """Content that is read from a connection, which is the line's again when that has come to its end."""

    def __init__(self, told: HTTPResponse, way: socket) -> None:
        self.way = way
        self._told = told
        self._whole = self._left = False
        self._reading = Lock()

    @property
    def at_its_end(self) -> bool:
        return self._whole and not self._left

    def read(self, size: int, /) -> bytes:
        with self._reading, _as_requests_says(ChunkedEncodingError):
            read = self._told.read(size)
            if not read and self._told.length:
                raise IncompleteRead(read, self._told.length)
        self._whole = self._told.isclosed()  # also what goes wrong may close it, and nobody knows what comes then
        return read

    def lines(self) -> Iterator[bytes]:
        """Each as soon as it has come."""
        while line := self._line():
            yield line

    def close(self) -> None:
        """Whoever still reads in another thread is let go. Read to its end, the connection may be another's by now."""
        if self._told.isclosed():
            return
        self._left = True
        if not self._told.isclosed():
            with suppress(OSError):
                self.way.shutdown(SHUT_RDWR)
        with self._reading:
            self._told.close()

    def _line(self) -> bytes:
        with self._reading, _as_requests_says(ChunkedEncodingError):
            line = self._told.readline()
            if line and not line.endswith(b"\n"):
                raise IncompleteRead(line)
        return line


def with_parameters(target: str, parameters: Parameters) -> str:
    said = {name: it for name, it in (parameters or {}).items() if it is not None}
    return f"{target}?{urlencode(said, doseq=True)}" if said else target


def _answer(target: str, told: HTTPResponse, content: Content) -> Response:
    answer = Response()
    answer.url, answer.encoding = target, "utf-8"
    answer.status_code, answer.reason, answer.raw = told.status, told.reason, content
    return answer


@contextmanager
def _as_requests_says(broken: type[RequestException]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ReadTimeout(silence) from silence
    except (OSError, HTTPException, ValueError, OverflowError, MemoryError) as garbage:  # also a length that cannot be
        raise broken(garbage) from garbage
