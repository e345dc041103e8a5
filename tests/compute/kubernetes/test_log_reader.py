"""The log of a pod: stamps inside long lines, texts that are not a log, and positions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchq.compute.kubernetes.log_reader import MAX_LINE, PIECE, LogParser, log_query
from batchq.errors import LogRefused
from batchq.ports.logs import LogLine
from tests.support.containers import output, started
from tests.support.examples import examples
from tests.support.scripts import Script

FIRST, SECOND = b"2026-01-01T00:00:00.000000001Z ", b"2026-01-01T00:00:00.000000002Z "
AT = 1767225600000000001


def parsed(*chunks, after=0):
    parser = LogParser(after=after)
    lines = [line for chunk in chunks for line in parser.lines(chunk)]
    parser.end()
    return [*lines, parser.unfinished] if parser.unfinished is not None else lines


def test_lines_with_their_stamps():
    assert parsed(FIRST + b"one\n" + SECOND + b"two\n") == [
        LogLine(at=AT, message="one"),
        LogLine(at=AT + 1, message="two"),
    ]


@given(cuts=st.sets(st.integers(1, 120), max_size=6))
@settings(max_examples=examples(60))
def test_the_lines_do_not_depend_on_the_pieces_in_which_they_arrive(cuts):
    whole = FIRST + "eins äöü\r\n".encode() + SECOND + b"\n" + SECOND + b"unfinished"
    ends = [*sorted(cuts), len(whole)]
    chunks = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    assert [record.message for record in parsed(*chunks)] == ["eins äöü", "", "unfinished"]


def test_lines_up_to_the_position_are_left_out():
    log = FIRST + b"one\n" + SECOND + b"two\n"

    assert [record.message for record in parsed(log, after=AT)] == ["two"]
    assert parsed(log, after=AT + 1) == []


def test_a_long_line_is_one_line_without_the_stamps_inside_it():
    pieces = [bytes([letter]) * PIECE for letter in b"ab"]
    log = FIRST + pieces[0] + SECOND + pieces[1] + SECOND + b"rest\n" + SECOND + b"next\n"

    lines = parsed(log)

    assert [line.message for line in lines] == [(b"".join(pieces) + b"rest").decode(), "next"]


def test_a_stamp_that_a_program_prints_stays():
    text = FIRST.decode() + "my own stamp"

    assert [record.message for record in parsed(FIRST + text.encode() + b"\n")] == [text]


def test_a_line_without_end_is_split():
    log = FIRST + (b"x" * PIECE + SECOND) * 200 + b"\n" + SECOND + b"next\n"

    lines = parsed(*(log[start : start + 2**16] for start in range(0, len(log), 2**16)))

    assert "".join(line.message for line in lines[:-1]) == "x" * (200 * PIECE)
    assert max(len(line.message) for line in lines) <= 2 * MAX_LINE
    assert lines[-1].message == "next"


@pytest.mark.parametrize(
    "text", [b"unable to retrieve container logs for containerd://3a20", b"failed to try resolving symlinks in path"]
)
def test_a_text_without_a_stamp_is_never_output(text):
    with pytest.raises(LogRefused):
        parsed(text)


def test_the_position_has_nanoseconds():
    assert log_query("main", AT)["sinceTime"] == "2026-01-01T00:00:00.000000001Z"
    assert "sinceTime" not in log_query("main", 0)


@pytest.mark.parametrize(("status", "text"), [(500, "the node is away"), (403, "forbidden")])
async def test_a_log_that_cannot_be_read_is_refused(model, status, text):
    runtime, cluster = model
    tag = await started(runtime, Script(seconds=None))
    cluster.fault = lambda _method, path: (status, text) if path.endswith("/log") else None

    with pytest.raises(LogRefused):
        await output(runtime, tag)


def test_an_error_text_at_the_end_of_a_followed_log_is_no_line():
    """The kubelet of 1.20 appends this text if the container is removed while its log is followed."""
    text = b'rpc error: code = NotFound desc = an error occurred when try to find container "4d65": not found'

    lines = parsed(b"2026-01-01T00:00:00.5Z ready\n" + text)

    assert [line.message for line in lines] == ["ready"]
