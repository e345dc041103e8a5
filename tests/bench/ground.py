"""Queues and job definitions that the benches of every group use."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from batchq.compute.docker.create_request import CONTAINER_MODE, ENVIRONMENT, INSTANCE
from tests.service.waiting import container, reaches
from tests.support.docker_api import docker_api
from tests.support.service import Service, serving

GRACE = 2  # seconds
QUEUE, NOWHERE = "bench", "waiting"
ALONE = "alone"  # a queue whose jobs have no network
HERE = "/bench"  # where containers see the folder that they share with whoever measures
DEAF = "trap '' TERM; echo ready; while :; do sleep 1; done"
POLITE = "trap 'exit 0' TERM; echo ready; sleep 1000 & wait"
TELLS = f"trap 'echo TERM > {HERE}/heard; exit 0' TERM; sleep 1000 & echo ready > {HERE}/heard; wait"
ENDS_WHEN_TOLD = f"echo ready > {HERE}/heard; read _ < {HERE}/go"


@contextmanager
def on_docker(data: Path, *extra: str) -> Iterator[Service]:
    """A server on the real engine, and nothing is left of it."""
    with serving(data, "--stop-grace", str(GRACE), *extra) as service:
        yield service
    service.sweep()


@contextmanager
def simulated(data: Path) -> Iterator[Service]:
    with serving(data, "--runtime", "simulated") as service:
        yield service


def lay(batch: Any, *, at_once: int = 4, shared: Path | None = None) -> None:
    """A queue with room for so many jobs, one that nothing runs from, and definitions; `shared` is seen by jobs."""
    environment(batch, QUEUE, at_once)
    environment(batch, ALONE, at_once, **{"batchq:network": "none"})
    environment(batch, NOWHERE, 1, state="DISABLED")
    define(batch, "true", "true")
    for name, script in (("deaf", DEAF), ("polite", POLITE)):
        define(batch, name, "sh", "-c", script)
    if shared is not None:
        for name, script in (("tells", TELLS), ("ends", ENDS_WHEN_TOLD)):
            define(batch, name, "sh", "-c", script, **sees(shared))


def environment(batch: Any, name: str, vcpus: int, *, state: str = "ENABLED", **tags: str) -> None:
    """An environment, and a queue of its name."""
    resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": vcpus, "subnets": [], "instanceRole": "none"}
    batch.create_compute_environment(
        computeEnvironmentName=name, type="MANAGED", state=state, computeResources=resources, tags=tags
    )
    order = [{"order": 1, "computeEnvironment": name}]
    batch.create_job_queue(jobQueueName=name, priority=1, computeEnvironmentOrder=order)


def network_of(service: Service) -> str:
    """The engine's network mode of the jobs of QUEUE: for others to be on the same. A first job makes it."""
    batch = service.client()
    job = batch.submit_job(jobName="first", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    reaches(batch, job, "SUCCEEDED")
    labels = [f"{INSTANCE}={service.instance}", f"{ENVIRONMENT}={QUEUE}"]
    with closing(docker_api()) as engine:
        [keeper] = engine.containers(filters={"label": labels})
    return CONTAINER_MODE + keeper["Id"]


def define(batch: Any, name: str, *command: str, **members: Any) -> None:
    batch.register_job_definition(
        jobDefinitionName=name, type="container", containerProperties=container(*command) | members
    )


def sees(shared: Path) -> dict[str, Any]:
    return {
        "volumes": [{"name": "bench", "host": {"sourcePath": str(shared)}}],
        "mountPoints": [{"sourceVolume": "bench", "containerPath": HERE}],
    }
