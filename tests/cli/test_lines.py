"""Whatever is said in it, a record of the log is lines of its own, in the order in which they are read."""

import logging
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest

from batchq.cli.log_format import Log, LogFormatter
from batchq.clock import wall_time
from batchq.engine.transition_log import Told, tell
from batchq.ports.jobs import StatusChanged
from tests.support.builders import job

FORGED = "2026-11-21 12:00:00,000 ERROR forged"
HOSTILE = ["\n", "\r\n", "\x1b[31m", "\x85", "\u2028", "\u202e", "\u2066", "\x00", "\x9b31m"]


def written(message, *said, exc_info=None):
    record = logging.LogRecord("batchq", logging.WARNING, "somewhere", 1, message, said, exc_info)
    return LogFormatter("%(levelname)s %(message)s").format(record)


def failed(text):
    """An error of which a traceback can be written."""
    try:
        int("")
    except ValueError as why:
        return ValueError, ValueError(text + FORGED), why.__traceback__


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_text_stays_in_its_line_and_changes_nothing_of_it(text):
    line = written("job %s: %s", "a", text + FORGED)

    assert line.isprintable()
    assert line == f"WARNING job a: {ascii(text)[1:-1]}{FORGED}"


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", ["{0}{__class__}", "%s%(levelname)s%n", "<script>alert(1)</script>", "👍 ünï 東京"])
def test_what_harms_no_log_is_as_it_was_said(text):
    assert written("%s", text) == f"WARNING {text}"


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_in_a_traceback_only_what_is_indented_follows(text):
    first, *rest = written("failed", exc_info=failed(text)).splitlines()

    assert first == "WARNING failed"
    assert all(line.startswith("  ") and line.isprintable() for line in rest)
    assert FORGED in rest[-1]


def test_the_time_of_a_line_is_as_logging_itself_tells_it():
    records = [logging.makeLogRecord({"created": at, "msecs": at % 1 * 1000}) for at in (12.5, 12.75, 13.001, 12.0)]
    ours, theirs = LogFormatter("%(asctime)s"), logging.Formatter("%(asctime)s")

    assert [ours.format(it) for it in records] == [theirs.format(it) for it in records]


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_lines_that_are_told_together_are_each_as_if_told_alone(text):
    together = Told(["job a: new -> SUBMITTED", f"job b: {text}{FORGED}"])

    assert written(together) == "\n".join(written(it) for it in together)
    assert str(together) == "\n".join(together)


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_is_told_straight_is_written_as_a_record_of_it(text):
    told, stream = Told(["job a: new -> SUBMITTED", f"job b: {text}{FORGED}"]), StringIO()
    log = Log(stream, LogFormatter("%(levelname)s %(message)s"))

    log.tell(told)

    assert stream.getvalue() == f"INFO {told[0]}\nINFO job b: {ascii(text)[1:-1]}{FORGED}\n"


def test_what_is_told_straight_has_the_time_of_now():
    stream, before = StringIO(), wall_time()

    Log(stream, LogFormatter("%(asctime)s")).tell(Told([""]))

    told = datetime.strptime(stream.getvalue().strip(), "%Y-%m-%d %H:%M:%S,%f").astimezone(UTC)
    assert before - timedelta(milliseconds=1) <= told <= wall_time()


@pytest.mark.parametrize("beside", [[], [logging.NullHandler()]], ids=["alone", "beside another"])
def test_a_servers_log_tells_of_a_turn_alone_or_beside_another(monkeypatch, caplog, beside):
    stream = StringIO()
    caplog.set_level(logging.INFO, logger="batchq.engine.transition_log")
    monkeypatch.setattr(logging.root, "handlers", [Log(stream, LogFormatter("%(levelname)s %(message)s")), *beside])
    new = job()

    tell([StatusChanged(before=None, job=new)])

    assert stream.getvalue() == f"INFO job {new.id}: new -> {new.status} on {new.spec.queue}\n"


def test_a_log_that_is_closed_stops_nobody(capsys):
    stream = StringIO()
    stream.close()

    Log(stream, LogFormatter("%(message)s")).tell(Told(["job a: new -> SUBMITTED"]))

    assert "I/O operation on closed file" in capsys.readouterr().err
