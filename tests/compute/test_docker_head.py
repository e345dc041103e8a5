"""The head of an answer, in whatever pieces it comes."""

from contextlib import closing
from http.client import HTTPException
from io import BufferedReader, RawIOBase

from hypothesis import example, given
from hypothesis import strategies as st

from batchq.compute.docker.connection import answer_on

WORDS = (
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200", b"HTTP/1.1 100 Continue", b"HTTP/1.0 204 None"),
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\n\n", b"\r", b" ", b"Content-Length: 2", b"Transfer-Encoding: chunked"),
    *(b"Name: value", b"Name", b"Connection: close", b"{}", b"2\r\n{}\r\n0\r\n\r\n"),
)
ANSWERS = st.lists(st.sampled_from(WORDS), max_size=12).map(b"".join)


class Way(RawIOBase):
    """As a socket that has so much for each who reads."""

    def __init__(self, said, portion):
        super().__init__()
        self._left, self._portion = said, portion

    def makefile(self, _mode):
        return BufferedReader(self)

    def readable(self):
        return True

    def readinto(self, room):
        size = min(self._portion, len(room))
        piece, self._left = self._left[:size], self._left[size:]
        room[: len(piece)] = piece
        return len(piece)


def understood(said, portion):
    """What an answer comes to; nothing where it is none."""
    try:
        with closing(answer_on(Way(said, portion))) as answer:
            return answer.status, answer.reason, answer.will_close, answer.read()
    except (HTTPException, ValueError):
        return None


@given(ANSWERS)
@example(b"HTTP/1.1 200\r\r\n\r\n")
@example(b"HTTP/1.1 200 OK\r\nName: value\r\n\r\r\n\r\n")
@example(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}\r\n\r\n")
def test_in_whatever_pieces_an_answer_comes_it_says_the_same(said):
    at_once = understood(said, len(said) or 1)

    assert {understood(said, portion) for portion in (1, 7, 20)} == {at_once}
