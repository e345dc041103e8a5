"""A timeout is a stop order of its own."""

from datetime import timedelta

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import (
    after,
    asked,
    at,
    cancel,
    due_event,
    exited,
    lived,
    marks,
    pending,
    placed,
    runnable,
    running,
    started,
    starting,
    submitted,
    terminate,
    timed_out,
)

MINUTE, TWO_MINUTES = timedelta(minutes=1), timedelta(minutes=2)


def test_the_timeout_counts_from_the_start_of_the_attempt():
    job = after(starting(timeout=TWO_MINUTES), started(at=at(10)), now=at(10))

    assert next_wakeup(job) == at(130)
    assert due_event(job, at(129.999)) is None
    assert due_event(job, at(130)) == timed_out()


def test_the_timeout_of_the_next_attempt_counts_from_its_own_start():
    job = after(running(attempts=2, timeout=TWO_MINUTES), exited(1), placed())

    again = after(job, started(2, at=at(100)), now=at(100))

    assert next_wakeup(again) == at(220)
    assert due_event(again, at(220)) == on.TimedOut(attempt=2)


def test_a_job_without_a_timeout_has_no_deadline():
    assert next_wakeup(running(timeout=None)) is None


def test_a_job_that_does_not_run_has_no_deadline():
    jobs = [submitted(), pending(), runnable(), starting(timeout=TWO_MINUTES), after(running(), exited(0))]

    assert [next_wakeup(job) for job in jobs] == [None] * len(jobs)


def test_a_timeout_signals_the_container():
    job = running(timeout=MINUTE)

    later, effects = lived(job, due_event(job, at(60)), now=at(60))

    assert marks(later) == (Status.RUNNING, status_reasons.TIMED_OUT, False, False)
    assert effects == (do.StopContainer(tag=job.tag),)


def test_a_timed_out_job_has_its_own_grace_period():
    job = after(running(timeout=MINUTE, stop_grace=timedelta(seconds=7)), timed_out(), now=at(60))

    assert next_wakeup(job) is None
    assert next_wakeup(after(job, asked(), now=at(61))) == at(68)


def test_a_timed_out_job_is_not_retried():
    over = after(running(attempts=3, timeout=MINUTE), timed_out(), exited(143))

    assert marks(over) == (Status.FAILED, status_reasons.TIMED_OUT, False, False)
    assert over.attempts[0].status_reason == status_reasons.TIMED_OUT


def test_terminate_after_a_timeout_changes_nothing():
    job = after(running(timeout=MINUTE), timed_out())

    assert lived(job, terminate("enough")) == (job, ())


def test_a_timeout_after_terminate_changes_nothing():
    job = after(running(timeout=MINUTE), terminate("enough"), asked())

    assert lived(job, timed_out(), now=at(60)) == (job, ())


def test_cancel_after_a_timeout_changes_nothing():
    job = after(running(attempts=3, timeout=MINUTE), timed_out())

    assert lived(job, cancel("not wanted")) == (job, ())


def test_a_cancel_before_the_timeout_does_not_show_in_the_end():
    over = after(running(timeout=MINUTE), cancel("not wanted"), timed_out(), exited(143))

    assert marks(over) == (Status.FAILED, status_reasons.TIMED_OUT, False, False)
