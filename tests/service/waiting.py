"""Waits for events of a real server, with a time limit; queues and small job definitions."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from socket import socket
from types import MappingProxyType
from typing import Any

from tests.support.docker_api import docker_api
from tests.support.service import PATIENCE

UNTIL_SIGNALLED = ("sh", "-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.1; done")


def until(holds: Callable[[], object], report: Callable[[], object] = str, *, patience: float = PATIENCE) -> None:
    """Wait until the condition holds. The failure after `patience` seconds shows what `report` returns."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, report()
        time.sleep(0.05)


def reaches(batch: Any, job_id: str, *statuses: str) -> dict[str, Any]:
    """Wait until the job has one of these statuses. Returns its description. The job may be a child not created yet."""
    jobs: list[dict[str, Any]] = []

    def is_there() -> bool:
        jobs[:] = batch.describe_jobs(jobs=[job_id])["jobs"]
        return bool(jobs) and jobs[0]["status"] in statuses

    until(is_there, lambda: f"{job_id} is not {statuses}: {jobs}")
    return jobs[0]


def wait_for_output(service: Any, job_id: str, message: str) -> None:
    """Wait until the log of a job has the line `message`."""
    job = reaches(service.client(), job_id, "RUNNING", "SUCCEEDED", "FAILED")
    stream = job["container"]["logStreamName"]
    until(
        lambda: message in output(service, stream),
        lambda: f"{job_id} has no line {message!r}, but {output(service, stream)}",
    )


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
    return list(stored_lines(service, stream))


def stored_lines(service: Any, stream: str) -> Iterator[str]:
    """The messages of a log stream, page by page."""
    logs, members = service.client("logs"), {"logGroupName": "/aws/batch/job", "logStreamName": stream}
    page, after = logs.get_log_events(**members, startFromHead=True), None
    while page["nextForwardToken"] != after:
        yield from (event["message"] for event in page["events"])
        after = page["nextForwardToken"]
        page = logs.get_log_events(**members, startFromHead=True, nextToken=after)


def container(
    *command: str, image: str = "batchq-test:latest", vcpus: float = 1, memory: int = 32, **members: Any
) -> dict[str, Any]:
    """containerProperties of a small job; `memory` in MiB."""
    requirements = [{"type": "VCPU", "value": str(vcpus)}, {"type": "MEMORY", "value": str(memory)}]
    return {"image": image, "command": list(command), "resourceRequirements": requirements} | members


def create_queue(
    batch: Any, name: str, *, vcpus: int, environment: Mapping[str, Any] = MappingProxyType({}), **members: Any
) -> None:
    """Create a compute environment of this size and a queue of the same name.

    `environment`: further members of CreateComputeEnvironment. `members`: of CreateJobQueue.
    """
    resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": vcpus, "subnets": [], "instanceRole": "none"}
    batch.create_compute_environment(
        computeEnvironmentName=name, type="MANAGED", computeResources=resources, **environment
    )
    order = [{"order": 1, "computeEnvironment": name}]
    batch.create_job_queue(**{"jobQueueName": name, "priority": 1, "computeEnvironmentOrder": order} | members)


def register(batch: Any, name: str, *command: str) -> None:
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=container(*command))
