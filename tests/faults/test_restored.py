"""A real server on a backup older than the containers of a real engine; more in `tests/scenarios/test_restored.py`."""

import shutil
import subprocess

import pytest

from batchq.cli.main import main
from tests.service.waiting import container, reaches, until
from tests.support.service import BATCHQ, Service, serving

pytestmark = [pytest.mark.docker, pytest.mark.fault("DB13")]


@pytest.fixture
def service(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        batch.update_compute_environment(computeEnvironment="local", computeResources={"maxvCpus": 4})
        yield service
    service.remove_containers()


def submit(batch, name, *command, vcpus="1"):
    properties = container(*command)
    properties["resourceRequirements"][0]["value"] = vcpus
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


def alive(service: Service):
    """The containers that run, by job."""
    return {
        other_container["Labels"]["io.batchq.job"]: other_container["Id"]
        for other_container in service.containers()
        if other_container["State"] == "running"
    }


def test_running_jobs_are_attached_and_nothing_is_started_or_killed_in_safe_mode(service, tmp_path):
    batch = service.client()
    ran_then = submit(batch, "ran-then", "sleep", "600")
    in_the_way = submit(batch, "in-the-way", "sleep", "600", vcpus="3")
    waited_then = submit(batch, "waited-then", "sleep", "600")
    reaches(batch, ran_then, "RUNNING")
    reaches(batch, in_the_way, "RUNNING")
    assert main(["backup", str(tmp_path / "copy.db"), "--data", str(service.data)]) == 0
    batch.terminate_job(jobId=in_the_way, reason="done")
    reaches(batch, in_the_way, "FAILED")
    came_later = submit(batch, "came-later", "sleep", "600")
    reaches(batch, waited_then, "RUNNING")
    reaches(batch, came_later, "RUNNING")
    before = alive(service)

    service.stop()
    assert main(["restore", str(tmp_path / "copy.db"), "--data", str(service.data)]) == 0
    service.start()

    batch = service.client()
    taken_up = reaches(batch, waited_then, "RUNNING")
    fresh = submit(batch, "fresh", "true")
    assert [attempt["container"]["exitCode"] for attempt in taken_up["attempts"] if "container" in attempt] == []
    assert reaches(batch, ran_then, "RUNNING")["startedAt"] > 0
    assert batch.describe_jobs(jobs=[came_later])["jobs"] == []
    assert batch.describe_jobs(jobs=[fresh])["jobs"][0]["status"] == "RUNNABLE"
    assert service.health()["status"] == "degraded"
    until(lambda: "1 unknown container" in service.health()["data"])
    assert alive(service) == before
    assert set(before) == {ran_then, waited_then, came_later}

    assert main(["leave-safe-mode", "--purge", "--url", service.url]) == 0

    reaches(batch, fresh, "SUCCEEDED")
    assert reaches(batch, in_the_way, "FAILED")["statusReason"]
    until(lambda: set(alive(service)) == {ran_then, waited_then})
    until(lambda: service.health()["status"] == "ok")
    for job in (ran_then, waited_then):
        batch.terminate_job(jobId=job, reason="the test is over")
        reaches(batch, job, "FAILED")


@pytest.mark.fault("CO02")
def test_a_backup_served_beside_the_running_server_leaves_its_containers_alone(service, tmp_path):
    batch = service.client()
    job = submit(batch, "long", "sleep", "600")
    reaches(batch, job, "RUNNING")
    before = alive(service)
    trial, copied, taken_over = (tmp_path / name for name in ("trial", "copied", "taken-over"))
    assert main(["backup", str(tmp_path / "copy.db"), "--data", str(service.data)]) == 0
    assert main(["restore", str(tmp_path / "copy.db"), "--data", str(trial)]) == 0
    assert main(["restore", str(tmp_path / "copy.db"), "--data", str(taken_over), "--take-over"]) == 0
    shutil.copytree(service.data, copied)

    with serving(trial) as beside:
        assert main(["leave-safe-mode", "--purge", "--url", beside.url]) == 0
        until(lambda: beside.client().describe_jobs(jobs=[job])["jobs"][0]["status"] == "FAILED")
        assert beside.instance != service.instance
    for other, why in ((copied, "is a copy of the data of instance"), (taken_over, f"process {service.process.pid}")):
        command = [BATCHQ, "serve", "--data", other, "--port", "0"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert why in refused.stderr

    assert alive(service) == before
    assert batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "RUNNING"
