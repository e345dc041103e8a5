"""Phases of training jobs that no scenario brings about."""

from datetime import timedelta

import pytest

from batchq.api.modelarts.job_document import FAILURES, phases
from batchq.domain.explanation.table import ROWS
from batchq.domain.job import Status
from batchq.domain.stop_orders import StopKind, StopOrder
from tests.support.builders import ADMIN, NOON, attempt, job


def phases_of(it, *, now=NOON):
    return tuple(phases(it, caller=ADMIN, engine_answers=True, now=now))


def stopping(kind, **order):
    it = StopOrder(kind=kind, reason="stop it", ordered_at=NOON, **order)
    return job(status=Status.RUNNING, attempt=attempt(started_at=NOON), started_at=NOON, stop_orders=(it,))


def test_every_explanation_of_a_failed_job_has_phases():
    failed = {code for code, row in ROWS.items() if Status.FAILED in row.statuses}

    assert FAILURES.keys() == failed


def test_a_submitted_job_is_creating():
    assert phases_of(job(status=Status.SUBMITTED)) == ("Creating", "Creating")


def test_a_job_between_two_attempts_is_pending():
    assert phases_of(job(status=Status.RUNNABLE, attempts=(attempt(),))) == ("Pending", "Queuing")


@pytest.mark.parametrize(("seconds", "secondary"), [(59, "Terminating"), (61, "TerminatedFailed")])
def test_a_container_that_survives_its_kill_for_a_minute_failed_to_terminate(seconds, secondary):
    killed = stopping(StopKind.TERMINATE, killed_at=NOON)

    assert phases_of(killed, now=NOON + timedelta(seconds=seconds)) == ("Terminating", secondary)


def test_a_cancelled_job_that_runs_on_is_running():
    assert phases_of(stopping(StopKind.CANCEL)) == ("Running", "Running")


def test_a_job_past_its_time_limit_is_terminating():
    assert phases_of(stopping(StopKind.TIMEOUT)) == ("Terminating", "Terminating")
