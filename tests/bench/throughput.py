"""Containers a second from submit to removed, through batchq and through the bare SDK, so many at once in both."""

import time
from typing import Any

from tests.support.service import Service

POLL = 0.5  # seconds; asking is work for the same two cores

CONTAINER = {
    "image": "batchq-test:latest",
    "command": ["true"],
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
}


def stage(batch: Any, at_once: int) -> None:
    """A queue whose environment has room for so many jobs at once."""
    resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": at_once, "subnets": [], "instanceRole": "none"}
    batch.create_compute_environment(computeEnvironmentName="bench", type="MANAGED", computeResources=resources)
    order = [{"order": 1, "computeEnvironment": "bench"}]
    batch.create_job_queue(jobQueueName="bench", priority=1, computeEnvironmentOrder=order)
    batch.register_job_definition(jobDefinitionName="true", type="container", containerProperties=CONTAINER)


def through_batchq(service: Service, count: int) -> float:
    """Containers a second, from the first SubmitJob to the last container removed."""
    batch = service.client()
    began = time.perf_counter()
    ids = [batch.submit_job(jobName="true", jobQueue="bench", jobDefinition="true")["jobId"] for _ in range(count)]
    while not all(it == "SUCCEEDED" for it in statuses(batch, ids)) or service.containers():
        time.sleep(POLL)
    return count / (time.perf_counter() - began)


def statuses(batch: Any, ids: list[str]) -> list[str]:
    """Of the last hundred; jobs of one queue end about in order."""
    return [it["status"] for it in batch.describe_jobs(jobs=ids[-100:])["jobs"]]
