"""The engine's log stream, in any chunks and frames."""

import struct

import pytest

from batchq.compute.docker.log_reader import MAX_LINE, parse_lines, since_parameter
from batchq.errors import EngineUnknown

SECOND = 10**9
BEGIN = 1_795_260_501 * SECOND  # 2026-11-21T11:28:21Z
OUT, ERR, ENGINE = 1, 2, 3


def stamped(text, nanoseconds=1):
    return b"2026-11-21T11:28:21.%09dZ " % nanoseconds + text


def frame(text, nanoseconds=1, stream=OUT):
    payload = stamped(text, nanoseconds)
    return struct.pack(">BxxxL", stream, len(payload)) + payload


def read(*chunks, after=0):
    return [(line.at - BEGIN, line.message) for line in parse_lines(chunks, after=after)]


def test_each_frame_is_a_line():
    assert read(frame(b"one\n", 1) + frame(b"two\n", 2)) == [(1, "one"), (2, "two")]


def test_an_empty_stream_has_no_line():
    assert read() == []
    assert read(b"") == []


def test_an_empty_line_is_a_line():
    assert read(frame(b"\n")) == [(1, "")]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 40])
def test_frames_may_arrive_in_any_chunks(size):
    stream = frame(b"one\n", 1) + frame("zwölf\n".encode(), 2, ERR) + frame(b"three\n", 3)

    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]

    assert read(*chunks) == [(1, "one"), (2, "zwölf"), (3, "three")]


def test_a_long_line_is_joined_without_its_inner_timestamps():
    pieces = [frame(b"a" * 16384, 5), frame(b"b" * 16384, 5), frame(b"c" * 7232 + b"\n", 5)]

    assert read(*pieces) == [(5, "a" * 16384 + "b" * 16384 + "c" * 7232)]


def test_long_lines_of_both_outputs_do_not_mix():
    pieces = [frame(b"a" * 16384, 5), frame(b"x" * 16384, 6, ERR), frame(b"b\n", 5), frame(b"y\n", 6, ERR)]

    assert read(*pieces) == [(5, "a" * 16384 + "b"), (6, "x" * 16384 + "y")]


def test_an_unfinished_line_has_what_is_written():
    assert read(frame(b"one\n", 1), frame(b"a" * 16384, 5)) == [(1, "one"), (5, "a" * 16384)]


def test_a_line_without_an_end_is_cut():
    piece = frame(b"a" * 16384, 5)

    lines = read(*[piece] * 100)

    assert [len(message) for _, message in lines] == [MAX_LINE, 100 * 16384 - MAX_LINE]


def test_invalid_utf8_is_replaced():
    assert read(frame(b"\xff\xfeok\n")) == [(1, "\ufffd\ufffdok")]


def test_the_carriage_return_before_the_end_is_removed():
    assert read(frame(b"a\rb\r\n")) == [(1, "a\rb")]


@pytest.mark.parametrize(("after", "left"), [(0, ["one", "two"]), (1, ["two"]), (2, [])])
def test_lines_after_a_timestamp_are_selected_exactly(after, left):
    lines = read(frame(b"one\n", 1), frame(b"two\n", 2), after=BEGIN + after)

    assert [message for _, message in lines] == left


def test_the_engine_is_asked_for_lines_since_a_nanosecond():
    assert since_parameter(BEGIN + 7) == "1795260501.000000007"
    assert since_parameter(0) == "0.000000000"


@pytest.mark.parametrize(
    "stamp",
    [b"2026-11-21T11:28:21.5Z", b"2026-11-21T12:28:21.500000000+01:00", b"2026-11-21T11:28:21.500000000Z"],
)
def test_timestamps_of_every_engine_are_parsed(stamp):
    payload = stamp + b" one\n"

    lines = read(struct.pack(">BxxxL", OUT, len(payload)) + payload)

    assert lines == [(SECOND // 2, "one")]


def test_the_stream_of_a_terminal_has_lines_without_frames():
    stream = stamped(b"one\r\n", 1) + stamped(b"two\r\n", 2)

    assert read(stream[:20], stream[20:45], stream[45:]) == [(1, "one"), (2, "two")]


def test_the_last_line_of_a_terminal_may_have_no_end():
    assert read(stamped(b"one\r\n", 1) + stamped(b"$ ", 2)) == [(1, "one"), (2, "$ ")]


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
    with pytest.raises(EngineUnknown):
        read(struct.pack(">BxxxL", OUT, 2**31))
