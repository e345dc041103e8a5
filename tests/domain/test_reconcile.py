"""The effects for each pair of a stored attempt and a surveyed container: the table of a restart."""

from datetime import timedelta

import pytest

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile, tags_running
from tests.domain.lives import after, exited, placed, runnable, running, succeeded
from tests.domain.part_lives import app, ends, runs, sidecar, task_job
from tests.support.builders import NOON

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


def is_running(tag):
    return SurveyedContainer(tag=tag, running=True)


def has_stopped(tag):
    return SurveyedContainer(tag=tag, running=False)


def test_a_container_not_yet_expected_is_not_lost():
    assert reconciled(running()) == NOTHING


def test_an_attempt_ended_since_the_survey_began_is_not_lost():
    before = running(attempts=2)
    job = after(before, exited(1), placed())

    assert reconciled(job, expected=[before.tag]) == ((), (do.StartContainer(tag=job.tag),), ())


def test_a_job_without_an_attempt_under_way_has_no_running_container():
    assert tags_running(succeeded()) == tags_running(runnable()) == ()


FIRST = running(attempts=2)
SEVERAL = after(task_job(app(), sidecar()), runs("0/app"), runs("0/sidecar"), ends("0/sidecar"))
QUEUED = runnable()


def tag(job, key=""):
    return Tag(job_id=job.id, attempt=1, container_key=key)


@pytest.mark.parametrize(
    ("job", "seen", "left"),
    [
        (after(FIRST, exited(1)), [has_stopped(FIRST.tag)], [""]),
        (QUEUED, [is_running(tag(QUEUED))], [""]),
        (SEVERAL, [is_running(tag(SEVERAL, "0/app")), has_stopped(tag(SEVERAL, "0/sidecar"))], ["0/sidecar"]),
        (SEVERAL, [is_running(tag(SEVERAL, "0/app")), is_running(tag(SEVERAL, "7/app"))], ["7/app"]),
        (
            after(SEVERAL, ends("0/app")),
            [has_stopped(tag(SEVERAL, "0/app")), has_stopped(tag(SEVERAL, "0/sidecar"))],
            ["0/app", "0/sidecar"],
        ),
    ],
    ids=["waits for a retry", "was never placed", "others run", "unknown to its job", "has finished"],
)
def test_a_container_that_a_stored_job_no_longer_needs_is_cleaned_up(job, seen, left):
    effects = tuple(do.CleanUpContainer(tag=tag(job, key)) for key in left)

    assert reconciled(job, seen=seen, expected=[container.tag for container in seen if container.running]) == (
        (),
        effects,
        (),
    )


LATER, EARLIER = NOON + timedelta(minutes=1), NOON - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("lost_before", "reason"),
    [
        (LATER, status_reasons.HOST_TERMINATED),
        (EARLIER, status_reasons.DISAPPEARED),
        (None, status_reasons.DISAPPEARED),
    ],
    ids=["went down since", "went down before", "unknown"],
)
@pytest.mark.parametrize("job", [running(), after(task_job(app()), runs("0/app"))], ids=["one container", "several"])
def test_an_absent_container_was_lost_with_its_host(job, lost_before, reason):
    (expected,) = tags_running(job)

    found = reconcile(active={job.id: job}, known=(), surveyed=(), expected=[expected], lost_before=lost_before)

    lost = on.ContainerLost(attempt=1, container_key=expected.container_key, reason=reason)
    assert found.events == ((job.id, lost),)
