"""Toil with its batch system `aws_batch`: each job runs Toil, with the engine's socket and /tmp of this machine."""

import json
import tempfile
from contextlib import closing
from pathlib import Path

import docker
import pytest

from tests.clients.client import Client
from tests.support.service import serving

#: Toil's batch system mounts these folders of the machine into each job, whether they exist or not.
MOUNTED = [Path("/var/lib/toil"), Path("/var/lib/cwl")]
SMALL = ("--defaultMemory", "256M", "--defaultDisk", "10M", "--defaultCores", "1")


@pytest.fixture
def folders():
    """The folders that Toil mounts exist during the test."""
    made = [folder for folder in MOUNTED if not folder.exists()]
    for folder in made:
        folder.mkdir()
    yield
    for folder in made:
        folder.rmdir()


@pytest.fixture
def toil(docker_engine, folders):
    """Toil beside a server whose jobs may mount the engine's socket.

    The folder of Toil is below /tmp, so jobs find it. The data is not, because no job may mount a folder above it.
    """
    settings = ("--stop-grace", "2", "--privileged", "drop", "--engine-socket")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, tempfile.TemporaryDirectory(dir="/var/tmp") as data:
        with serving(Path(data) / "data", *settings) as service:
            yield Client(service, Path(folder))
        service.remove_containers()


@pytest.fixture
def appliance(toil, image):
    """The name of the image, with a tag for which Toil asks no registry: the commit of Toil."""
    commit = toil.run("python", "-c", "import toil.version as version; print(version.currentCommit)").stdout.strip()
    with closing(docker.from_env()) as engine:
        engine.images.get(image).tag("batchq-clients", commit)
        yield f"batchq-clients:{commit}"
        engine.images.remove(f"batchq-clients:{commit}", noprune=True)


def test_toil_runs_a_workflow_whose_jobs_use_the_engine(toil, appliance):
    batch = toil.service.client()
    (queue,) = batch.describe_job_queues(jobQueues=["default"])["jobQueues"]
    words = ("--batchSystem", "aws_batch", "--awsBatchQueue", queue["jobQueueArn"], "--awsBatchRegion", "eu-central-1")
    store = f"file:{toil.folder}/store"

    done = toil.run(
        *("python", toil.program("toil_workflow"), store, *words, *SMALL), status=None, TOIL_APPLIANCE_SELF=appliance
    )

    failed = [job["jobId"] for job in batch.list_jobs(jobQueue="default", jobStatus="FAILED")["jobSummaryList"]]
    reasons = [job["container"].get("reason") for job in batch.describe_jobs(jobs=failed or ["none"])["jobs"]]
    assert (reasons, done.returncode) == ([], 0), f"{reasons}\n{done.stderr}"
    result = json.loads(done.stdout.splitlines()[-1])
    jobs = batch.list_jobs(jobQueue="default", jobStatus="SUCCEEDED")["jobSummaryList"]
    with closing(docker.from_env()) as engine:
        assert result == {"sum": 25, "engine": engine.version()["Version"]}
    assert len(jobs) >= 3
