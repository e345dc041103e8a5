"""The log of a container: the stream of the engine in any chunks, and the removal of containers without output."""

import json
import struct
from itertools import pairwise

import pytest

from batchq.compute.docker.create_request import container_labels, container_name
from batchq.compute.docker.log_reader import MAX_LINE, parse_lines, since_parameter
from batchq.compute.docker.operation_pools import Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.errors import ContainerGone, RuntimeUnknown
from tests.support.containers import new_tag
from tests.support.fake_engine import engine as serve
from tests.support.fake_engine import responds

SECOND = 10**9
BEGIN = 1_795_260_501 * SECOND  # 2026-11-21T11:28:21Z
OUT, ERR, ENGINE = 1, 2, 3
SIZE = 16384  # bytes of the largest frame of a line


def stamped(text, nanoseconds=1):
    return b"2026-11-21T11:28:21.%09dZ " % nanoseconds + text


def frame(text, nanoseconds=1, stream=OUT):
    payload = stamped(text, nanoseconds)
    return struct.pack(">BxxxL", stream, len(payload)) + payload


def chunked(stream, *positions):
    """The stream, cut at these positions."""
    return [stream[start:end] for start, end in pairwise((0, *positions, len(stream)))]


def read(*chunks, after=0):
    return [(line.at - BEGIN, line.message) for line in parse_lines(chunks, after=after)]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b""], []),
        ([frame(b"one\n", 1) + frame(b"two\n", 2)], [(1, "one"), (2, "two")]),
        ([frame(b"\n")], [(1, "")]),
        ([frame(b"\xff\xfeok\n")], [(1, "\ufffd\ufffdok")]),
        ([frame(b"a\rb\r\n")], [(1, "a\rb")]),
        ([frame(b"a" * SIZE, 5), frame(b"b" * SIZE, 5), frame(b"c\n", 5)], [(5, "a" * SIZE + "b" * SIZE + "c")]),
        (
            [frame(b"a" * SIZE, 5), frame(b"x" * SIZE, 6, ERR), frame(b"b\n", 5), frame(b"y\n", 6, ERR)],
            [(5, "a" * SIZE + "b"), (6, "x" * SIZE + "y")],
        ),
        ([frame(b"one\n", 1), frame(b"a" * SIZE, 5)], [(1, "one"), (5, "a" * SIZE)]),
        (chunked(stamped(b"one\r\n", 1) + stamped(b"two\r\n", 2), 20, 45), [(1, "one"), (2, "two")]),
        ([stamped(b"one\r\n", 1) + stamped(b"$ ", 2)], [(1, "one"), (2, "$ ")]),
    ],
    ids=[
        "no chunk",
        "empty chunk",
        "lines",
        "empty line",
        "invalid UTF-8",
        "carriage return before the end",
        "long line without its inner time stamps",
        "long lines of both outputs",
        "unfinished line",
        "terminal",
        "unfinished line of a terminal",
    ],
)
def test_each_frame_is_a_line(chunks, lines):
    assert read(*chunks) == lines


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 40])
def test_frames_may_arrive_in_any_chunks(size):
    stream = frame(b"one\n", 1) + frame("zwölf\n".encode(), 2, ERR) + frame(b"three\n", 3)

    chunks = chunked(stream, *range(size, len(stream), size))

    assert read(*chunks) == [(1, "one"), (2, "zwölf"), (3, "three")]


def test_a_long_line_is_joined_without_its_inner_timestamps():
    pieces = [frame(b"a" * SIZE, 5), frame(b"b" * SIZE, 5), frame(b"c" * 7232 + b"\n", 5)]

    assert read(*pieces) == [(5, "a" * 16384 + "b" * 16384 + "c" * 7232)]


def test_long_lines_of_both_outputs_do_not_mix():
    pieces = [frame(b"a" * SIZE, 5), frame(b"x" * 16384, 6, ERR), frame(b"b\n", 5), frame(b"y\n", 6, ERR)]

    assert read(*pieces) == [(5, "a" * 16384 + "b"), (6, "x" * 16384 + "y")]


def test_an_unfinished_line_has_what_is_written():
    assert read(frame(b"one\n", 1), frame(b"a" * SIZE, 5)) == [(1, "one"), (5, "a" * SIZE)]


def test_a_line_without_an_end_is_cut():
    piece = frame(b"a" * SIZE, 5)

    lines = read(*[piece] * 100)

    assert [len(message) for _, message in lines] == [MAX_LINE, 100 * SIZE - MAX_LINE]


@pytest.mark.parametrize(("after", "left"), [(0, ["one", "two"]), (1, ["two"]), (2, [])])
def test_lines_after_a_timestamp_are_selected_exactly(after, left):
    lines = read(frame(b"one\n", 1), frame(b"two\n", 2), after=BEGIN + after)

    assert [message for _, message in lines] == left


def test_the_engine_is_asked_for_lines_since_a_nanosecond():
    assert since_parameter(BEGIN + 7) == "1795260501.000000007"
    assert since_parameter(0) == "0.000000000"


@pytest.mark.parametrize(
    "stamp", [b"2026-11-21T11:28:21.5Z", b"2026-11-21T12:28:21.500000000+01:00", b"2026-11-21T11:28:21.500000000Z"]
)
def test_timestamps_of_every_engine_are_parsed(stamp):
    payload = stamp + b" one\n"

    lines = read(struct.pack(">BxxxL", OUT, len(payload)) + payload)

    assert lines == [(SECOND // 2, "one")]


def test_a_line_of_a_terminal_without_an_end_is_cut():
    lines = read(stamped(b"", 1), *[b"a" * 65536] * 32)

    assert [at for at, _ in lines] == [1, 1]
    assert "".join(message for _, message in lines) == "a" * 65536 * 32


def test_a_log_that_the_engine_cannot_continue_ends_with_a_warning(caplog):
    error = b"error from daemon in stream: invalid character"
    broken = struct.pack(">BxxxL", ENGINE, len(error)) + error

    lines = read(frame(b"one\n", 1), broken, frame(b"two\n", 2))

    assert lines == [(1, "one")]
    assert "invalid character" in caplog.text


def test_an_invalid_frame_is_an_error():
    with pytest.raises(RuntimeUnknown):
        read(struct.pack(">BxxxL", OUT, 2**31))


INSTANCE = "i"
NO_OUTPUT, HELLO = responds(200, b""), responds(200, frame(b"hello\n"))
NOT_READABLE, GOING = responds(501, b"{}"), responds(409, b"{}")


def breaks_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.close_connection = True


def is_silent(handler):
    handler.connection.recv(1)  # until the client disconnects
    handler.close_connection = True


class Engine:
    """An engine with one container, which records its calls."""

    def __init__(self):
        self.tag = new_tag()
        self.log = NO_OUTPUT
        self.inspection = responds(200, self.inspected())
        self.calls = []

    def answer(self, handler):
        if handler.command == "DELETE":
            self.calls.append("removed")
            responds(204, b"")(handler)
        elif "/logs" in handler.path:
            self.calls.append("read")
            self.log(handler)
        else:
            self.inspection(handler)

    def inspected(self, driver="json-file"):
        labels, stored = container_labels(INSTANCE, self.tag), {"Type": driver, "Config": {"tag": "s3cret/option"}}
        inspection = {
            "Id": container_name(INSTANCE, self.tag),
            "Config": {"Labels": labels},
            "HostConfig": {"LogConfig": stored},
        }
        return json.dumps(inspection).encode()


@pytest.fixture
async def world(tmp_path):
    engine = Engine()
    with serve(tmp_path, engine.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url)
        yield engine, runtime
        await runtime.close()


@pytest.mark.parametrize("log", [NO_OUTPUT, NOT_READABLE])
async def test_a_container_without_output_is_removed(world, log):
    engine, runtime = world
    engine.log = log

    assert await runtime.remove_silent(engine.tag) is None

    assert engine.calls == ["read", "removed"]


async def test_a_container_with_output_is_kept_and_its_log_read_once(world):
    engine, runtime = world
    engine.log = HELLO

    written = await runtime.remove_silent(engine.tag)

    assert [line.message async for line in written] == ["hello"]
    assert engine.calls == ["read"]


REFUSED = responds(500, b'{"message": "splunk: s3cret: 403, Authorization: Bearer of-the-target"}')


@pytest.mark.fault("SE30")
async def test_an_engine_that_refuses_a_log_is_reported_without_secrets(world):
    engine, runtime = world
    engine.log = REFUSED

    with pytest.raises(RuntimeUnknown, match=r"splunk: \*\*\*: 403, Authorization: \*\*\*") as refused:
        await runtime.remove_silent(engine.tag)

    assert not any(name in str(refused.value) for name in ("s3cret", "of-the-target"))
    assert engine.calls == ["read"]


@pytest.mark.fault("SE30")
async def test_a_container_whose_log_driver_cannot_be_read_is_removed(world):
    engine, runtime = world
    engine.log, engine.inspection = REFUSED, responds(200, engine.inspected("splunk"))

    assert await runtime.remove_silent(engine.tag) is None

    assert engine.calls == ["read", "removed"]


@pytest.mark.parametrize(("log", "error"), [(breaks_off, RuntimeUnknown), (GOING, ContainerGone)])
async def test_a_container_whose_log_cannot_be_read_is_kept(world, log, error):
    engine, runtime = world
    engine.log = log

    with pytest.raises(error):
        await runtime.remove_silent(engine.tag)

    assert engine.calls == ["read"]


@pytest.mark.fault("SP24")
async def test_an_unanswered_log_request_releases_its_thread_soon(tmp_path):
    engine = Engine()
    well, engine.inspection, engine.log = engine.inspection, is_silent, is_silent
    with serve(tmp_path, engine.answer) as url:
        runtime = DockerRuntime(
            instance=INSTANCE, base_url=url, limits=Limits(receive_timeout=600, container_timeout=0.2)
        )
        with pytest.raises(RuntimeUnknown):
            await runtime.inspect(engine.tag)
        engine.inspection = well

        with pytest.raises(RuntimeUnknown):  # within the time that a test has
            await runtime.remove_silent(engine.tag)

        assert engine.calls == ["read"]
        await runtime.close()
