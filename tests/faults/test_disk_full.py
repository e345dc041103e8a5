"""A data directory on a mounted file system that is really full, or read-only."""

import shutil
import subprocess
import time
from contextlib import closing, suppress

import pytest
from botocore.exceptions import ClientError
from docker.errors import APIError

from tests.service.test_serve import refused
from tests.service.waiting import PATIENCE, UNTIL_SIGNALLED, reaches, register, until
from tests.support.docker_api import docker_api
from tests.support.service import serving

pytestmark = pytest.mark.docker

HALF_A_PAGE = 2048
MIB = 2**20


class Small:
    """A small file system."""

    def __init__(self, path):
        self.data = path / "data"
        self._ballast = path / "ballast"

    def fill(self):
        """Fill the disk to the last byte."""
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(b"x" * HALF_A_PAGE):
                pass

    def make_room(self):
        self._ballast.unlink()

    def protect(self):
        """Make the file system read-only."""
        subprocess.run(["mount", "-o", "remount,ro", self._ballast.parent], check=True)


@pytest.fixture
def small(request, tmp_path):
    path = tmp_path / "small"
    path.mkdir()
    size = getattr(request, "param", "2m")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True)
    yield Small(path)
    subprocess.run(["umount", path], check=True)


@pytest.fixture
def service(small):
    with serving(small.data, "--stop-grace", "1", "--min-free-mib", "0") as service:
        batch = service.client()
        register(batch, "short", *UNTIL_SIGNALLED)
        register(batch, "quick", "true")
        yield service
        small.make_room()
    service.remove_containers()


def submit(batch, name):
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


@pytest.mark.fault("DB03", "DB04")
def test_a_container_that_ended_on_a_full_disk_is_kept_until_its_end_is_saved(service, small):
    batch = service.client(tries=1)
    job = submit(batch, "short")
    reaches(batch, job, "RUNNING")

    small.fill()
    with pytest.raises(ClientError, match="ServerException"):
        submit(batch, "quick")
    (kept,) = until_ended(service)
    (meanwhile,) = batch.describe_jobs(jobs=[job])["jobs"]
    health = service.health()
    small.make_room()
    done = reaches(batch, job, "SUCCEEDED")
    after = reaches(batch, submit(batch, "quick"), "SUCCEEDED")
    small.fill()

    assert kept["State"] == "exited"
    assert meanwhile["status"] == "RUNNING"
    assert (health["status"], "full" in health["store"]) == ("degraded", True)
    assert [attempt["container"]["exitCode"] for attempt in done["attempts"]] == [0]
    assert len(after["attempts"]) == 1
    assert len(batch.list_jobs(jobQueue="default", jobStatus="SUCCEEDED")["jobSummaryList"]) == 2


def until_ended(service):
    """Its containers, once all have got the signal and have exited."""
    end = time.monotonic() + PATIENCE
    with closing(docker_api()) as engine:
        while running := [container["Id"] for container in service.containers() if container["State"] == "running"]:
            assert time.monotonic() < end, running
            for container in running:
                with suppress(APIError):  # over by now
                    engine.kill(container, "USR1")
            time.sleep(0.1)
    return service.containers()


@pytest.mark.fault("DB16")
def test_on_a_read_only_file_system_the_server_refuses_to_start(small):
    with serving(small.data, "--runtime", "simulated"):
        pass
    small.protect()

    status, line = refused("--data", small.data, "--port", 0, "--runtime", "simulated")

    assert status == 1
    assert "cannot use the data directory" in line
    assert "Read-only file system" in line


@pytest.mark.fault("SE27")
@pytest.mark.parametrize("small", ["100m"], indirect=True)
def test_a_log_larger_than_the_disk_stops_above_the_minimum_and_ends_are_saved_on_a_full_one(small):
    with serving(small.data, "--stop-grace", "1") as service:
        batch = service.client(tries=1)
        register(batch, "short", *UNTIL_SIGNALLED)
        register(batch, "much", "sh", "-c", "yes $(head -c 8000 /dev/zero | tr '\\0' x) | head -c 110000000")
        terminated, much = submit(batch, "short"), submit(batch, "much")
        reaches(batch, terminated, "RUNNING")
        much = reaches(batch, much, "SUCCEEDED")
        until(lambda: len(service.containers()) == 1)  # a container is removed when its log is stored

        free = shutil.disk_usage(small.data).free
        stream = {"logGroupName": "/aws/batch/job", "logStreamName": much["container"]["logStreamName"]}
        last = service.client("logs").get_log_events(**stream, limit=1)["events"][-1]["message"]
        small.fill()
        batch.terminate_job(jobId=terminated, reason="enough")

        assert 50 * MIB < free < 64 * MIB
        assert "capture stopped" in last
        assert "lost" in last
        assert reaches(batch, terminated, "FAILED")["statusReason"] == "enough"
        assert service.health()["reserve"] != "ok"
        small.make_room()
    service.remove_containers()
