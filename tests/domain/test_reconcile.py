"""The effects for each pair of a stored attempt and a surveyed container: the table of a restart."""

from batchq.domain import effects as do
from batchq.domain.ids import Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile
from tests.domain.lives import after, exited, placed, runnable, running
from tests.domain.part_lives import app, described, ends, multi_node_job, runs, sidecar, task_job

NOTHING = ((), (), ())


def reconciled(*jobs, seen=(), expected=()):
    """Events, effects and orphans of a survey, for these known jobs."""
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


# -------------------------------------------------------------------------------------------------------------- running


def test_a_container_not_yet_expected_is_not_lost():
    job = running()

    assert reconciled(job, seen=[], expected=[]) == NOTHING


def test_an_attempt_ended_since_the_survey_began_is_not_lost():
    before = running(attempts=2)
    job = after(before, exited(1), placed())

    assert reconciled(job, expected=[before.tag]) == ((), (do.StartContainer(tag=job.tag),), ())


# ------------------------------------------------------------------------------------------------------------- starting


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_a_container_of_a_job_that_waits_for_a_retry_is_cleaned_up():
    first = running(attempts=2)
    waits = after(first, exited(1))

    assert reconciled(waits, seen=[is_over(first.tag)]) == ((), (do.CleanUpContainer(tag=first.tag),), ())


def test_a_container_of_a_queued_job_without_attempts_is_cleaned_up():
    job = runnable()
    tag = Tag(job_id=job.id, attempt=1)

    assert reconciled(job, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def tag(job, key):
    return Tag(job_id=job.id, attempt=1, container_key=key)


def effects(job, *, seen=(), expected=()):
    """The effects of a survey with these containers, when these others were expected."""
    found = reconciled(job, seen=seen, expected=[tag(job, key) for key in expected])
    return [described(it) for it in found[1]]


def test_an_ended_container_that_still_exists_is_cleaned_up():
    job = after(task_job(app(), sidecar()), runs("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [lives(tag(job, "0/app")), is_over(tag(job, "0/sidecar"))]

    assert effects(job, seen=seen, expected=["0/app"]) == ["clear 0/sidecar"]


def test_a_container_that_exists_without_a_start_is_cleaned_up():
    job = after(multi_node_job(), runs("0/app"), ends("0/app"))

    assert "clear 7/app" in effects(job, seen=[lives(tag(job, "7/app"))])


def test_all_containers_of_a_finished_job_are_cleaned_up():
    job = after(task_job(app(), sidecar()), ends("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [is_over(tag(job, key)) for key in ("0/app", "0/sidecar")]

    assert effects(job, seen=seen) == ["clear 0/app", "clear 0/sidecar"]
