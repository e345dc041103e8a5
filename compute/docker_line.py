"""A connection to the engine's unix socket, and one request after another on it.

The SDK says what is asked, and judges the answer, which is of the kind that it knows. Between the two `requests` and
what is below it spend six times as much: docs/performance.md.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from typing import Protocol
from urllib.parse import urlencode

from requests import Response
from requests.exceptions import ChunkedEncodingError, ReadTimeout
from requests.exceptions import ConnectionError as NotConnected
from urllib3.util.wait import wait_for_read

Parameters = Mapping[str, str | int | None] | None

LONGEST_LINE = 65_536  # bytes of what is not content
MOST_HEADERS = 100
WITHOUT_CONTENT = (204, 304)
HEAD = "{method} {target} HTTP/1.1\r\nHost: docker\r\n{headers}Content-Length: {length}\r\n\r\n"


class Content(Protocol):
    """As `requests` reads it: at most so many bytes, none at the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """`last`: nothing comes after it on this connection."""

    status: int
    reason: str
    content: Content
    last: bool


class Line:
    """It waits for no byte longer than its patience, and is connected anew after whatever went wrong on it."""

    def __init__(self, path: str, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._socket: socket | None = None
        self._heard: BufferedReader | None = None

    def ask(self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]) -> Response:
        """The whole answer. Raises what `requests` would."""
        try:
            with _as_requests_says():
                told = self._told(method, target, body or "", headers)
                answer = _answer(target, told)
                _ = answer.content
        except BaseException:
            self.close()  # or what is left of it would be taken for the next answer
            raise
        if told.last:
            self.close()
        return answer

    def open(self, target: str) -> Response:
        """An answer that is read as it comes, by whichever thread, and whose connection goes with it."""
        try:
            with _as_requests_says():
                answer = _answer(target, self._told("GET", target, "", {}))
        except BaseException:
            self.close()
            raise
        answer.raw = _Alone(self, answer.raw)
        return answer

    def close(self) -> None:
        """Whoever still reads in another thread is let go."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)
            self._socket.close()
        if self._heard is not None:
            self._heard.close()
        self._heard = self._socket = None

    def _told(self, method: str, target: str, body: str, headers: Mapping[str, str]) -> Told:
        content = body.encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = HEAD.format(method=method, target=target, headers=lines, length=len(content))
        return _told(self._connected(head.encode("latin-1") + content))

    def _connected(self, said: bytes) -> BufferedReader:
        """To an engine that is back nothing was said yet."""
        if self._socket is not None and wait_for_read(self._socket, timeout=0.0):
            self.close()
        if self._socket is None or self._heard is None:
            self._socket = socket(AF_UNIX, SOCK_STREAM)
            self._socket.settimeout(self._patience)
            self._socket.connect(self._path)
            self._heard = self._socket.makefile("rb")
        self._socket.sendall(said)
        return self._heard


class _Alone:
    """Content that has its connection for itself."""

    def __init__(self, line: Line, content: Content) -> None:
        self._line = line
        self._content = content

    def read(self, size: int) -> bytes:
        with _as_requests_says():
            read = self._content.read(size)
        if not read:
            self.close()
        return read

    def close(self) -> None:
        self._line.close()


class _Measured:
    def __init__(self, heard: BufferedReader, length: int) -> None:
        self._heard = heard
        self._left = length

    def read(self, size: int) -> bytes:
        read = self._heard.read(min(size, self._left))
        self._left -= len(read)
        if not read and self._left:
            raise _Garbage(f"{self._left} bytes of it are missing")
        return read


class _Chunked:
    def __init__(self, heard: BufferedReader) -> None:
        self._heard = heard
        self._left: int | None = 0  # of this chunk; None after the last

    def read(self, size: int) -> bytes:
        if self._left == 0:
            self._begin()
        if self._left is None:
            return b""
        read = self._heard.read(min(size, self._left))
        self._left -= len(read)
        if not read:
            raise _Garbage("it breaks off")
        if self._left == 0:
            _line(self._heard)
        return read

    def _begin(self) -> None:
        self._left = _number(_line(self._heard).split(b";")[0], base=16) or None
        while self._left is None and _line(self._heard):
            pass  # trailers


class _Garbage(Exception):
    """What no engine says."""


def with_parameters(target: str, parameters: Parameters) -> str:
    said = {name: it for name, it in (parameters or {}).items() if it is not None}
    return f"{target}?{urlencode(said, doseq=True)}" if said else target


def _answer(target: str, told: Told) -> Response:
    answer = Response()
    answer.url, answer.encoding = target, "utf-8"
    answer.status_code, answer.reason, answer.raw = told.status, told.reason, told.content
    return answer


def _told(heard: BufferedReader) -> Told:
    version, _, rest = _line(heard).partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise _Garbage(f"it begins with {version!r}"[:100])
    status, _, reason = rest.partition(b" ")
    headers = dict(_headers(heard))
    content = _content(heard, _number(status, base=10), headers)
    last = content is heard or version.endswith(b".0") or headers.get(b"connection", b"").lower() == b"close"
    return Told(status=int(status), reason=reason.decode("latin-1"), content=content, last=last)


def _content(heard: BufferedReader, status: int, headers: Mapping[bytes, bytes]) -> Content:
    if status in WITHOUT_CONTENT:
        return _Measured(heard, 0)
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return _Chunked(heard)
    if b"content-length" in headers:
        return _Measured(heard, _number(headers[b"content-length"], base=10))
    return heard


def _headers(heard: BufferedReader) -> Iterator[tuple[bytes, bytes]]:
    for _ in range(MOST_HEADERS):
        line = _line(heard)
        if not line:
            return
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()
    raise _Garbage("there are too many headers")


def _line(heard: BufferedReader) -> bytes:
    line = heard.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise _Garbage("it breaks off")
    return line.rstrip(b"\r\n")


def _number(word: bytes, *, base: int) -> int:
    """Without a sign."""
    try:
        number = int(word, base)
    except ValueError as wrong:
        raise _Garbage(f"{word[:100]!r} is no number") from wrong
    if not word.isalnum():
        raise _Garbage(f"{word[:100]!r} is no number")
    return number


@contextmanager
def _as_requests_says() -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ReadTimeout(silence) from silence
    except _Garbage as garbage:
        raise ChunkedEncodingError(garbage) from garbage
    except OSError as broken:
        raise NotConnected(broken) from broken
