"""Waits for events of a real server, with a time limit, and small job definitions."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from socket import socket
from typing import Any

from tests.support.docker_api import docker_api
from tests.support.service import PATIENCE

UNTIL_SIGNALLED = ("sh", "-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.1; done")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def reaches(batch: Any, job_id: str, *statuses: str) -> dict[str, Any]:
    """Wait until the job has one of these statuses. Returns its description."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
        if job["status"] in statuses:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{job_id} is {job['status']}, not {statuses}: {job}")


def wait_for_output(service: Any, job_id: str, message: str) -> None:
    """Wait until the log of a job has the line `message`."""
    job = reaches(service.client(), job_id, "RUNNING", "SUCCEEDED", "FAILED")
    stream = job["container"]["logStreamName"]
    end = time.monotonic() + PATIENCE
    while message not in (lines := output(service, stream)):
        assert time.monotonic() < end, f"{job_id} has no line {message!r}, but {lines}"
        time.sleep(0.05)


def end_by_signal(containers: Iterable[str]) -> None:
    """End containers that run UNTIL_SIGNALLED and have printed `ready`. The signal is not one of a stop."""
    with closing(docker_api()) as engine:
        for other_container in containers:
            engine.kill(other_container, "USR1")


def is_closed(connection: socket) -> bool:
    """Whether the peer has closed the connection."""
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
    return [event["message"] for event in page["events"]]


def container(*command: str, image: str = "batchq-test:latest") -> dict[str, Any]:
    """containerProperties of a small job."""
    return {
        "image": image,
        "command": list(command),
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "32"}],
    }


def register(batch: Any, name: str, *command: str) -> None:
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=container(*command))
