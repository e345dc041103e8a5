"""What follows for a job from its dependencies, and which jobs AWS accepts and then fails."""

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.container import Overrides
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.domain.scheduling.dependencies import evaluate_dependencies, invalid_overrides
from tests.support.builders import job

DONE, ALSO_DONE = job(status=Status.SUCCEEDED), job(status=Status.SUCCEEDED)
FAILED, RUNS, UNDECIDED = job(status=Status.FAILED), job(status=Status.RUNNING), job(status=Status.SUBMITTED)
UNKNOWN = JobId("unknown")


@pytest.mark.parametrize(
    ("dependencies", "event"),
    [
        ((), on.DependenciesMet()),
        ((DONE, ALSO_DONE), on.DependenciesMet()),
        ((DONE, RUNS), on.DependenciesPending()),
        ((UNDECIDED,), on.DependenciesPending()),
        ((DONE, RUNS, FAILED), on.DependencyFailed(job_id=FAILED.id)),
        ((UNKNOWN, DONE), on.DependencyFailed(job_id=UNKNOWN)),
    ],
)
def test_the_dependencies_of_a_job_decide_what_follows(dependencies, event):
    known = {dependency.id: dependency for dependency in dependencies if dependency is not UNKNOWN}

    assert evaluate_dependencies(job(depends_on=dependencies), known) == event


def test_an_invalid_job_fails_whatever_its_dependencies():
    found = evaluate_dependencies(job(invalid="why", depends_on=(RUNS,)), {RUNS.id: RUNS})

    assert found == on.FoundInvalid(reason="why")


FRAME = len('{"command":[""],"environment":[]}')
LONGEST = Overrides(command=("a" * (8192 - FRAME),))


@pytest.mark.parametrize(
    ("overrides", "tags", "why"),
    [
        (LONGEST, 50, None),
        (LONGEST, 51, status_reasons.TOO_MANY_TAGS),
        (Overrides(command=("a" * (8193 - FRAME),)), 0, status_reasons.OVERRIDES_TOO_LONG),
        (Overrides(environment=(("NAME", "a" * 8192),)), 0, status_reasons.OVERRIDES_TOO_LONG),
    ],
)
def test_longer_overrides_and_more_tags_are_invalid(overrides, tags, why):
    assert invalid_overrides(overrides, tags) == why
