"""What is done for each pair of a stored attempt and a surveyed container: the table of a restart."""

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import JobId, Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile
from tests.domain.lives import after, asked, exited, placed, runnable, running, starting, succeeded, terminate

NOTHING = ((), (), ())


def reconciled(*jobs, seen=(), expected=()):
    """News, effects and strays of a survey, when these are the jobs that are remembered."""
    found = reconcile(
        active={job.id: job for job in jobs if job.attempt is not None},
        known={job.id for job in jobs},
        surveyed=seen,
        expected=expected,
    )
    return found.events, found.effects, found.orphans


def lives(tag):
    return SurveyedContainer(tag=tag, running=True)


def is_over(tag):
    return SurveyedContainer(tag=tag, running=False)


def test_nothing_stored_and_nothing_found_needs_nothing():
    assert reconciled() == NOTHING


# -------------------------------------------------------------------------------------------------------------- running


def test_a_running_job_with_a_running_container_needs_nothing():
    job = running()

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_a_running_job_with_an_exited_container_is_inspected():
    job = running()

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


def test_a_running_job_without_its_container_has_lost_it():
    job = running()

    assert reconciled(job, seen=[], expected=[job.tag]) == (
        ((job.id, on.ContainerLost(attempt=1)),),
        (),
        (),
    )


def test_a_container_not_yet_expected_is_not_lost():
    job = running()

    assert reconciled(job, seen=[], expected=[]) == NOTHING


def test_an_attempt_ended_since_the_survey_began_is_not_lost():
    before = running(attempts=2)
    job = after(before, exited(1), placed())

    assert reconciled(job, expected=[before.tag]) == ((), (do.StartContainer(tag=job.tag),), ())


def test_only_the_absent_container_is_lost():
    here, gone = running(), running()

    news, effects, strays = reconciled(here, gone, seen=[lives(here.tag)], expected=[here.tag, gone.tag])

    assert news == ((gone.id, on.ContainerLost(attempt=1)),)
    assert (effects, strays) == ((), ())


def test_a_stop_order_without_a_signal_before_the_crash_is_signalled():
    job = after(running(), terminate())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == ((), (do.StopContainer(tag=job.tag),), ())


def test_a_signalled_stop_order_waits_for_its_deadline():
    job = after(running(), terminate(), asked())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_an_exited_container_is_inspected_and_not_signalled():
    job = after(running(), terminate())

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


# ------------------------------------------------------------------------------------------------------------- starting


def test_the_start_of_a_starting_job_is_repeated_without_a_container():
    job = starting()

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag),), ())


def test_a_starting_job_is_never_lost():
    job = starting()

    assert reconciled(job, expected=[job.tag])[1] == (do.StartContainer(tag=job.tag),)


def test_the_start_of_a_starting_job_with_a_container_is_repeated():
    alive, over = starting(), starting()

    assert reconciled(alive, over, seen=[lives(alive.tag), is_over(over.tag)]) == (
        (),
        (do.StartContainer(tag=alive.tag), do.StartContainer(tag=over.tag)),
        (),
    )


def test_a_starting_job_with_a_stop_order_is_abandoned():
    job = after(starting(), terminate())

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag), do.AbandonStart(tag=job.tag)), ())


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_a_container_of_a_finished_job_is_cleaned_up():
    before = running()
    over = after(before, exited(0))

    assert reconciled(over, seen=[is_over(before.tag)]) == ((), (do.CleanUpContainer(tag=before.tag),), ())


def test_a_running_container_of_a_finished_job_is_cleaned_up():
    over = succeeded()
    tag = Tag(job_id=over.id, attempt=1)

    assert reconciled(over, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_the_container_of_an_earlier_attempt_is_cleaned_up():
    first = running(attempts=2)
    second = after(first, exited(1), placed())

    assert reconciled(second, seen=[is_over(first.tag)])[1] == (
        do.StartContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
    )


def test_a_container_of_a_job_that_waits_for_a_retry_is_cleaned_up():
    first = running(attempts=2)
    waits = after(first, exited(1))

    assert reconciled(waits, seen=[is_over(first.tag)]) == ((), (do.CleanUpContainer(tag=first.tag),), ())


def test_a_container_of_a_queued_job_without_attempts_is_cleaned_up():
    job = runnable()
    tag = Tag(job_id=job.id, attempt=1)

    assert reconciled(job, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_a_container_of_an_unknown_job_is_an_orphan():
    tag = Tag(job_id=JobId("nobody"), attempt=1)

    assert reconciled(running(), seen=[lives(tag)]) == ((), (), (tag,))
