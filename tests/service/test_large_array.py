"""The cost of a large array, and of a long queue beside it, on a real server."""

import re
import time
from pathlib import Path

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from tests.service.waiting import create_queue, register, until
from tests.store.many import filled
from tests.support.builders import job
from tests.support.service import serving
from tests.support.timing import Pauses

pytestmark = [pytest.mark.exhaustive, pytest.mark.fault("LC11")]

QUEUED, CHILDREN = 100_000, 10_000
LONGEST_SUBMIT = 2.0  # seconds
MOST_MEMORY = 128 * 1024  # KiB; some 75 MiB were measured


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Its queue `waiting` holds a hundred thousand jobs that nothing can run."""
    data = tmp_path_factory.mktemp("large") / "data"
    filled(data, QUEUED, job(number=0, status=Status.RUNNABLE, queue=QueueName("waiting")))
    with serving(data, "--runtime", "simulated") as service:
        batch = service.client()
        create_queue(batch, "waiting", vcpus=4, environment={"state": "DISABLED"})
        register(batch, "hello", "true")
        yield service


def submitted(service, **members):
    """The job's id, and the seconds that it took to submit it."""
    batch = service.client()
    with Pauses() as pauses:
        began = time.monotonic()
        job_id = batch.submit_job(jobName="hello", jobQueue="waiting", jobDefinition="hello", **members)["jobId"]
        ended = time.monotonic()
    return job_id, pauses.seconds(began, ended)


def spawned(service, job_id):
    (described,) = service.client().describe_jobs(jobs=[job_id])["jobs"]
    return sum(described["arrayProperties"]["statusSummary"].values())


def most_memory(service):
    """KiB that the server ever had in memory."""
    text = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1])


def test_a_large_array_beside_a_long_queue_uses_little_memory_and_delays_no_request(service):
    job_id, took = submitted(service, arrayProperties={"size": CHILDREN})
    until(lambda: spawned(service, job_id) == CHILDREN, lambda: spawned(service, job_id))

    _, beside = submitted(service)

    print(f"submitted in {took:.2f} s and {beside:.2f} s, {most_memory(service) // 1024} MiB")
    assert max(took, beside) < LONGEST_SUBMIT
    assert most_memory(service) < MOST_MEMORY
