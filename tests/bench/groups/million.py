"""What a million queued jobs cost: to read among them, to decide beside them, to start with them, to stand still."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from batchq.compute.simulated.script import Script
from batchq.domain.catalog import State
from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from tests.bench.engines import running
from tests.bench.figures import Figure, at_most, in_turns, within
from tests.bench.ground import environment, on_docker, simulated
from tests.bench.processes import cpu_of, memory_of
from tests.bench.scale import Scale
from tests.bench.wire import Caller
from tests.store.many import filled, its_id
from tests.support import builders, scripts
from tests.support.service import Service

QUEUE, PAGE = "queued", 100
SPEC = builders.spec(
    queue=QueueName(QUEUE),
    container=scripts.spec(
        Script(seconds=0), command=("sleep", "1000000"), resources=builders.resources(memory_mib=16)
    ),
)  # fmt: skip
LIKE_ALL = builders.job(number=0, status=Status.RUNNABLE, spec=SPEC)


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    filled(folder / "few", scale.few, LIKE_ALL)
    filled(folder / "many", scale.many, LIKE_ALL)
    shutil.copytree(folder / "many", folder / "on-docker")
    yield from turns(scale, folder)
    yield from looks(scale, folder)
    yield from starts(scale, folder)


def turns(scale: Scale, folder: Path) -> Iterator[Figure]:
    """The first ends of the queue's jobs, and one submission after another, at their own pace."""
    numbers = count(10**9)
    theirs, ours = in_turns(
        scale.pairs,
        lambda: asyncio.run(costs(folder / "few", scale.turns, numbers)),
        lambda: asyncio.run(costs(folder / "many", scale.turns, numbers)),
    )
    for at, name in enumerate(("one job ends and the next starts", "a job is submitted")):
        yield Figure(
            name=f"ms until {name}, beside {scale.many:,} queued",
            against=f"beside {scale.few:,}",
            ours=[it[at] for it in ours],
            theirs=[it[at] for it in theirs],
            goal=at_most(1.2),
        )


async def costs(data: Path, number: int, numbers: Iterator[int]) -> tuple[float, float]:
    """Milliseconds for each of so many ends, one job at a time, and for each of so many submissions."""
    async with running(data, queue=QUEUE, at_once=1, log=data.parent / "log") as at_work:
        await at_work.until_over(1)
        began = time.perf_counter()
        await at_work.until_over(number)
        ended = (time.perf_counter() - began) / number
    async with running(data, queue=QUEUE, at_once=1, log=data.parent / "log", state=State.DISABLED) as at_work:
        began = time.perf_counter()
        for _ in range(number):
            await at_work.submit(next(numbers), SPEC)
        submitted = (time.perf_counter() - began) / number
    return ended * 1000, submitted * 1000


def looks(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "few") as few, simulated(folder / "many") as many:
        asked = [Caller(it.url) for it in (few, many)]
        for it in (few, many):
            environment(it.client(), QUEUE, 1, state="DISABLED")
        for name, look in (("DescribeJobs of 100", described), ("a page of ListJobs", listed)):
            theirs, ours = in_turns(
                scale.pairs,
                lambda look=look: look(asked[0], scale.few, scale.looks),
                lambda look=look: look(asked[1], scale.many, scale.looks),
            )
            yield Figure(
                name=f"ms for {name}, of {scale.many:,} jobs",
                against=f"of {scale.few:,}",
                ours=ours,
                theirs=theirs,
                goal=at_most(1.5),
            )
        for it in asked:
            it.close()


def described(ask: Caller, among: int, times: int) -> float:
    """Milliseconds a call, for jobs that stand far from each other."""
    began = time.perf_counter()
    for number in range(times):
        told = ask("describejobs", jobs=[its_id(it) for it in range(number % 7, among, among // PAGE)][:PAGE])
        assert len(told["jobs"]) == PAGE
    return (time.perf_counter() - began) / times * 1000


def listed(ask: Caller, _among: int, times: int) -> float:
    """Milliseconds a page, the first and those behind it."""
    began, on = time.perf_counter(), {}
    for _ in range(times):
        told = ask("listjobs", jobQueue=QUEUE, jobStatus="RUNNABLE", maxResults=PAGE, **on)
        on = {"nextToken": told["nextToken"]} if "nextToken" in told else {}
        assert told["jobSummaryList"]
    return (time.perf_counter() - began) / times * 1000


def starts(scale: Scale, folder: Path) -> Iterator[Figure]:
    """With jobs of the queue itself on the real engine; the rest of them wait for room."""
    with on_docker(folder / "on-docker") as service:
        batch = service.client()
        environment(batch, QUEUE, scale.idle_beside)
        until_running(service, scale.idle_beside)
        yield Figure(
            name=f"% of a core, idle, {scale.many:,} queued and {scale.idle_beside} running",
            ours=[idle(service, scale.idle_seconds) for _ in range(scale.pairs)],
            goal=within(1),
        )
        batch.update_compute_environment(computeEnvironment=QUEUE, computeResources={"maxvCpus": scale.running})
        until_running(service, scale.running)
        found = [restarted(service) for _ in range(scale.pairs)]
        beside = f"{scale.many:,} queued and {scale.running} running"
        yield Figure(
            name=f"s until a server answers, {beside}",
            ours=[seconds for seconds, _ in found],
            goal=within(3),
        )
        yield Figure(
            name=f"MiB in memory of that server, {beside}",
            ours=[memory for _, memory in found],
            goal=within(200),
        )


def until_running(service: Service, number: int) -> None:
    with closing(Caller(service.url)) as ask:
        while len(ask("listjobs", jobQueue=QUEUE, jobStatus="RUNNING")["jobSummaryList"]) < min(number, PAGE):
            time.sleep(0.5)


def idle(service: Service, seconds: float) -> float:
    time.sleep(1)  # the last start is over
    before = cpu_of(service.process.pid)
    time.sleep(seconds)
    return (cpu_of(service.process.pid) - before) / seconds * 100


def restarted(service: Service) -> tuple[float, float]:
    """Seconds from the command to the line that says it is ready, and what it then has in memory."""
    service.stop()
    began = time.perf_counter()
    service.start()
    return time.perf_counter() - began, memory_of(service.process.pid)
