"""Unusual commands: each job ends as its container does, and the server is not affected."""

import pytest

from tests.service.waiting import reaches, register

pytestmark = pytest.mark.docker

FINE = {
    "none": [],
    "a missing parameter": ["test", "Ref::missing", "=", "Ref::missing"],
    "twenty kilobytes": ["test", "x" * 20_000],
    "a line break": ["printf", "a\n\x1b[31mb"],
}
WRONG = {"a blank": [" "], "an option": ["--privileged"], "a line break in a name": ["no\nsuch"], "a directory": ["/"]}


@pytest.mark.fault("IN17")
def test_a_job_ends_as_its_container_does_whatever_its_command(docker_service):
    batch = docker_service.client()

    jobs = {name: submitted(batch, name.replace(" ", "-"), words) for name, words in (FINE | WRONG).items()}

    ended = {name: reaches(batch, job_id, "SUCCEEDED", "FAILED") for name, job_id in jobs.items()}
    statuses = {name: job["status"] for name, job in ended.items()}
    assert statuses == dict.fromkeys(FINE, "SUCCEEDED") | dict.fromkeys(WRONG, "FAILED")
    assert [len(job["attempts"]) for job in ended.values()] == [1] * len(ended)
    assert docker_service.health()["status"] == "ok"
    assert "ERROR" not in docker_service.log.read_text()


def submitted(batch, name, words):
    register(batch, name, *words)
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]
