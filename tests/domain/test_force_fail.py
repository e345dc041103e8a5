"""Force-fail: a job ends without its container, which does not exit."""

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


def test_a_force_failed_job_fails_at_once_without_an_exit_code():
    job = after(running(), force_fail(), now=at(9))

    (attempt,) = job.attempts
    assert marks(job) == (Status.FAILED, WHY, False, False)
    assert (job.attempt, job.stopped_at) == (None, at(9))
    assert (attempt.started_at, attempt.stopped_at, attempt.exit_code) == (at(0), at(9), None)
    assert attempt.status_reason == WHY


def test_the_reason_includes_the_stop_order_without_an_effect():
    job = after(running(), terminate("enough"), asked(), grace_over(), force_fail())

    assert marks(job) == (Status.FAILED, f"{WHY} (ordered to stop: enough)", False, True)


def test_a_force_failed_job_is_not_retried():
    assert after(running(attempts=5), force_fail()).status is Status.FAILED


def test_a_remembered_cancel_does_not_change_the_reason():
    assert marks(after(running(), cancel(), force_fail())) == (Status.FAILED, WHY, False, False)


def test_a_starting_job_can_be_force_failed():
    job, effects = lived(starting(), force_fail(), now=at(3))

    assert (job.status, job.attempts[0].started_at, job.attempts[0].stopped_at) == (Status.FAILED, None, at(3))
    assert [type(it) for it in effects] == [do.CleanUpContainer]


def test_the_end_is_not_before_the_start():
    job = after(running(), force_fail(), now=at(-5))

    assert job.stopped_at == job.attempts[0].stopped_at == at(0)


@pytest.mark.parametrize("news", [started(), exited(0), asked(), force_fail("again"), terminate("late")])
def test_later_events_change_nothing(news):
    over = after(running(), force_fail())

    assert lived(over, news) == (over, ())


def test_a_finished_job_is_unchanged():
    over = after(running(), exited(0))

    assert over.status in FINISHED
    assert lived(over, force_fail()) == (over, ())


def test_all_containers_of_a_task_are_force_failed():
    waits = task_container("waits", essential=False, after={"init": "SUCCESS", "sidecar": "COMPLETE"})
    init = task_container("init", essential=False)
    job = after(tasked(app(), sidecar(), init, waits), runs("0/app"), runs("0/init"), ends("0/init"))

    over, effects = lived(job, force_fail(), now=at(9))

    assert set(states(over).values()) == {AttemptContainerState.ENDED}
    assert (over.status, over.status_reason) == (Status.FAILED, WHY)
    assert sorted(map(in_words, effects)) == ["clear 0/app", "clear 0/init", "clear 0/sidecar"]
    assert (part(over, "0/app").reason, part(over, "0/app").stopped_at) == (WHY, at(9))
    assert part(over, "0/init") == part(job, "0/init")


def test_nodes_that_never_started_need_no_clean_up():
    over, effects = lived(after(ganged(), runs("0/app")), force_fail())

    assert over.status is Status.FAILED
    assert "clear 0/app" in map(in_words, effects)
    assert all(in_words(it).startswith("clear") for it in effects)
