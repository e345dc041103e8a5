"""How soon one job's end is seen on an idle server, and how long a job takes from end to end."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bare import Bare
from tests.bench.figures import Figure, at_most_more, in_turns
from tests.bench.ground import ENDS_WHEN_TOLD, QUEUE, lay, network_of, on_docker
from tests.bench.pipes import Pipes
from tests.bench.scale import Scale
from tests.bench.wire import Caller


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    pipes = Pipes(folder / "shared")
    bare = Bare(shared=pipes.folder)
    with on_docker(folder / "data") as service:
        lay(service.client(), shared=pipes.folder)
        ask = Caller(service.url)
        theirs, ours = in_turns(scale.ones, lambda: end_heard(bare, pipes), lambda: end_seen(ask, pipes))
        yield Figure(
            name="ms from a process's exit to its job's end being seen",
            against="to the die event, bare SDK",
            ours=ours,
            theirs=theirs,
            goal=at_most_more(10),
        )
        network = network_of(service)
        theirs, ours = in_turns(scale.ones, lambda: by_command(network), lambda: one_job(ask))
        yield Figure(
            name="ms from the submission of `true` to SUCCEEDED being seen",
            against="`docker run --rm` of the same on the same network",
            ours=ours,
            theirs=theirs,
            goal=at_most_more(40),
        )
        ask.close()
    bare.close()
    pipes.close()


def end_heard(bare: Bare, pipes: Pipes) -> float:
    [name] = bare.launch(1, "sh", "-c", ENDS_WHEN_TOLD)
    pipes.wait("ready")
    began = pipes.let_go()
    died = bare.wait_dead(name)
    bare.remove(name)
    return (died - began) * 1000


def end_seen(ask: Caller, pipes: Pipes) -> float:
    job = ask("submitjob", jobName="ends", jobQueue=QUEUE, jobDefinition="ends")["jobId"]
    pipes.wait("ready")
    until(ask, job, "RUNNING")
    time.sleep(1)  # whatever follows from the start is done
    began = pipes.let_go()
    return (until(ask, job, "SUCCEEDED") - began) * 1000


def one_job(ask: Caller) -> float:
    time.sleep(0.5)  # the last one is cleared away
    began = time.perf_counter()
    job = ask("submitjob", jobName="true", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    return (until(ask, job, "SUCCEEDED") - began) * 1000


def by_command(network: str) -> float:
    began = time.perf_counter()
    subprocess.run(["docker", "run", "--rm", "--network", network, "batchq-test:latest", "true"], check=True)
    return (time.perf_counter() - began) * 1000


def until(ask: Caller, job: str, status: str) -> float:
    """The moment at which it is told to be in that status."""
    while ask("describejobs", jobs=[job])["jobs"][0]["status"] != status:
        time.sleep(0.001)
    return time.perf_counter()
