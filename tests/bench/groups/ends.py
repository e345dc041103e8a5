"""The delay of one job's end on an idle server, and the duration of a whole job."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bare import Bare
from tests.bench.figures import Figure, Scale, at_most_more, compared
from tests.bench.services import EXITS_ON_RELEASE, QUEUE, Pipes, create_queues, network_of, on_docker
from tests.bench.wire import Caller


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    pipes = Pipes(folder / "shared")
    bare = Bare(shared=pipes.folder)
    with on_docker(folder / "data") as service:
        create_queues(service.client(), shared=pipes.folder)
        call = Caller(service.url)
        yield compared(
            scale.ones,
            lambda: death_reported(bare, pipes),
            lambda: end_seen(call, pipes),
            name="ms from a process's exit to its job's end being seen",
            against="to the die event, bare SDK",
            goal=at_most_more(10),
        )
        network = network_of(service)
        yield compared(
            scale.ones,
            lambda: by_command(network),
            lambda: one_job(call),
            name="ms from the submission of `true` to SUCCEEDED being seen",
            against="`docker run --rm` of the same on the same network",
            goal=at_most_more(40),
        )
        call.close()
    bare.close()
    pipes.close()


def death_reported(bare: Bare, pipes: Pipes) -> float:
    [name] = bare.launch(1, "sh", "-c", EXITS_ON_RELEASE)
    pipes.wait("ready")
    began = pipes.release()
    died = bare.wait_dead(name)
    bare.remove(name)
    return (died - began) * 1000


def end_seen(call: Caller, pipes: Pipes) -> float:
    job = call("submitjob", jobName="released", jobQueue=QUEUE, jobDefinition="released")["jobId"]
    pipes.wait("ready")
    until(call, job, "RUNNING")
    time.sleep(1)  # so that all work of the start is done
    began = pipes.release()
    return (until(call, job, "SUCCEEDED") - began) * 1000


def one_job(call: Caller) -> float:
    time.sleep(0.5)  # so that the last container is removed
    began = time.perf_counter()
    job = call("submitjob", jobName="true", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    return (until(call, job, "SUCCEEDED") - began) * 1000


def by_command(network: str) -> float:
    began = time.perf_counter()
    subprocess.run(["docker", "run", "--rm", "--network", network, "batchq-test:latest", "true"], check=True)
    return (time.perf_counter() - began) * 1000


def until(call: Caller, job: str, status: str) -> float:
    """Wait until DescribeJobs shows the status. Returns the time."""
    while call("describejobs", jobs=[job])["jobs"][0]["status"] != status:
        time.sleep(0.001)
    return time.perf_counter()
