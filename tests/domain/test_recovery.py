"""What is done about each pair of a remembered attempt and a found container: the table of a restart, row by row."""

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


def test_nothing_remembered_and_nothing_found_is_well():
    assert reconciled() == NOTHING


# -------------------------------------------------------------------------------------------------------------- running


def test_a_running_job_whose_container_lives_is_well():
    job = running()

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_a_running_job_whose_container_is_over_is_looked_at():
    job = running()

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


def test_a_running_job_whose_container_is_not_there_has_lost_it():
    job = running()

    assert reconciled(job, seen=[], expected=[job.tag]) == (
        ((job.id, on.ContainerLost(attempt=1)),),
        (),
        (),
    )


def test_a_container_that_was_not_expected_yet_is_not_missed():
    job = running()

    assert reconciled(job, seen=[], expected=[]) == NOTHING


def test_an_attempt_that_ended_since_the_survey_began_is_not_missed():
    before = running(attempts=2)
    job = after(before, exited(1), placed())

    assert reconciled(job, expected=[before.tag]) == ((), (do.StartContainer(tag=job.tag),), ())


def test_the_lost_one_is_the_one_that_is_not_there():
    here, gone = running(), running()

    news, effects, strays = reconciled(here, gone, seen=[lives(here.tag)], expected=[here.tag, gone.tag])

    assert news == ((gone.id, on.ContainerLost(attempt=1)),)
    assert (effects, strays) == ((), ())


def test_an_order_that_was_not_asked_before_the_crash_is_asked():
    job = after(running(), terminate())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == ((), (do.StopContainer(tag=job.tag),), ())


def test_an_order_that_was_asked_waits_for_its_alarm():
    job = after(running(), terminate(), asked())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_a_container_that_is_over_is_looked_at_not_asked_to_stop():
    job = after(running(), terminate())

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


# ------------------------------------------------------------------------------------------------------------- starting


def test_a_starting_job_is_started_again_when_nothing_is_there():
    job = starting()

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag),), ())


def test_a_starting_job_is_never_lost():
    job = starting()

    assert reconciled(job, expected=[job.tag])[1] == (do.StartContainer(tag=job.tag),)


def test_a_starting_job_whose_container_is_there_goes_through_its_start():
    alive, over = starting(), starting()

    assert reconciled(alive, over, seen=[lives(alive.tag), is_over(over.tag)]) == (
        (),
        (do.StartContainer(tag=alive.tag), do.StartContainer(tag=over.tag)),
        (),
    )


def test_a_starting_job_that_is_to_stop_is_given_up():
    job = after(starting(), terminate())

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag), do.AbandonStart(tag=job.tag)), ())


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_a_container_of_a_job_that_is_over_is_cleared_away():
    before = running()
    over = after(before, exited(0))

    assert reconciled(over, seen=[is_over(before.tag)]) == ((), (do.CleanUpContainer(tag=before.tag),), ())


def test_a_container_that_outlived_its_job_is_cleared_away():
    over = succeeded()
    tag = Tag(job_id=over.id, attempt=1)

    assert reconciled(over, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_the_container_of_an_earlier_attempt_is_cleared_away():
    first = running(attempts=2)
    second = after(first, exited(1), placed())

    assert reconciled(second, seen=[is_over(first.tag)])[1] == (
        do.StartContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
    )


def test_a_container_of_a_job_that_waits_for_its_retry_is_cleared_away():
    first = running(attempts=2)
    waits = after(first, exited(1))

    assert reconciled(waits, seen=[is_over(first.tag)]) == ((), (do.CleanUpContainer(tag=first.tag),), ())


def test_a_container_of_a_queued_job_that_never_started_one_is_cleared_away():
    job = runnable()
    tag = Tag(job_id=job.id, attempt=1)

    assert reconciled(job, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_a_container_nobody_remembers_is_a_stray_and_is_not_touched_here():
    tag = Tag(job_id=JobId("nobody"), attempt=1)

    assert reconciled(running(), seen=[lives(tag)]) == ((), (), (tag,))
