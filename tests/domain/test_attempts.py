"""One attempt after another: placed, started, ended; and the status of the job."""

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, Status
from tests.domain.lives import (
    after,
    at,
    exited,
    lived,
    lost,
    made,
    not_started,
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
from tests.support.builders import NOON, job_id


def test_a_placed_job_has_its_first_attempt_on_that_environment():
    job = runnable()

    placed_job, effects = lived(job, on.Placed(environment="big"))

    assert placed_job.attempt == Attempt(number=1, environment="big", placed_at=NOON)
    assert effects == (do.StartContainer(tag=Tag(job_id=job.id, attempt=1)),)


def test_the_container_id_is_stored_before_and_after_the_start():
    job = after(starting(), made(container_id="an id"))

    assert (job.status, job.attempt.container_id) == (Status.STARTING, "an id")
    assert after(job, started(), exited(0)).attempts[0].container_id == "an id"


def test_a_container_created_again_has_another_id():
    assert (
        after(starting(), made(container_id="lost its place"), made(container_id="anew")).attempt.container_id == "anew"
    )


def test_a_succeeded_job_has_its_attempt_with_exit_code_and_times():
    job = starting()

    over = after(job, started(at=at(1)), exited(0, started_at=at(1), stopped_at=at(9)), now=at(10))

    assert (over.status, over.status_reason, over.attempt) == (Status.SUCCEEDED, status_reasons.EXITED, None)
    assert (over.started_at, over.stopped_at) == (at(1), at(9))
    assert over.attempts == (
        Attempt(
            number=1,
            environment="local",
            placed_at=NOON,
            started_at=at(1),
            stopped_at=at(9),
            exit_code=0,
            status_reason=status_reasons.EXITED,
        ),
    )


def test_a_failed_job_has_the_reason_that_its_container_exited():
    over = after(running(), exited(3))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.EXITED)
    assert (over.attempts[0].exit_code, over.attempts[0].reason) == (3, None)


def test_an_ended_attempt_is_cleaned_up():
    job = running()

    _, effects = lived(job, exited(1))

    assert effects == (do.CleanUpContainer(tag=job.tag),)


def test_a_failed_attempt_with_attempts_left_is_runnable_again():
    job = running(attempts=2)

    again, effects = lived(job, exited(1, stopped_at=at(5)), now=at(6))

    assert (again.status, again.status_reason, again.attempt) == (Status.RUNNABLE, status_reasons.EXITED, None)
    assert again.stopped_at is None
    assert [it.exit_code for it in again.attempts] == [1]
    assert effects == (do.CleanUpContainer(tag=job.tag),)


def test_the_next_attempt_has_the_next_number_and_keeps_earlier_ones():
    job = after(running(attempts=2), exited(1), placed(), started(2))

    over = after(job, exited(0, 2))

    assert over.status is Status.SUCCEEDED
    assert [(it.number, it.exit_code) for it in over.attempts] == [(1, 1), (2, 0)]


def test_no_attempt_follows_the_last_permitted_one():
    job = after(running(attempts=2), exited(1), placed(), started(2))

    over = after(job, exited(1, 2))

    assert over.status is Status.FAILED


def test_a_new_attempt_has_no_end_and_no_reason():
    job = after(running(attempts=2), exited(1))

    again = after(after(job, placed()), started(2, at=at(60)), now=at(61))

    assert (again.status_reason, again.started_at, again.stopped_at) == (None, at(60), None)


def test_events_of_an_earlier_attempt_are_dropped():
    job = after(running(attempts=2), exited(1), placed())

    assert lived(job, started(1), exited(0, 1), lost(1), not_started(1), timed_out(1)) == (job, ())


def test_an_exit_before_the_reported_start_is_both():
    job = starting()

    over, effects = lived(job, exited(0, started_at=at(1), stopped_at=at(2)), now=at(3))

    assert (over.status, over.started_at, over.stopped_at) == (Status.SUCCEEDED, at(1), at(2))
    assert effects == (do.CleanUpContainer(tag=job.tag),)


def test_a_second_report_of_a_start_changes_nothing():
    job = running()

    assert lived(job, started(at=at(-5)), now=at(1)) == (job, ())


def test_a_failed_start_uses_up_the_attempt_with_a_reason():
    over = after(starting(), not_started(reason="CannotPullContainerError: no", exit_code=127), now=at(4))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert (over.started_at, over.stopped_at) == (None, at(4))
    assert over.attempts == (
        Attempt(
            number=1,
            environment="local",
            placed_at=NOON,
            stopped_at=at(4),
            exit_code=127,
            reason="CannotPullContainerError: no",
            status_reason=status_reasons.NOT_STARTED,
        ),
    )


def test_a_failed_start_is_retried_while_attempts_are_left():
    again = after(starting(attempts=2), not_started())

    assert (again.status, len(again.attempts)) == (Status.RUNNABLE, 1)


def test_a_lost_container_uses_up_the_attempt_and_is_retried():
    again = after(running(attempts=2), lost(), now=at(8))

    assert again.status is Status.RUNNABLE
    assert again.attempts == (
        Attempt(
            number=1,
            environment="local",
            placed_at=NOON,
            started_at=NOON,
            stopped_at=at(8),
            status_reason=status_reasons.DISAPPEARED,
        ),
    )


def test_an_attempt_lost_after_the_clock_was_set_back_does_not_end_before_its_start():
    over = after(running(), lost(), now=at(-3600))

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


def test_a_dependency_that_failed_fails_the_job():
    over = after(pending(), on.DependencyFailed(job_id=job_id(7)), now=at(2))

    assert (over.status, over.status_reason, over.stopped_at) == (
        Status.FAILED,
        status_reasons.dependency_failed(job_id(7)),
        at(2),
    )
    assert (over.attempts, over.is_cancelled, over.is_terminated) == ((), False, False)


def test_overrides_that_are_too_long_fail_the_job():
    over = after(submitted(), on.FoundInvalid(reason=status_reasons.OVERRIDES_TOO_LONG), now=at(2))

    assert (over.status, over.status_reason, over.stopped_at) == (
        Status.FAILED,
        status_reasons.OVERRIDES_TOO_LONG,
        at(2),
    )


def test_an_unschedulable_job_has_a_reason():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE))

    assert (job.unschedulable, job.status_reason) == (True, status_reasons.TOO_LARGE)


def test_a_job_that_became_schedulable_has_no_reason():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), on.FoundSchedulable())

    assert (job.unschedulable, job.status_reason) == (False, None)


def test_a_terminated_unschedulable_job_is_not_unschedulable():
    over = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), terminate("enough"))

    assert (over.unschedulable, over.status_reason) == (False, "enough")
