"""From the request to the container's death by SIGTERM: TerminateJob over HTTP, and the SDK's kill directly."""

import time
from typing import Any

import docker

from tests.bench.bare import Bare
from tests.support.service import Service

POLITE = ["sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done"]
SETTLE = 1.0  # seconds for the shell to come to its loop


def directly(bare: Bare) -> float:
    """Milliseconds from the SDK's call to the engine's event."""
    name = bare.create(*POLITE)
    bare.start(name)
    time.sleep(SETTLE)
    began = time.time_ns()
    bare.api.kill(name, "SIGTERM")
    died = death_of(bare.api, {"container": name}, began)
    bare.remove(name)
    return (died - began) / 1e6


def through_batchq(service: Service) -> float:
    """Milliseconds from boto3's call to the engine's event."""
    batch: Any = service.client()
    job_id = batch.submit_job(
        jobName="polite", jobQueue="bench", jobDefinition="true", containerOverrides={"command": POLITE}
    )["jobId"]
    while batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"] != "RUNNING":
        time.sleep(0.05)
    time.sleep(SETTLE)
    began = time.time_ns()
    batch.terminate_job(jobId=job_id, reason="bench")
    return (death_of(docker.APIClient(), {"label": f"io.batchq.job={job_id}"}, began) - began) / 1e6


def death_of(api: docker.APIClient, filters: dict[str, str], since: int) -> int:
    """When the engine says that it died, in nanoseconds since the epoch."""
    wanted = {"event": "die", **filters}
    for event in api.events(decode=True, filters=wanted, since=since // 10**9, until=since // 10**9 + 30):
        if event["timeNano"] >= since:
            return int(event["timeNano"])
    raise TimeoutError("it did not die")
