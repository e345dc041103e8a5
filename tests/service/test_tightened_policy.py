"""What jobs may use of the machine is checked when they start, by the server that starts them."""

import json
import urllib.request

import pytest

from tests.service.waiting import container, reaches
from tests.support.service import Service, serving

pytestmark = pytest.mark.docker


def held(batch, name, **asked):
    """A job that waits, because its environment is disabled."""
    properties = container("true") | asked
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


def mounting(path):
    return {
        "volumes": [{"name": "v", "host": {"sourcePath": str(path)}}],
        "mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}],
    }


@pytest.fixture
def queued(tmp_path):
    """Jobs of a server that allows everything, which has gone without starting them; by what they ask for."""
    with serving(tmp_path / "data") as loose:
        batch = loose.client()
        batch.update_compute_environment(computeEnvironment="local", state="DISABLED")
        disk = {"linuxParameters": {"devices": [{"hostPath": "/dev/null"}]}}
        jobs = {
            "privileges": held(batch, "privileges", privileged=True),
            "a device": held(batch, "device", **disk),
            "a path": held(batch, "path", **mounting(tmp_path / "outside")),
            "a link": held(batch, "link", **mounting(tmp_path / "allowed" / "link")),
            "nothing": held(batch, "nothing"),
        }
        assert [reaches(batch, it, "RUNNABLE")["attempts"] for it in jobs.values()] == [[]] * len(jobs)
    return jobs


@pytest.fixture
def tightened(tmp_path, queued):
    """The same data, served by one that allows next to nothing; and that has been led astray by a link."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(tmp_path)
    service = Service(tmp_path / "data", "--privileged", "refuse", "--volumes", str(allowed)).start()
    yield service
    service.stop()
    service.sweep()


def walk(service, job_id):
    """The statuses it has been in."""
    with urllib.request.urlopen(f"{service.url}/v1/batchq/jobs/{job_id}/history") as answer:
        return {moment["status"] for moment in json.load(answer)["history"]}


@pytest.mark.fault("SE09", "SE10")
def test_jobs_queued_under_an_older_policy_get_the_newer_one(tmp_path, queued, tightened):
    batch = tightened.client()

    batch.update_compute_environment(computeEnvironment="local", state="ENABLED")

    fine = reaches(batch, queued.pop("nothing"), "SUCCEEDED", "FAILED")
    refused = {what: reaches(batch, job_id, "SUCCEEDED", "FAILED") for what, job_id in queued.items()}
    assert fine["status"] == "SUCCEEDED"
    assert {what: job["status"] for what, job in refused.items()} == dict.fromkeys(refused, "FAILED")
    assert [len(job["attempts"]) for job in refused.values()] == [1] * len(refused)
    reasons = {what: job["attempts"][0]["container"]["reason"] for what, job in refused.items()}
    assert "privileged" in reasons["privileges"]
    assert "not below a path that this server permits" in reasons["a path"]
    assert [walk(tightened, job_id) & {"RUNNING", "SUCCEEDED"} for job_id in queued.values()] == [set()] * len(refused)
    assert not (tmp_path / "outside").exists()
