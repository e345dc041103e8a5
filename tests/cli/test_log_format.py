"""Each record of the log stays on lines of its own, whatever its text contains."""

import json
import logging
from datetime import timedelta
from io import StringIO

import pytest
from msgspec.structs import replace

from batchq.cli.serve import JsonFormatter, LogFormatter, configure_logging
from batchq.domain.access.accounts import Owner
from batchq.domain.enums import Status
from batchq.domain.job import ArrayState
from batchq.engine.history_entries import log_transitions
from batchq.ports.jobs import StatusChanged
from batchq.settings import LogLevel
from tests.support.builders import NOON, attempt, job

FORGED = "2026-11-21 12:00:00,000 ERROR forged"
HOSTILE = ["\n", "\r\n", "\x1b[31m", "\x85", "\u2028", "\u202e", "\u061c", "\u2066", "\x00", "\x9b31m"]


def written(message, *printed, exc_info=None):
    record = logging.LogRecord("batchq", logging.WARNING, "somewhere", 1, message, printed, exc_info)
    return LogFormatter("%(levelname)s %(message)s").format(record)


def failed(text):
    """An error of which a traceback can be written."""
    try:
        int("")
    except ValueError as why:
        return ValueError, ValueError(text + FORGED), why.__traceback__


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_control_characters_in_a_log_record_are_escaped(text):
    line = written("job %s: %s", "a", text + FORGED)

    assert line.isprintable()
    assert line == f"WARNING job a: {ascii(text)[1:-1]}{FORGED}"


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", ["{0}{__class__}", "%s%(levelname)s%n", "<script>alert(1)</script>", "👍 ünï 東京"])
def test_printable_text_in_a_log_record_is_unchanged(text):
    assert written("%s", text) == f"WARNING {text}"


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_lines_of_a_traceback_are_indented(text):
    first, *rest = written("failed", exc_info=failed(text)).splitlines()

    assert first == "WARNING failed"
    assert all(line.startswith("  ") and line.isprintable() for line in rest)
    assert FORGED in rest[-1]


@pytest.mark.fault("SE12")
def test_a_record_in_json_is_one_line_with_its_message_and_its_traceback():
    hostile = "".join(HOSTILE) + FORGED
    record = logging.LogRecord(
        "batchq.engine", logging.ERROR, "somewhere", 1, "failed: %s", (hostile,), failed(hostile)
    )
    record.created = NOON.timestamp()

    line = JsonFormatter().format(record)

    assert line.isascii()
    assert line.isprintable()
    members = json.loads(line)
    assert "Traceback" in members.pop("exception")
    assert members == {
        "time": "2026-11-21T12:00:00.000+00:00",
        "level": "error",
        "logger": "batchq.engine",
        "message": f"failed: {hostile}",
    }


@pytest.fixture
def lines(monkeypatch, caplog):
    """The lines that a server with this level logs for these changes of jobs."""

    def lines(level, *changes):
        stream = StringIO()
        caplog.set_level(level, logger="batchq.engine.history_entries")
        handler = logging.StreamHandler(stream)
        handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
        monkeypatch.setattr(logging.root, "handlers", [handler])
        log_transitions([StatusChanged(before=before, job=after) for before, after in changes])
        return stream.getvalue().splitlines()

    return lines


@pytest.mark.fault("SE12")
@pytest.mark.parametrize("text", ["", *HOSTILE], ids=ascii)
def test_a_transition_is_a_line_of_the_servers_log(lines, text):
    new, failed_job = job(), job(status=Status.FAILED, status_reason=f"{text}{FORGED}")

    first, second, end = lines(logging.DEBUG, (None, new), (new.status, failed_job))

    assert first == f"DEBUG job {new.id}: new -> {new.status} on {new.spec.queue}"
    assert second.startswith(f"DEBUG job {failed_job.id}: {new.status} -> FAILED on {new.spec.queue} (")
    assert end.startswith(f"INFO job {failed_job.id}: FAILED queue={new.spec.queue} ")
    assert all(line.isprintable() for line in (first, second, end))


def test_at_info_a_job_is_one_line_that_describes_its_end(lines):
    first = attempt(exit_code=1, started_at=NOON + timedelta(seconds=2), stopped_at=NOON + timedelta(seconds=5))
    second = attempt(
        number=2, exit_code=137, started_at=NOON + timedelta(seconds=9), stopped_at=NOON + timedelta(seconds=10)
    )
    running = job(status=Status.RUNNING, attempt=second, name="fit", owner=Owner(user="ada", account="lab"))
    ended = replace(running, status=Status.FAILED, attempt=None, attempts=(first, second), status_reason="exited")

    changes = ((None, running), (Status.RUNNABLE, running), (Status.STARTING, running), (Status.RUNNING, ended))

    (line,) = lines(logging.INFO, *changes)
    assert line.startswith(f"INFO job {ended.id}: FAILED queue=default name=fit user=ada attempts=2 waited=2.0s ")
    assert line.endswith(" ran=4.0s exit=137 reason='exited'")
    assert lines(logging.WARNING, *changes) == []


def test_at_info_an_array_is_a_line_with_its_children(lines):
    counts = ((Status.SUCCEEDED, 9), (Status.FAILED, 1))
    ended = job(status=Status.FAILED, array_size=10, array_state=ArrayState(spawned=10, counts=counts))

    (line,) = lines(logging.INFO, (Status.PENDING, ended))

    assert " children=10 failed=1" in line


def test_the_level_is_that_of_batchq_and_libraries_log_from_info_on(monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    before = logging.root.level, logging.getLogger("batchq").level
    try:
        levels = []
        for level in LogLevel:
            logging.root.handlers.clear()
            configure_logging(level, StringIO())
            levels.append(
                (
                    logging.getLogger("batchq.engine").getEffectiveLevel(),
                    logging.getLogger("docker").getEffectiveLevel(),
                )
            )
    finally:
        logging.root.setLevel(before[0])
        logging.getLogger("batchq").setLevel(before[1])

    assert levels == [(10, 20), (20, 20), (30, 30), (40, 40)]
