"""One attempt after another: placed, started, ended; and the status of the job."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.domain.lives import (
    after,
    apply_events,
    at,
    container_created,
    container_lost,
    exited,
    placed,
    runnable,
    running,
    started,
    starting,
)
from tests.support.builders import NOON


def test_a_container_created_again_has_another_id():
    assert (
        after(
            starting(), container_created(container_id="lost its place"), container_created(container_id="anew")
        ).attempt.container_id
        == "anew"
    )


def test_a_new_attempt_has_no_end_and_no_reason():
    job = after(running(attempts=2), exited(1))

    again = after(after(job, placed()), started(2, at=at(60)), now=at(61))

    assert (again.status_reason, again.started_at, again.stopped_at) == (None, at(60), None)


def test_a_second_report_of_a_start_changes_nothing():
    job = running()

    assert apply_events(job, started(at=at(-5)), now=at(1)) == (job, ())


def test_an_attempt_lost_after_the_clock_was_set_back_does_not_end_before_its_start():
    over = after(running(), container_lost(), now=at(-3600))

    assert (over.started_at, over.stopped_at) == (NOON, NOON)
    assert over.attempts[0].stopped_at == NOON


def test_a_lost_container_has_the_given_reason():
    over = after(running(), on.ContainerLost(attempt=1, reason="Container state lost"))

    assert over.status_reason == "Container state lost"


def test_lack_of_memory_is_the_reason_of_the_container():
    over = after(running(), exited(137, out_of_memory=True))

    assert over.attempts[0].reason == status_reasons.OUT_OF_MEMORY
    assert over.status_reason == status_reasons.EXITED


def test_lack_of_memory_is_no_reason_of_a_success():
    over = after(running(), exited(0, out_of_memory=True))

    assert (over.status, over.attempts[0].reason) == (Status.SUCCEEDED, None)


def test_a_start_reported_in_the_future_is_now():
    job = after(starting(), started(at=at(100)), now=at(1))

    assert job.started_at == job.attempt.started_at == at(1)


def test_an_end_reported_before_the_start_is_the_start():
    over = after(running(), exited(0, started_at=at(5), stopped_at=at(4)))

    assert (over.started_at, over.stopped_at) == (at(5), at(5))
    assert (over.attempts[0].started_at, over.attempts[0].stopped_at) == (at(5), at(5))


def test_a_job_that_became_schedulable_has_no_reason():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), on.FoundSchedulable())

    assert (job.unschedulable, job.status_reason) == (False, None)
