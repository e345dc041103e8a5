"""The head of the engine's answers, for `http.client`, which has a parser of mails read it: half of what a call costs.

Only what says where the content ends is made use of. What is no head is an error, and never guessed at: a wrong end
would give the next question the rest of this one's answer.
"""

from collections.abc import Sequence
from http.client import NO_CONTENT, NOT_MODIFIED, SWITCHING_PROTOCOLS, HTTPException, HTTPResponse
from itertools import islice
from socket import socket

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
