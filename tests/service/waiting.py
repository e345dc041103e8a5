"""Waiting for what a real server will do, and not for ever."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from socket import socket
from typing import Any

from tests.support.docker_api import docker_api
from tests.support.service import PATIENCE

UNTIL_TOLD = ("sh", "-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.1; done")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def reaches(batch: Any, job_id: str, *statuses: str) -> dict[str, Any]:
    """The job as described when it is in one of these statuses."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
        if job["status"] in statuses:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{job_id} is {job['status']}, not {statuses}: {job}")


def says(service: Any, job_id: str, message: str) -> None:
    """Until it does: its output is told while it runs."""
    job = reaches(service.client(), job_id, "RUNNING", "SUCCEEDED", "FAILED")
    stream = job["container"]["logStreamName"]
    end = time.monotonic() + PATIENCE
    while message not in (told := output(service, stream)):
        assert time.monotonic() < end, f"{job_id} never says {message!r}, but {told}"
        time.sleep(0.05)


def tell_to_end(containers: Iterable[str]) -> None:
    """Those of `UNTIL_TOLD`, once they say that they are ready: by a signal that is no stop."""
    with closing(docker_api()) as engine:
        for it in containers:
            engine.kill(it, "USR1")


def is_over(connection: socket) -> bool:
    """Whether the other end has hung up on who waits for it to say something."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def output(service: Any, stream: str) -> list[str]:
    logs = service.client("logs")
    page = logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream, startFromHead=True)
    return [it["message"] for it in page["events"]]


def container(*command: str, image: str = "batchq-test:latest") -> dict[str, Any]:
    """containerProperties of a small job."""
    return {
        "image": image,
        "command": list(command),
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "32"}],
    }


def register(batch: Any, name: str, *command: str) -> None:
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=container(*command))
