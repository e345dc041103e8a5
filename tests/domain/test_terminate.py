"""TerminateJob: a job ends at once, or with its container, and always FAILED."""

from datetime import timedelta

import pytest

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.job import Status
from batchq.domain.stop_orders import StopKind
from tests.domain.lives import (
    after,
    asked,
    at,
    exited,
    lived,
    lost,
    marks,
    not_started,
    pending,
    placed,
    runnable,
    running,
    started,
    starting,
    submitted,
    terminate,
)

QUEUED = [submitted, pending, runnable]


@pytest.mark.parametrize("life", QUEUED)
def test_terminate_ends_a_queued_job_at_once(life):
    over, effects = lived(life(), terminate("enough"), now=at(3))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert (over.attempts, over.stopped_at, effects) == ((), at(3), ())


def test_terminate_of_a_job_that_waits_for_a_retry_keeps_its_attempts():
    job = after(running(attempts=3), exited(1))

    over = after(job, terminate("enough"))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert over.attempts == job.attempts


def test_terminate_signals_a_running_container_and_the_job_stays_running():
    job = running()

    later, effects = lived(job, terminate("enough"), now=at(5))

    assert marks(later) == (Status.RUNNING, "enough", False, True)
    assert effects == (do.StopContainer(tag=job.tag),)
    assert (later.stop.kind, later.stop.ordered_at, later.stop.next_step_at) == (StopKind.TERMINATE, at(5), None)


def test_a_terminated_job_is_failed_with_the_exit_code_of_its_container():
    over, effects = lived(running(), terminate("enough"), asked(), exited(143))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert (over.attempts[0].exit_code, over.attempts[0].status_reason) == (143, "enough")
    assert isinstance(effects[-1], do.CleanUpContainer)


def test_a_terminated_job_is_not_retried():
    over = after(running(attempts=10), terminate(), exited(1))

    assert over.status is Status.FAILED


def test_a_terminated_job_is_failed_although_it_exits_0():
    over = after(running(), terminate("enough"), asked(), exited(0))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert over.attempts[0].exit_code == 0


def test_a_container_lost_after_terminate_ends_the_job_with_the_callers_reason():
    over = after(running(attempts=3), terminate("enough"), lost())

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert over.attempts[0].exit_code is None


def test_a_second_terminate_changes_nothing():
    job = after(running(), terminate("first"), asked())

    assert lived(job, terminate("second", grace=timedelta(0)), now=at(20)) == (job, ())


def test_terminate_abandons_a_start():
    job = starting()

    later, effects = lived(job, terminate("enough"))

    assert marks(later) == (Status.STARTING, "enough", False, True)
    assert effects == (do.AbandonStart(tag=job.tag),)


def test_an_abandoned_start_uses_no_attempt():
    job = after(starting(attempts=3), terminate("enough"))

    over, effects = lived(job, on.StartAbandoned(attempt=1), now=at(2))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert (over.attempts, over.attempt, over.started_at, over.stopped_at) == ((), None, None, at(2))
    assert effects == (do.CleanUpContainer(tag=job.tag),)


def test_a_container_that_starts_despite_the_order_is_signalled_at_once():
    job = after(starting(), terminate("enough"))

    later, effects = lived(job, started())

    assert (later.status, effects) == (Status.RUNNING, (do.StopContainer(tag=job.tag),))


def test_a_container_that_ended_before_its_signal_fails_the_job():
    over, effects = lived(after(starting(), terminate("enough")), exited(0))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert [type(it) for it in effects] == [do.CleanUpContainer]


def test_a_failed_start_after_terminate_is_not_retried():
    over = after(starting(attempts=3), terminate("enough"), not_started(reason="no such file"))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert (over.attempts[0].reason, over.attempts[0].status_reason) == ("no such file", "enough")


def test_a_terminated_attempt_is_the_last_of_its_job():
    job = after(running(attempts=3), exited(1), placed(), started(2), terminate("enough"))

    over = after(job, exited(1, 2))

    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert [it.number for it in over.attempts] == [1, 2]
