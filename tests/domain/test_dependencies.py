import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.container import Overrides
from batchq.domain.ids import JobId
from batchq.domain.job import Status
from batchq.domain.scheduling.dependencies import evaluate_dependencies, invalid_overrides
from tests.support.builders import job

DONE = job(status=Status.SUCCEEDED)
FAILED = job(status=Status.FAILED)
RUNS = job(status=Status.RUNNING)


def event_for(*dependencies):
    return evaluate_dependencies(job(depends_on=dependencies), {it.id: it for it in dependencies})


def test_a_job_without_dependencies_is_ready():
    assert evaluate_dependencies(job(), {}) == on.DependenciesMet()


def test_a_job_is_ready_when_all_dependencies_have_succeeded():
    assert event_for(DONE, job(status=Status.SUCCEEDED)) == on.DependenciesMet()


def test_a_job_waits_for_the_last_of_its_dependencies():
    assert event_for(DONE, RUNS) == on.DependenciesPending()


def test_a_job_waits_for_an_undecided_dependency():
    assert event_for(job(status=Status.SUBMITTED)) == on.DependenciesPending()


def test_a_failed_dependency_fails_the_job_while_others_run():
    assert event_for(DONE, RUNS, FAILED) == on.DependencyFailed(job_id=FAILED.id)


def test_an_unknown_dependency_has_failed():
    forgetful = job(depends_on=(JobId("forgotten"), DONE))

    assert evaluate_dependencies(forgetful, {DONE.id: DONE}) == on.DependencyFailed(job_id=JobId("forgotten"))


FRAME = len('{"command":[""],"environment":[]}')
BOUND = Overrides(command=("a" * (8192 - FRAME),))
BEYOND = {
    "command": Overrides(command=("a" * (8193 - FRAME),)),
    "environment": Overrides(environment=(("NAME", "a" * 8192),)),
}


def test_overrides_and_tags_at_the_limit_are_valid():
    assert invalid_overrides(BOUND, 50) is None


@pytest.mark.parametrize("overrides", BEYOND.values(), ids=BEYOND)
def test_longer_overrides_are_invalid(overrides):
    assert invalid_overrides(overrides, 0) == status_reasons.OVERRIDES_TOO_LONG


def test_more_tags_are_invalid():
    assert invalid_overrides(BOUND, 51) == status_reasons.TOO_MANY_TAGS


def test_an_invalid_job_fails_whatever_its_dependencies():
    assert evaluate_dependencies(job(invalid="why", depends_on=(RUNS,)), {RUNS.id: RUNS}) == on.FoundInvalid(
        reason="why"
    )
