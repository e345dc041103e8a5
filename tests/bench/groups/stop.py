"""The delay of a stop signal, and the time to stop fifty jobs."""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bare import STOP_THREADS, Bare
from tests.bench.figures import Figure, Scale, at_most, at_most_more, compared
from tests.bench.services import (
    EXITS_ON_SIGTERM,
    GRACE,
    IGNORES_SIGTERM,
    QUEUE,
    REPORTS_SIGTERM,
    Pipes,
    create_queues,
    on_docker,
)
from tests.bench.wire import Caller, request, send
from tests.support.docker_api import docker_api
from tests.support.service import Service


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    pipes = Pipes(folder / "shared")
    bare = Bare(shared=pipes.folder)
    with on_docker(folder / "data") as service:
        create_queues(service.client(), at_once=scale.stopped, shared=pipes.folder)
        call = Caller(service.url)
        yield compared(
            scale.ones,
            lambda: signalled(bare, pipes),
            lambda: terminated(call, pipes),
            name="ms from TerminateJob to SIGTERM seen in the container",
            against="the SDK's `kill`",
            goal=at_most_more(10),
        )
        yield exiting_jobs(scale, service, bare)
        yield ignoring_jobs(scale, service, bare)
        call.close()
    bare.close()
    pipes.close()


def exiting_jobs(scale: Scale, service: Service, bare: Bare) -> Figure:
    return compared(
        scale.pairs,
        lambda: all_signalled(bare, scale.stopped),
        lambda: all_terminated(service, "exits", scale.stopped),
        name=f"s until {scale.stopped} jobs that handle SIGTERM, terminated at once, have ended",
        against=f"the SDK's `kill` by {STOP_THREADS} threads",
        goal=at_most(1.1),
    )


def ignoring_jobs(scale: Scale, service: Service, bare: Bare) -> Figure:
    return compared(
        scale.pairs,
        lambda: all_killed(bare, scale.stopped) - GRACE,
        lambda: all_terminated(service, "ignores", scale.stopped) - GRACE,
        name=f"s until {scale.stopped} jobs that ignore SIGTERM have ended, less the grace period",
        against="the SDK's `kill`, a timer, `kill`",
        goal=at_most(1.15),
    )


def signalled(bare: Bare, pipes: Pipes) -> float:
    [name] = bare.launch(1, "sh", "-c", REPORTS_SIGTERM)
    pipes.wait("ready")
    began = time.perf_counter()
    bare.stop(name)
    handled = pipes.wait("TERM")
    bare.wait_dead(name)
    bare.remove(name)
    return (handled - began) * 1000


def terminated(call: Caller, pipes: Pipes) -> float:
    job = call("submitjob", jobName="reports", jobQueue=QUEUE, jobDefinition="reports")["jobId"]
    pipes.wait("ready")
    time.sleep(1)  # so that all work of the start is done
    began = time.perf_counter()
    call("terminatejob", jobId=job, reason="measured")
    return (pipes.wait("TERM") - began) * 1000


def all_signalled(bare: Bare, count: int) -> float:
    names = bare.launch(count, "sh", "-c", EXITS_ON_SIGTERM)
    began = time.perf_counter()
    bare.each(names, bare.stop)
    return last_dead(bare, names) - began


def all_killed(bare: Bare, count: int) -> float:
    names = bare.launch(count, "sh", "-c", IGNORES_SIGTERM)
    began = time.perf_counter()
    signalled_at = {}

    def stop_and_kill(name: str) -> None:
        time.sleep(max(0.0, signalled_at[name] + GRACE - time.perf_counter()))
        bare.kill(name)

    def stop(name: str) -> None:
        bare.stop(name)
        signalled_at[name] = time.perf_counter()

    bare.each(names, stop)
    bare.each(sorted(names, key=signalled_at.__getitem__), stop_and_kill)
    return last_dead(bare, names) - began


def last_dead(bare: Bare, names: list[str]) -> float:
    last = max(bare.wait_dead(name) for name in names)
    bare.each(names, bare.remove)
    return last


def all_terminated(service: Service, definition: str, count: int) -> float:
    """Seconds from the first request to the last death, by the same events as the bare SDK's."""
    call = Caller(service.url)
    jobs = [call("submitjob", jobName="many", jobQueue=QUEUE, jobDefinition=definition)["jobId"] for _ in range(count)]
    until_all(call, jobs, "RUNNING")
    time.sleep(1)  # so that the last shell has set its trap
    events = docker_api().events(
        decode=True, filters={"label": f"io.batchq.instance={service.instance}", "event": "die"}
    )
    began = time.perf_counter()
    send(service.url, [request("terminatejob", jobId=job, reason="measured") for job in jobs], connections=STOP_THREADS)
    for _ in jobs:
        next(events)
    last = time.perf_counter()
    events.close()
    until_all(call, jobs, "FAILED")
    call.close()
    return last - began


def until_all(call: Caller, jobs: list[str], status: str) -> None:
    while {job["status"] for job in call("describejobs", jobs=jobs)["jobs"]} != {status}:
        time.sleep(0.3)  # seldom: each call is work for the server
