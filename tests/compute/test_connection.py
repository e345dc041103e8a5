"""The bytes of requests and responses on one connection to an engine."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import parse_headers
from itertools import islice
from socket import AF_UNIX, SOCK_STREAM, socket

import pytest
from requests.exceptions import ChunkedEncodingError, ReadTimeout, RequestException
from urllib3.util.wait import wait_for_read

from batchq.compute.docker.client import JsonLines
from batchq.compute.docker.connection import EngineConnection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LONG = b"x" * 100_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def engine(folder, *connections):
    """An engine that sends the given responses on each connection, and closes it; with the requests it has received."""
    received = []

    def serve():
        for answers in connections:
            side, _ = listener.accept()
            with side, side.makefile("rb") as stream:
                for answer in answers:
                    received.append(read_request(stream))
                    if answer:
                        side.sendall(answer)

    with socket(AF_UNIX, SOCK_STREAM) as listener:
        listener.bind(str(folder / "engine.sock"))
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with closing(EngineConnection(str(folder / "engine.sock"), receive_timeout=5)) as line:
            yield line, received
        thread.join()


def read_request(stream):
    """The line, headers and content of a request; all empty if the client has disconnected."""
    line = stream.readline().decode().strip()
    headers = parse_headers(stream)
    return line, dict(headers), stream.read(int(headers.get("Content-Length", 0)))


def send(line, body=None):
    return line.request("POST", "/here?a=1", body=body, headers={"Content-Type": "application/json"})


def stream(line, **options):
    return line.open_stream("GET", "/log", **options)


def test_a_request_is_sent_once_and_completely(tmp_path):
    with engine(tmp_path, [OK]) as (line, received):
        answer = send(line, body=json.dumps({"a": "ä"}, ensure_ascii=False))

        assert (answer.status_code, answer.reason, answer.json()) == (200, "OK", {})
        [(request_line, headers, content)] = received
        assert request_line == "POST /here?a=1 HTTP/1.1"
        assert headers.items() >= {("Host", "docker"), ("Content-Type", "application/json"), ("Content-Length", "11")}
        assert content.decode() == '{"a": "ä"}'


@pytest.mark.parametrize("value", ["Zürich, 東京", "Zürich, 東京".encode()], ids=["text", "bytes"])
def test_headers_are_sent_in_any_script(tmp_path, value):
    """Docker's client configuration has headers as text; the SDK encodes credentials as bytes."""
    with engine(tmp_path, [OK]) as (line, received):
        line.request("GET", "/here", body=None, headers={"X-Team": value})

    assert received[0][1]["X-Team"].encode("latin-1").decode() == "Zürich, 東京"


def test_a_body_may_be_bytes(tmp_path):
    with engine(tmp_path, [OK]) as (line, received):
        send(line, body=b"\0\xff")

    assert received[0][2] == b"\0\xff"


def test_a_received_response_can_be_read_in_chunks_and_closed(tmp_path):
    with engine(tmp_path, [OK]) as (line, _), closing(send(line)) as answer:
        assert list(answer.iter_content(1)) == [b"{", b"}"]


def test_a_request_that_cannot_be_encoded_leaves_no_bytes_for_the_next(tmp_path):
    with engine(tmp_path, [OK]) as (line, received):
        with pytest.raises(RequestException, match="Invalid header"):
            line.request("POST", "/there", body=None, headers={"Name": "a\r\nb"})
        send(line)

        assert [path for path, _, _ in received] == ["POST /here?a=1 HTTP/1.1"]


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nVary:\r\nName: a: b\r\nName: c\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", b"a"),
        (CHUNKED + b"3\r\nabc\r\nA;why=not\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"abc0123456789"),
        (CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(LONG), LONG), LONG),
        (CHUNKED + b"0\r\n\r\n", b""),
    ],
)
def test_a_response_ends_at_its_length_and_the_next_begins_there(tmp_path, answer, content):
    with engine(tmp_path, [answer, OK]) as (line, _):
        assert send(line).content == content
        assert send(line).content == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nall",
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nall",
    ],
)
def test_after_connection_close_a_new_connection_is_opened(tmp_path, answer):
    with engine(tmp_path, [answer], [OK]) as (line, _):
        assert send(line).content == b"all"
        assert send(line).content == b"{}"


def test_after_the_engine_closed_the_connection_a_new_one_is_opened(tmp_path):
    with engine(tmp_path, [OK], [OK]) as (line, _):
        send(line)

        assert wait_for_read(line._socket, timeout=60)
        assert send(line).content == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        b"HTTP/1.1 -20 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nName: value\r\n",
        b"HTTP/1.1 200 OK\r\nName\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nName: a\r\n Content-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{}" % 2**62,
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{}" % 2**64,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        CHUNKED + b"5\r\nab",
        CHUNKED + b"2\r\nab",
        CHUNKED + b"%x\r\nab" % 2**64,
        CHUNKED + b"-1\r\nab\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\nab\r\n0\r\n\r\n",
        CHUNKED + b"two\r\nab\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nab\r\n",
    ],
)
def test_invalid_bytes_are_an_error_and_not_the_next_response(tmp_path, answer):
    with engine(tmp_path, [answer], [OK]) as (line, _):
        with pytest.raises(RequestException):
            send(line)

        assert send(line).content == b"{}"


def test_a_timeout_is_reported_as_a_timeout(tmp_path):
    with socket(AF_UNIX, SOCK_STREAM) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        with (
            closing(EngineConnection(str(tmp_path / "mute.sock"), receive_timeout=0.05)) as line,
            pytest.raises(ReadTimeout),
        ):
            send(line)


def test_each_streamed_response_has_its_own_timeout(tmp_path):
    with engine(tmp_path, [CHUNKED + b"0\r\n\r\n", OK]) as (line, _):
        with closing(stream(line, receive_timeout=7)) as answer:
            of_the_log = line._socket.gettimeout()
            assert list(answer.iter_content(65_536)) == []
        send(line)

        assert (of_the_log, line._socket.gettimeout()) == (7, 5)


def test_without_an_engine_each_call_reports_it(tmp_path):
    line = EngineConnection(str(tmp_path / "none.sock"), receive_timeout=5)

    with pytest.raises(RequestException, match="No such file"):
        send(line)
    with pytest.raises(RequestException, match="No such file"):
        send(line)


def test_a_streamed_response_arrives_in_chunks(tmp_path):
    with engine(tmp_path, [CHUNKED + b"3\r\nabc\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LONG), LONG)]) as (line, _):
        with closing(stream(line)) as answer:
            portions = list(answer.iter_content(65_536))

        assert b"".join(portions) == b"abc" + LONG
        assert max(map(len, portions)) <= 65_536


def test_a_completely_read_stream_returns_its_connection(tmp_path):
    with engine(tmp_path, [CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", OK]) as (line, received):
        with closing(stream(line)) as answer:
            assert list(answer.iter_content(65_536)) == [b"abc"]
        send(line)

    assert len(received) == 2


def test_a_stream_in_progress_is_not_disturbed_by_the_next_request(tmp_path):
    not_whole = CHUNKED + b"3\r\nabc\r\n3\r\ndef\r\n"
    with engine(tmp_path, [not_whole], [OK]) as (line, _), closing(stream(line)) as answer:
        portions = answer.iter_content(3)
        assert next(portions) == b"abc"

        assert send(line).content == b"{}"
        assert next(portions) == b"def"


def test_a_connection_with_an_unread_response_is_not_reused(tmp_path):
    with engine(tmp_path, [CHUNKED + b"3\r\nabc\r\n3\r\n", b""], [OK]) as (line, _):
        with closing(stream(line)) as answer:
            assert next(answer.iter_content(3)) == b"abc"

        assert send(line).content == b"{}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", ChunkedEncodingError),
        (CHUNKED + b"3\r\nabc\r\n1", ChunkedEncodingError),
        (CHUNKED + b"3\r\nabc\r\ntwo\r\n", RequestException),
        (CHUNKED + b"3\r\nabc\r\n-2\r\n", RequestException),
        (CHUNKED + b"two\r\n", RequestException),
    ],
)
def test_an_interrupted_or_invalid_stream_is_an_error_and_its_connection_is_not_reused(tmp_path, answer, error):
    with engine(tmp_path, [answer], [OK]) as (line, _):
        with pytest.raises(error), closing(stream(line)) as log:
            list(log.iter_content(65_536))

        assert send(line).content == b"{}"


def test_an_abandoned_stream_closes_its_connection(tmp_path):
    with engine(tmp_path, [CHUNKED + b"3\r\nabc\r\n3\r\n", b""]) as (line, received):
        answer = stream(line)
        assert next(answer.iter_content(3)) == b"abc"
        answer.close()

    assert received[1:] == [("", {}, b"")]


def test_lines_are_delivered_as_soon_as_they_arrive(tmp_path):
    response = CHUNKED + b"3\r\na\nb\r\n2\r\nc\n\r\n"
    with engine(tmp_path, [response, b""]) as (line, _), closing(stream(line)) as answer:
        lines = answer.raw.lines()

        assert [next(lines), next(lines)] == [b"a\n", b"bc\n"]


def test_an_empty_line_among_events_is_skipped(tmp_path):
    response = CHUNKED + b'9\r\n{"a":1}\r\n\r\n2\r\n\r\n\r\n8\r\n{"b":2}\n\r\n'
    with engine(tmp_path, [response, b""]) as (line, _), closing(JsonLines(stream(line))) as events:
        assert list(islice(events, 2)) == [{"a": 1}, {"b": 2}]


def test_the_last_line_may_have_no_newline(tmp_path):
    response = CHUNKED + b'9\r\n{"a":1}\r\n\r\n7\r\n{"b":2}\r\n0\r\n\r\n'
    with engine(tmp_path, [response]) as (line, _), closing(JsonLines(stream(line))) as values:
        assert list(values) == [{"a": 1}, {"b": 2}]


def test_an_aborted_stream_is_interrupted_and_the_next_request_uses_a_new_connection(tmp_path):
    with engine(tmp_path, [CHUNKED + b"2\r\na\n\r\n", b""], [OK]) as (line, _):
        with closing(stream(line)) as answer:
            lines = answer.raw.lines()
            assert next(lines) == b"a\n"
            line.abort()
            with pytest.raises(ChunkedEncodingError):
                next(lines)

        assert send(line).content == b"{}"


def test_interrupted_lines_are_reported_as_interrupted(tmp_path):
    with engine(tmp_path, [CHUNKED + b"3\r\na\nb\r\n"]) as (line, _), closing(stream(line)) as answer:
        lines = answer.raw.lines()
        assert next(lines) == b"a\n"

        with pytest.raises(ChunkedEncodingError):
            list(lines)


@pytest.mark.parametrize("way", [CHUNKED, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n"])
def test_a_reader_of_a_closed_stream_is_released(tmp_path, way):
    with engine(tmp_path, [way, b""]) as (line, _), ThreadPoolExecutor() as another:
        with closing(stream(line)) as answer:
            reading = another.submit(next, answer.iter_content(3))

        with pytest.raises((ChunkedEncodingError, StopIteration)):
            reading.result()
