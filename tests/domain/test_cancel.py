"""CancelJob: a job not yet STARTING ends; an active one is not retried."""

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.domain.lives import (
    after,
    at,
    cancel,
    exited,
    failed,
    lived,
    marks,
    not_started,
    pending,
    runnable,
    running,
    starting,
    submitted,
    succeeded,
    terminate,
)

QUEUED = [submitted, pending, runnable]


@pytest.mark.parametrize("life", QUEUED)
def test_cancel_ends_a_queued_job_at_once(life):
    over, effects = lived(life(), cancel("not wanted"), now=at(3))

    assert marks(over) == (Status.FAILED, "not wanted", True, False)
    assert (over.attempts, over.stopped_at, effects) == ((), at(3), ())


def test_cancel_of_a_job_that_waits_for_a_retry_keeps_its_attempts():
    job = after(running(attempts=3), exited(1))

    over, effects = lived(job, cancel("not wanted"))

    assert marks(over) == (Status.FAILED, "not wanted", True, False)
    assert (over.attempts, effects) == (job.attempts, ())


@pytest.mark.parametrize("life", [starting, running])
def test_cancel_does_not_affect_an_attempt_under_way(life):
    job = life()

    later, effects = lived(job, cancel("not wanted"))

    assert (later.status, later.attempt, later.stop, effects) == (job.status, job.attempt, None, ())
    assert (later.is_cancelled, later.status_reason) == (False, None)


@pytest.mark.parametrize("life", [starting, running])
def test_after_a_remembered_cancel_no_attempt_follows(life):
    over = after(life(attempts=3), cancel("not wanted"), exited(1))

    assert marks(over) == (Status.FAILED, "not wanted", True, False)
    assert (over.attempts[0].exit_code, over.attempts[0].status_reason) == (1, status_reasons.EXITED)


def test_after_a_remembered_cancel_a_failed_start_is_not_retried():
    over = after(starting(attempts=3), cancel("not wanted"), not_started())

    assert marks(over) == (Status.FAILED, "not wanted", True, False)


def test_a_job_that_succeeds_shows_no_cancel():
    over = after(running(), cancel("not wanted"), exited(0))

    assert marks(over) == (Status.SUCCEEDED, status_reasons.EXITED, False, False)
    assert not over.is_cancelled


def test_the_first_cancel_is_remembered():
    over = after(running(attempts=3), cancel("first"), cancel("second"), exited(1))

    assert over.status_reason == "first"


def test_cancel_after_terminate_changes_nothing():
    job = after(running(), terminate("enough"))

    assert lived(job, cancel("not wanted")) == (job, ())


def test_terminate_takes_precedence_over_a_remembered_cancel():
    over = after(running(), cancel("not wanted"), terminate("enough"), exited(143))

    assert marks(over) == (Status.FAILED, "enough", False, True)


def test_terminate_takes_precedence_over_a_remembered_cancel_of_an_abandoned_start():
    over = after(starting(), cancel("not wanted"), terminate("enough"), on.StartAbandoned(attempt=1))

    assert marks(over) == (Status.FAILED, "enough", False, True)


@pytest.mark.fault("SP18")
@pytest.mark.parametrize("life", [succeeded, failed])
@pytest.mark.parametrize("wish", [cancel(), terminate()])
def test_a_request_about_a_finished_job_changes_nothing(life, wish):
    over = life()

    assert lived(over, wish, now=at(99)) == (over, ())
