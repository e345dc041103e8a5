"""The head of the engine's answers, for `http.client`, which has a parser of mails read it: half of what a call costs.

Only what says where the content ends is made use of. What is no head is an error, and never guessed at: a wrong end
would give the next question the rest of this one's answer.
"""

from http.client import NO_CONTENT, NOT_MODIFIED, SWITCHING_PROTOCOLS, HTTPException, HTTPResponse
from socket import socket

LONGEST_LINE, MOST_HEADERS = 65_536, 100
STATUSES = range(100, 600)
PROVISIONAL = range(100, 200)  # the answer is still to come
LONGEST_SHOWN = 100  # characters of what is no head
WITHOUT_CONTENT = frozenset({NO_CONTENT, NOT_MODIFIED})


class Answer(HTTPResponse):
    """Its content is read by `http.client`. Its headers are not kept."""

    def begin(self) -> None:
        version, status, reason = self._first_line()
        headers = self._headers()
        while status in PROVISIONAL:
            version, status, reason = self._first_line()
            headers = self._headers()
        self.status, self.reason = status, reason
        is_empty = status in WITHOUT_CONTENT
        self.chunked, self.chunk_left = _is_chunked(headers) and not is_empty, None
        self.length = 0 if is_empty else None if self.chunked else _length(headers)
        says_last = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
        self.will_close = says_last or (self.length is None and not self.chunked)

    def _first_line(self) -> tuple[str, int, str]:
        line = self._line()
        version, _, rest = line.partition(" ")
        status, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not status.isdecimal() or int(status) not in STATUSES:
            raise HTTPException(f"an answer that begins with {line!r}"[:LONGEST_SHOWN])
        if int(status) == SWITCHING_PROTOCOLS:
            raise HTTPException("an answer by another protocol, which nobody asked for")
        return version, int(status), reason.strip()

    def _headers(self) -> dict[str, str]:
        """By their names in small letters; what is said twice, one after another."""
        headers: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = self._line()
            if not line:
                return headers
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise HTTPException(f"a header that is none: {line!r}"[:LONGEST_SHOWN])
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        raise HTTPException(f"more than {MOST_HEADERS} headers")

    def _line(self) -> str:
        line: bytes = self.fp.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise HTTPException(f"a head that breaks off, or has no end: {line!r}"[:LONGEST_SHOWN])
        return line.rstrip(b"\r\n").decode("latin-1")


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
