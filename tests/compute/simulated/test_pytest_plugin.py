"""The pytest plugin: a server with simulated containers for each test. docs/ci.md runs its example."""

import time

import pytest

from batchq.cli.http_client import call
from batchq.ports.responses.jobs import SearchResponse

pytestmark = pytest.mark.batchq_outcome("f*", exit_code=3)
REQUIREMENTS = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]


def run(server, name):
    """The status of a new job of this name, when it has ended, and its exit code."""
    container = {"image": "registry.example/step", "resourceRequirements": REQUIREMENTS}
    definition = {"jobDefinitionName": "step", "type": "container", "containerProperties": container}
    call(server.url, "/v1/registerjobdefinition", definition, answer=dict)
    call(server.url, "/v1/submitjob", {"jobName": name, "jobQueue": "default", "jobDefinition": "step"}, answer=dict)
    while True:
        (job,) = jobs_named(server, name)
        if job.status in {"SUCCEEDED", "FAILED"}:
            return job.status, job.exit_code
        time.sleep(0.02)


def jobs_named(server, name):
    return call(server.url, "/v1/batchq/listjobs", {"jobNames": [name]}, answer=SearchResponse).jobs


@pytest.mark.batchq_outcome("fit", exit_code=4)
def test_the_outcome_of_the_test_takes_precedence_over_that_of_the_module(batchq):
    assert [run(batchq, name) for name in ("fit", "fetch", "other")] == [("FAILED", 4), ("FAILED", 3), ("SUCCEEDED", 0)]


def test_the_last_plan_applies(batchq):
    batchq.plan("other", exit_code=5)
    batchq.plan("*", exit_code=6)
    batchq.plan("other", exit_code=7)

    assert [run(batchq, name) for name in ("other", "fetch")] == [("FAILED", 7), ("FAILED", 6)]


def test_a_test_does_not_see_the_jobs_of_another_one(batchq):
    assert jobs_named(batchq, "other") == ()


def test_an_unknown_member_of_an_outcome_is_refused(batchq):
    with pytest.raises(ValueError, match="exit_cod"):
        batchq.plan("other", exit_cod=1)
