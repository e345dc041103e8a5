"""The measured servers, with the queues and job definitions of all groups, and the pipes of their containers."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from select import select
from typing import Any

from batchq.compute.docker.create_request import CONTAINER_MODE, ENVIRONMENT, INSTANCE
from tests.service.waiting import container, create_queue, reaches
from tests.support.docker_api import docker_api
from tests.support.service import PATIENCE, Service, serving

GRACE = 2  # seconds
QUEUE, DISABLED_QUEUE = "bench", "waiting"
NO_NETWORK = "alone"  # a queue whose jobs have no network
SHARED_PATH = "/bench"  # where containers see the folder that they share with the bench
IGNORES_SIGTERM = "trap '' TERM; echo ready; while :; do sleep 1; done"
EXITS_ON_SIGTERM = "trap 'exit 0' TERM; echo ready; sleep 1000 & wait"
REPORTS_SIGTERM = (
    f"trap 'echo TERM > {SHARED_PATH}/events; exit 0' TERM; sleep 1000 & echo ready > {SHARED_PATH}/events; wait"
)
EXITS_ON_RELEASE = f"echo ready > {SHARED_PATH}/events; read _ < {SHARED_PATH}/go"


@contextmanager
def on_docker(data: Path, *extra: str) -> Iterator[Service]:
    """A server on the real engine. Its containers are removed at the end."""
    with serving(data, "--stop-grace", str(GRACE), *extra) as service:
        yield service
    service.remove_containers()


@contextmanager
def simulated(data: Path) -> Iterator[Service]:
    with serving(data, "--runtime", "simulated") as service:
        yield service


def create_queues(batch: Any, *, at_once: int = 4, shared: Path | None = None) -> None:
    """Create queues with room for `at_once` jobs, a disabled one, and definitions. `shared`: a folder that jobs see."""
    environment(batch, QUEUE, at_once)
    environment(batch, NO_NETWORK, at_once, **{"batchq:network": "none"})
    environment(batch, DISABLED_QUEUE, 1, state="DISABLED")
    define(batch, "true", "true")
    for name, script in (("ignores", IGNORES_SIGTERM), ("exits", EXITS_ON_SIGTERM)):
        define(batch, name, "sh", "-c", script)
    if shared is not None:
        for name, script in (("reports", REPORTS_SIGTERM), ("released", EXITS_ON_RELEASE)):
            define(batch, name, "sh", "-c", script, **mounted(shared))


def environment(batch: Any, name: str, vcpus: int, *, state: str = "ENABLED", **tags: str) -> None:
    """Create a compute environment, and a queue with the same name."""
    create_queue(batch, name, vcpus=vcpus, environment={"state": state, "tags": tags})


def network_of(service: Service) -> str:
    """The network mode of the jobs of QUEUE, for containers on the same network. The first job creates the network."""
    batch = service.client()
    job = batch.submit_job(jobName="first", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    reaches(batch, job, "SUCCEEDED")
    labels = [f"{INSTANCE}={service.instance}", f"{ENVIRONMENT}={QUEUE}"]
    with closing(docker_api()) as engine:
        [pause] = engine.containers(filters={"label": labels})
    return CONTAINER_MODE + pause["Id"]


def define(batch: Any, name: str, *command: str, **members: Any) -> None:
    batch.register_job_definition(
        jobDefinitionName=name, type="container", containerProperties=container(*command) | members
    )


def mounted(shared: Path) -> dict[str, Any]:
    return {
        "volumes": [{"name": "bench", "host": {"sourcePath": str(shared)}}],
        "mountPoints": [{"sourceVolume": "bench", "containerPath": SHARED_PATH}],
    }


class Pipes:
    """A folder with two named pipes: containers write to `events`, and exit after a line in `go`.

    Pipes have no delay of the container engine.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("events", "go"):
            os.mkfifo(folder / name)
            (folder / name).chmod(0o666)
        self._events = os.open(folder / "events", os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(folder / "go", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, word: str) -> float:
        """Wait until a container has written `word`. Returns the time at which it was read."""
        data, ends = b"", time.monotonic() + PATIENCE
        while word.encode() not in data:
            ready, _, _ = select([self._events], [], [], ends - time.monotonic())
            if not ready:
                raise TimeoutError(f"no container wrote {word!r}")
            data += os.read(self._events, 4096)
        return time.perf_counter()

    def release(self) -> float:
        """Let a waiting container exit. Returns the time before that."""
        began = time.perf_counter()
        os.write(self._go, b"\n")
        return began

    def close(self) -> None:
        os.close(self._events)
        os.close(self._go)
