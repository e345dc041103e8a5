"""force-fail: a job is over without its container, which does not end."""

import pytest

from batchq.domain import effects as do
from batchq.domain.job import FINISHED, AttemptContainerState, Status
from tests.domain.lives import (
    after,
    asked,
    at,
    cancel,
    exited,
    force_fail,
    grace_over,
    lived,
    marks,
    running,
    started,
    starting,
    terminate,
)
from tests.domain.part_lives import app, ends, ganged, in_words, part, runs, sidecar, states, tasked
from tests.support.builders import task_container

WHY = "Force-failed: it does not end"


def test_it_is_failed_at_once_with_an_attempt_that_has_an_end_and_no_exit_code():
    job = after(running(), force_fail(), now=at(9))

    (attempt,) = job.attempts
    assert marks(job) == (Status.FAILED, WHY, False, False)
    assert (job.attempt, job.stopped_at) == (None, at(9))
    assert (attempt.started_at, attempt.stopped_at, attempt.exit_code) == (at(0), at(9), None)
    assert attempt.status_reason == WHY


def test_the_reason_of_the_order_that_was_not_followed_stands_beside_it():
    job = after(running(), terminate("enough"), asked(), grace_over(), force_fail())

    assert marks(job) == (Status.FAILED, f"{WHY} (ordered to stop: enough)", False, True)


def test_attempts_left_do_not_save_it():
    assert after(running(attempts=5), force_fail()).status is Status.FAILED


def test_a_remembered_cancel_does_not_give_it_another_reason():
    assert marks(after(running(), cancel(), force_fail())) == (Status.FAILED, WHY, False, False)


def test_one_that_may_never_have_started_is_given_up_too():
    job, effects = lived(starting(), force_fail(), now=at(3))

    assert (job.status, job.attempts[0].started_at, job.attempts[0].stopped_at) == (Status.FAILED, None, at(3))
    assert [type(it) for it in effects] == [do.CleanUpContainer]


def test_an_end_before_the_beginning_is_not_told():
    job = after(running(), force_fail(), now=at(-5))

    assert job.stopped_at == job.attempts[0].stopped_at == at(0)


@pytest.mark.parametrize("news", [started(), exited(0), asked(), force_fail("again"), terminate("late")])
def test_what_is_heard_of_it_later_changes_nothing(news):
    over = after(running(), force_fail())

    assert lived(over, news) == (over, ())


def test_one_that_is_over_stays_as_it_is():
    over = after(running(), exited(0))

    assert over.status in FINISHED
    assert lived(over, force_fail()) == (over, ())


def test_of_a_task_every_container_is_given_up_also_those_that_wait_and_those_that_are_kept():
    waits = task_container("waits", essential=False, after={"init": "SUCCESS", "sidecar": "COMPLETE"})
    init = task_container("init", essential=False)
    job = after(tasked(app(), sidecar(), init, waits), runs("0/app"), runs("0/init"), ends("0/init"))

    over, effects = lived(job, force_fail(), now=at(9))

    assert set(states(over).values()) == {AttemptContainerState.ENDED}
    assert (over.status, over.status_reason) == (Status.FAILED, WHY)
    assert sorted(map(in_words, effects)) == ["clear 0/app", "clear 0/init", "clear 0/sidecar"]
    assert (part(over, "0/app").reason, part(over, "0/app").stopped_at) == (WHY, at(9))
    assert part(over, "0/init") == part(job, "0/init")


def test_of_a_gang_those_that_never_began_want_nothing():
    over, effects = lived(after(ganged(), runs("0/app")), force_fail())

    assert over.status is Status.FAILED
    assert "clear 0/app" in map(in_words, effects)
    assert all(in_words(it).startswith("clear") for it in effects)
