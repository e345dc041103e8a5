"""Waiting for what a real server will do, and not for ever."""

import time
from typing import Any

PATIENCE = 30.0  # seconds


def reaches(batch: Any, job_id: str, *statuses: str) -> dict[str, Any]:
    """The job as described when it is in one of these statuses."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
        if job["status"] in statuses:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{job_id} is {job['status']}, not {statuses}: {job}")


def container(*command: str, image: str = "batchq-test:latest") -> dict[str, Any]:
    """containerProperties of a small job."""
    return {
        "image": image,
        "command": list(command),
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "32"}],
    }


def register(batch: Any, name: str, *command: str) -> None:
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=container(*command))
