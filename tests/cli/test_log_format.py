"""Each record of the log stays on lines of its own, whatever its text contains."""

import logging
from io import StringIO

import pytest

from batchq.cli.serve import LogFormatter
from batchq.domain.job import Status
from batchq.engine.history_entries import log_transitions
from batchq.ports.jobs import StatusChanged
from tests.support.builders import job

FORGED = "2026-11-21 12:00:00,000 ERROR forged"
HOSTILE = ["\n", "\r\n", "\x1b[31m", "\x85", "\u2028", "\u202e", "\u2066", "\x00", "\x9b31m"]


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
@pytest.mark.parametrize("text", ["", *HOSTILE], ids=ascii)
def test_a_transition_is_a_line_of_the_servers_log(monkeypatch, caplog, text):
    stream = StringIO()
    caplog.set_level(logging.INFO, logger="batchq.engine.history_entries")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    monkeypatch.setattr(logging.root, "handlers", [handler])
    new, failed_job = job(), job(status=Status.FAILED, status_reason=f"{text}{FORGED}")

    log_transitions([StatusChanged(before=None, job=new), StatusChanged(before=new.status, job=failed_job)])

    first, second = stream.getvalue().splitlines()
    assert first == f"INFO job {new.id}: new -> {new.status} on {new.spec.queue}"
    assert second.startswith(f"INFO job {failed_job.id}: {new.status} -> FAILED on {new.spec.queue} (")
    assert stream.getvalue().replace("\n", "").isprintable()
