"""How soon a stop is felt, and how soon fifty are over."""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bare import HANDS, Bare
from tests.bench.figures import Figure, at_most, at_most_more, in_turns
from tests.bench.ground import DEAF, GRACE, POLITE, QUEUE, TELLS, lay, on_docker
from tests.bench.pipes import Pipes
from tests.bench.scale import Scale
from tests.bench.wire import Caller, request, send
from tests.support.docker_api import docker_api
from tests.support.service import Service


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    pipes = Pipes(folder / "shared")
    bare = Bare(shared=pipes.folder)
    with on_docker(folder / "data") as service:
        lay(service.client(), at_once=scale.stopped, shared=pipes.folder)
        ask = Caller(service.url)
        theirs, ours = in_turns(scale.ones, lambda: signalled(bare, pipes), lambda: terminated(ask, pipes))
        yield Figure(
            name="ms from TerminateJob to SIGTERM seen in the container",
            against="the SDK's `kill`",
            ours=ours,
            theirs=theirs,
            goal=at_most_more(10),
        )
        yield polite(scale, service, bare)
        yield deaf(scale, service, bare)
        ask.close()
    bare.close()
    pipes.close()


def polite(scale: Scale, service: Service, bare: Bare) -> Figure:
    theirs, ours = in_turns(
        scale.pairs,
        lambda: all_signalled(bare, scale.stopped),
        lambda: all_terminated(service, "polite", scale.stopped),
    )
    return Figure(
        name=f"s until {scale.stopped} polite jobs, terminated at once, are dead",
        against=f"the SDK's `kill` by {HANDS} threads",
        ours=ours,
        theirs=theirs,
        goal=at_most(1.1),
    )


def deaf(scale: Scale, service: Service, bare: Bare) -> Figure:
    theirs, ours = in_turns(
        scale.pairs,
        lambda: all_killed(bare, scale.stopped) - GRACE,
        lambda: all_terminated(service, "deaf", scale.stopped) - GRACE,
    )
    return Figure(
        name=f"s until {scale.stopped} deaf jobs are dead, less the grace",
        against="the SDK's `kill`, a timer, `kill`",
        ours=ours,
        theirs=theirs,
        goal=at_most(1.15),
    )


def signalled(bare: Bare, pipes: Pipes) -> float:
    [name] = bare.launch(1, "sh", "-c", TELLS)
    pipes.wait("ready")
    began = time.perf_counter()
    bare.stop(name)
    heard = pipes.wait("TERM")
    bare.wait_dead(name)
    bare.remove(name)
    return (heard - began) * 1000


def terminated(ask: Caller, pipes: Pipes) -> float:
    job = ask("submitjob", jobName="tells", jobQueue=QUEUE, jobDefinition="tells")["jobId"]
    pipes.wait("ready")
    time.sleep(1)  # whatever follows from the start is done
    began = time.perf_counter()
    ask("terminatejob", jobId=job, reason="measured")
    return (pipes.wait("TERM") - began) * 1000


def all_signalled(bare: Bare, count: int) -> float:
    names = bare.launch(count, "sh", "-c", POLITE)
    began = time.perf_counter()
    bare.each(names, bare.stop)
    return last_dead(bare, names) - began


def all_killed(bare: Bare, count: int) -> float:
    names = bare.launch(count, "sh", "-c", DEAF)
    began = time.perf_counter()
    asked = {}

    def stop_and_kill(name: str) -> None:
        time.sleep(max(0.0, asked[name] + GRACE - time.perf_counter()))
        bare.kill(name)

    def stop(name: str) -> None:
        bare.stop(name)
        asked[name] = time.perf_counter()

    bare.each(names, stop)
    bare.each(sorted(names, key=asked.__getitem__), stop_and_kill)
    return last_dead(bare, names) - began


def last_dead(bare: Bare, names: list[str]) -> float:
    last = max(bare.wait_dead(name) for name in names)
    bare.each(names, bare.remove)
    return last


def all_terminated(service: Service, definition: str, count: int) -> float:
    """Seconds from the first request to the last death, by the same events as the bare SDK's."""
    ask = Caller(service.url)
    jobs = [ask("submitjob", jobName="many", jobQueue=QUEUE, jobDefinition=definition)["jobId"] for _ in range(count)]
    until_all(ask, jobs, "RUNNING")
    time.sleep(1)  # the last shell comes to its loop
    events = docker_api().events(
        decode=True, filters={"label": f"io.batchq.instance={service.instance}", "event": "die"}
    )
    began = time.perf_counter()
    send(service.url, [request("terminatejob", jobId=job, reason="measured") for job in jobs], connections=HANDS)
    for _ in jobs:
        next(events)
    last = time.perf_counter()
    events.close()
    until_all(ask, jobs, "FAILED")
    ask.close()
    return last - began


def until_all(ask: Caller, jobs: list[str], status: str) -> None:
    while {it["status"] for it in ask("describejobs", jobs=jobs)["jobs"]} != {status}:
        time.sleep(0.3)  # seldom: it is work for the server to tell of them all
