"""Containers a second and the CPU of the server for each, against the bare SDK and against `docker run`."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from docker.errors import APIError

from batchq.compute.docker.create_request import INSTANCE, JOB
from tests.bench.bare import Bare
from tests.bench.figures import Figure, Scale, at_least, at_most, compared, interleaved
from tests.bench.services import NO_NETWORK, QUEUE, create_queues, environment, network_of, on_docker
from tests.support.docker_api import docker_api
from tests.support.processes import cpu_of
from tests.support.service import Service

AT_ONCE = 4  # as the engine does best
PROCESSES = 8  # of xargs, and the jobs at once that are compared with it
CRUN = "crun"  # measured if the engine has it: docs/engines.md
PAGE = 100  # jobs of one call
Run = tuple[float, float]  # containers a second, milliseconds of CPU for each


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with on_docker(folder / "four") as service:
        create_queues(service.client(), at_once=AT_ONCE)
        yield from against_the_sdk(scale, service)
        yield against_none(scale, service)
        if crun_starts():
            yield against_runc(scale, service)
        if shutil.which("docker"):
            yield against_the_command(scale, service)
    if shutil.which("docker"):
        with on_docker(folder / "alone") as service:
            create_queues(service.client(), at_once=PROCESSES)  # without a network more at once pays
            yield against_the_command_on_none(scale, service)


def against_the_sdk(scale: Scale, service: Service) -> Iterator[Figure]:
    bare = Bare(network=network_of(service))
    baseline, measured = interleaved(
        scale.pairs, lambda: by_sdk(bare, scale.jobs), lambda: by_batchq(service, scale.jobs)
    )
    bare.close()
    yield Figure(
        name=f"containers/s, {scale.jobs} x `true`, {AT_ONCE} at once, network shared",
        against="bare SDK, the same four steps and network",
        measured=[rate for rate, _ in measured],
        baseline=[rate for rate, _ in baseline],
        goal=at_least(0.95),
    )
    yield Figure(
        name="ms of the server's CPU for a job",
        against="client CPU of the bare SDK's loop",
        measured=[cpu for _, cpu in measured],
        baseline=[cpu for _, cpu in baseline],
        goal=at_most(1.5),
    )


def against_none(scale: Scale, service: Service) -> Figure:
    return compared(
        scale.pairs,
        lambda: by_batchq(service, scale.jobs, NO_NETWORK)[0],
        lambda: by_batchq(service, scale.jobs)[0],
        name=f"containers/s, {scale.jobs} x `true`, network shared",
        against="the same on network none",
        goal=at_least(1.5),
    )


def crun_starts() -> bool:
    """Whether the engine has crun and crun starts containers: it refuses machines with the cgroups of both versions."""
    with closing(docker_api()) as engine:
        if CRUN not in engine.info()["Runtimes"]:
            return False
        container = engine.create_container(
            "batchq-test:latest", ["true"], host_config=engine.create_host_config(runtime=CRUN)
        )
        try:
            engine.start(container)
        except APIError as error:
            print(f"crun does not start containers here: {error.explanation}", file=sys.stderr)
            return False
        finally:
            engine.remove_container(container, force=True)
        return True


def against_runc(scale: Scale, service: Service) -> Figure:
    environment(service.client(), CRUN, AT_ONCE, **{"batchq:container-runtime": CRUN})
    return compared(
        scale.pairs,
        lambda: by_batchq(service, scale.jobs)[0],
        lambda: by_batchq(service, scale.jobs, CRUN)[0],
        name=f"containers/s, {scale.jobs} x `true`, {AT_ONCE} at once, OCI runtime crun",
        against="the same with runc",
        goal=at_least(1.0),
    )


def against_the_command(scale: Scale, service: Service) -> Figure:
    return compared(
        scale.pairs,
        lambda: by_command(scale.jobs),
        lambda: by_batchq(service, scale.jobs)[0],
        name=f"containers/s, {scale.jobs} x `true`, {AT_ONCE} at once, network shared",
        against=f"`xargs -P{PROCESSES} docker run --rm`",
        goal=at_least(2.2),
    )


def against_the_command_on_none(scale: Scale, service: Service) -> Figure:
    return compared(
        scale.pairs,
        lambda: by_command(scale.jobs, "--network", "none"),
        lambda: by_batchq(service, scale.jobs, NO_NETWORK)[0],
        name=f"containers/s, {scale.jobs} x `true`, {PROCESSES} at once, network none",
        against=f"`xargs -P{PROCESSES} docker run --rm --network none`",
        goal=at_least(1.0),
    )


def by_batchq(service: Service, count: int, queue: str = QUEUE) -> Run:
    """From the first SubmitJob to the last removal, by events of the engine: polling is work for the server."""
    batch, before = service.client(), cpu_of(service.process.pid)
    wanted = {"type": "container", "event": "destroy", "label": [f"{INSTANCE}={service.instance}", JOB]}
    removals = docker_api().events(decode=True, filters=wanted)
    began = time.perf_counter()
    ids = [batch.submit_job(jobName="true", jobQueue=queue, jobDefinition="true")["jobId"] for _ in range(count)]
    for _ in ids:
        next(removals)
    took = time.perf_counter() - began
    removals.close()
    spent = cpu_of(service.process.pid) - before
    pages = (batch.describe_jobs(jobs=ids[first : first + PAGE])["jobs"] for first in range(0, count, PAGE))
    assert {job["status"] for page in pages for job in page} == {"SUCCEEDED"}
    return count / took, spent / count * 1000


def by_sdk(bare: Bare, count: int) -> Run:
    before = time.process_time()
    rate = bare.run(count, AT_ONCE)
    return rate, (time.process_time() - before) / count * 1000


def by_command(count: int, *options: str) -> float:
    words = " ".join(["docker run --rm", *options, "batchq-test:latest true"])
    began = time.perf_counter()
    subprocess.run(["sh", "-c", f"seq {count} | xargs -P{PROCESSES} -I_ {words}"], check=True)
    return count / (time.perf_counter() - began)
