"""A connection to the engine's unix socket, and one request after another on it.

The SDK says what is asked, and judges the answer, which is of the kind that it knows; `http.client` reads it.
`requests` and what is below it spend three to four times as much: docs/decisions/0029.

The head of the engine's answers, for `http.client`, which has a parser of mails read it: half of what a call costs.

Only what says where the content ends is made use of. What is no head is an error, and never guessed at: a wrong end
would give the next question the rest of this one's answer.
"""

import re
import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import NO_CONTENT, NOT_MODIFIED, SWITCHING_PROTOCOLS, HTTPException, HTTPResponse, IncompleteRead
from itertools import islice
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from threading import Lock
from typing import Protocol
from urllib.parse import urlencode

from requests import Response
from requests.exceptions import ChunkedEncodingError, ReadTimeout, RequestException
from requests.exceptions import ConnectionError as NotConnected

NEW_LINE, END = b"\r\n", b"\r\n\r\n"

LONGEST_LINE, MOST_HEADERS = 65_536, 100

STATUSES = range(100, 600)

PROVISIONAL = range(100, 200)  # the answer is still to come

LONGEST_SHOWN = 100  # characters of what is no head

WITHOUT_CONTENT = frozenset({NO_CONTENT, NOT_MODIFIED})


class Answer(HTTPResponse):
    """Its content is read by `http.client`. Its headers are not kept."""

    def begin(self) -> None:
        version, status, reason, headers = self._head()
        while status in PROVISIONAL:
            version, status, reason, headers = self._head()
        self.status, self.reason = status, reason
        is_empty = status in WITHOUT_CONTENT
        self.chunked, self.chunk_left = _is_chunked(headers) and not is_empty, None
        self.length = 0 if is_empty else None if self.chunked else _length(headers)
        says_last = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
        self.will_close = says_last or (self.length is None and not self.chunked)

    def _head(self) -> tuple[str, int, str, dict[str, str]]:
        first, *rest = self._lines()
        return (*_of_first(first), _headers(rest))

    def _lines(self) -> list[str]:
        """Of the head. Most often all of them come at once."""
        seen: bytes = self.fp.peek()
        head, end, _ = seen.partition(END)
        lines = head.split(NEW_LINE)
        if not (end and head.count(b"\r") == head.count(b"\n") == len(lines) - 1):
            return [self._line(), *islice(iter(self._line, ""), MOST_HEADERS + 1)]
        self.fp.read(len(head) + len(END))
        return [line.decode("latin-1") for line in lines]

    def _line(self) -> str:
        line: bytes = self.fp.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise HTTPException(f"a head that breaks off, or has no end: {line!r}"[:LONGEST_SHOWN])
        return line.rstrip(b"\r\n").decode("latin-1")


def _of_first(line: str) -> tuple[str, int, str]:
    version, _, rest = line.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not status.isdecimal() or int(status) not in STATUSES:
        raise HTTPException(f"an answer that begins with {line!r}"[:LONGEST_SHOWN])
    if int(status) == SWITCHING_PROTOCOLS:
        raise HTTPException("an answer by another protocol, which nobody asked for")
    return version, int(status), reason.strip()


def _headers(lines: Sequence[str]) -> dict[str, str]:
    """By their names in small letters; what is said twice, one after another."""
    if len(lines) > MOST_HEADERS:
        raise HTTPException(f"more than {MOST_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise HTTPException(f"a header that is none: {line!r}"[:LONGEST_SHOWN])
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def answer_on(way: socket) -> Answer:
    """The next one on the way, as far as its content."""
    answer = Answer(way)
    try:
        answer.begin()
    except BaseException:
        answer.close()  # or it would keep the way open
        raise
    return answer


def _is_chunked(headers: dict[str, str]) -> bool:
    way = headers.get("transfer-encoding", "chunked")
    if way.lower() != "chunked":
        raise HTTPException(f"a content that comes by {way!r}"[:LONGEST_SHOWN])
    return "transfer-encoding" in headers


def _length(headers: dict[str, str]) -> int | None:
    length = headers.get("content-length")
    if length is None:
        return None
    if not length.isascii() or not length.isdecimal():
        raise HTTPException(f"a content of {length!r} bytes"[:LONGEST_SHOWN])
    return int(length)


Parameters = Mapping[str, str | int | None] | None

EACH_SAYS = ("Host: docker", "Accept-Encoding: identity")

BLANK = vars(Response()) | {"encoding": "utf-8"}  # to make one is slow: it has a jar of cookies, and that a lock

UNSAYABLE = re.compile(r"[^\x21-\x7e]")  # in a target: it would end there, or is none of HTTP


class Content(Protocol):
    """As `requests` reads it: at most so many bytes, none at the end."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class Line:
    """It waits for no byte longer than its patience, and is connected anew after whatever went wrong on it."""

    def __init__(self, path: str, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._way: socket | None = None
        self._news = select.poll()
        self._lent: _Lent | None = None

    def ask(self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]) -> Response:
        """The whole answer. Raises what `requests` would."""
        try:
            told, _ = self._told(method, target, body, headers)
            with _as_requests_says(ChunkedEncodingError), closing(told):
                content = told.read()
        except BaseException:
            self.close()  # or what is left of it would be taken for the next answer
            raise
        return _answer(target, told, _content=content, _content_consumed=True)

    def open(self, target: str, *, patience: float | None = None) -> Response:
        """An answer that is read as it comes, by whichever thread. Until its end it has the connection for itself."""
        try:
            told, way = self._told("GET", target, None, {}, patience)
        except BaseException:
            self.close()
            raise
        self._lent = _Lent(told, way)
        return _answer(target, told, raw=self._lent)

    def close(self) -> None:
        self._take_back()
        self._hang_up()

    def _take_back(self) -> None:
        """A connection that is still read from is left to who reads it."""
        if self._lent is not None and not self._lent.at_its_end:
            self._hang_up()  # as soon as it has been read
        self._lent = None

    def _told(
        self, method: str, target: str, body: str | None, headers: Mapping[str, str], patience: float | None = None
    ) -> tuple[Answer, socket]:
        self._take_back()
        with _as_requests_says(NotConnected):
            said = request(method, target, body, headers)
            way = self._connected(self._patience if patience is None else patience)
            way.sendall(said)
            told = answer_on(way)
        if told.will_close:
            self._hang_up()
        return told, way

    def _connected(self, patience: float) -> socket:
        """An engine that has hung up, and is back, was told nothing yet."""
        if self._way is not None and self._news.poll(0):
            self._hang_up()
        if self._way is None:
            self._way = socket(AF_UNIX, SOCK_STREAM)
            self._way.settimeout(patience)
            self._way.connect(self._path)
            self._news.register(self._way, select.POLLIN)
        elif self._way.gettimeout() != patience:
            self._way.settimeout(patience)
        return self._way

    def _hang_up(self) -> None:
        """What was not said to its end by then may yet be read."""
        way, self._way, self._news = self._way, None, select.poll()
        if way is not None:
            way.close()


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


def request(method: str, target: str, body: str | None, headers: Mapping[str, str]) -> bytes:
    """As it is said on the way. Raises ValueError for what cannot be."""
    content = b"" if body is None else body.encode()
    said = [*EACH_SAYS, *(f"{name}: {value}" for name, value in headers.items())]
    length = [] if body is None and method != "POST" else [f"Content-Length: {len(content)}"]
    if UNSAYABLE.search(target) or any("\r" in it or "\n" in it for it in said):
        raise ValueError(f"Invalid header or target: {target!r}")
    return "\r\n".join((f"{method} {target} HTTP/1.1", *said, *length, "", "")).encode() + content


def with_parameters(target: str, parameters: Parameters) -> str:
    said = {name: it for name, it in (parameters or {}).items() if it is not None}
    return f"{target}?{urlencode(said, doseq=True)}" if said else target


def _answer(target: str, told: Answer, **content: Content | bytes | bool) -> Response:
    answer = Response.__new__(Response)
    said = {"url": target, "status_code": told.status, "reason": told.reason}
    vars(answer).update(BLANK, **said, **content)
    return answer


@contextmanager
def _as_requests_says(broken: type[RequestException]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ReadTimeout(silence) from silence
    except (OSError, HTTPException, ValueError, OverflowError, MemoryError) as garbage:  # also a length that cannot be
        raise broken(garbage) from garbage
