"""A million queued jobs: requests, ends and submissions beside them, the start of the server, and its idle CPU."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from batchq.compute.simulated.script import Script
from batchq.domain.enums import State, Status
from batchq.domain.ids import QueueName
from tests.bench.engines import running
from tests.bench.figures import Figure, Scale, at_most, compared, interleaved, within
from tests.bench.services import environment, on_docker, simulated
from tests.bench.wire import Caller
from tests.store.many import filled, id_of
from tests.support import builders, scripts
from tests.support.processes import cpu_of, memory_of
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
    yield from ends_and_submissions(scale, folder)
    yield from reads(scale, folder)
    yield from starts(scale, folder)


def ends_and_submissions(scale: Scale, folder: Path) -> Iterator[Figure]:
    """Ends of jobs and submissions, one after another."""
    numbers = count(10**9)
    baseline, measured = interleaved(
        scale.pairs,
        lambda: asyncio.run(costs(folder / "few", scale.repetitions, numbers)),
        lambda: asyncio.run(costs(folder / "many", scale.repetitions, numbers)),
    )
    for at, name in enumerate(("one job ends and the next starts", "a job is submitted")):
        yield Figure(
            name=f"ms until {name}, beside {scale.many:,} queued",
            against=f"beside {scale.few:,}",
            measured=[run[at] for run in measured],
            baseline=[run[at] for run in baseline],
            goal=at_most(1.2),
        )


async def costs(data: Path, number: int, numbers: Iterator[int]) -> tuple[float, float]:
    """Milliseconds of an end, with one job at a time, and of a submission."""
    async with running(data, queue=QUEUE, at_once=1, log=data.parent / "log") as at_work:
        await at_work.wait_for_ends(1)
        began = time.perf_counter()
        await at_work.wait_for_ends(number)
        ended = (time.perf_counter() - began) / number
    async with running(data, queue=QUEUE, at_once=1, log=data.parent / "log", state=State.DISABLED) as at_work:
        began = time.perf_counter()
        for _ in range(number):
            await at_work.submit(next(numbers), SPEC)
        submitted = (time.perf_counter() - began) / number
    return ended * 1000, submitted * 1000


def reads(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "few") as few, simulated(folder / "many") as many:
        callers = [Caller(server.url) for server in (few, many)]
        for server in (few, many):
            environment(server.client(), QUEUE, 1, state="DISABLED")
        for name, look in (("DescribeJobs of 100", described), ("a page of ListJobs", listed)):
            yield compared(
                scale.pairs,
                lambda look=look: look(callers[0], scale.few, scale.reads),
                lambda look=look: look(callers[1], scale.many, scale.reads),
                name=f"ms for {name}, of {scale.many:,} jobs",
                against=f"of {scale.few:,}",
                goal=at_most(1.5),
            )
        for caller in callers:
            caller.close()


def described(call: Caller, among: int, times: int) -> float:
    """Milliseconds of a call, for jobs that are far from each other in the table."""
    began = time.perf_counter()
    for number in range(times):
        answer = call("describejobs", jobs=[id_of(index) for index in range(number % 7, among, among // PAGE)][:PAGE])
        assert len(answer["jobs"]) == PAGE
    return (time.perf_counter() - began) / times * 1000


def listed(call: Caller, _among: int, times: int) -> float:
    """Milliseconds of a page, also of later pages."""
    began, on = time.perf_counter(), {}
    for _ in range(times):
        answer = call("listjobs", jobQueue=QUEUE, jobStatus="RUNNABLE", maxResults=PAGE, **on)
        on = {"nextToken": answer["nextToken"]} if "nextToken" in answer else {}
        assert answer["jobSummaryList"]
    return (time.perf_counter() - began) / times * 1000


def starts(scale: Scale, folder: Path) -> Iterator[Figure]:
    """On the real engine: some jobs of the queue run, the others wait."""
    with on_docker(folder / "on-docker") as service:
        batch = service.client()
        environment(batch, QUEUE, scale.idle_beside)
        until_running(service, scale.idle_beside)
        yield Figure(
            name=f"% of a core, idle, {scale.many:,} queued and {scale.idle_beside} running",
            measured=[idle(service, scale.idle_seconds) for _ in range(scale.pairs)],
            goal=within(1),
        )
        batch.update_compute_environment(computeEnvironment=QUEUE, computeResources={"maxvCpus": scale.running})
        until_running(service, scale.running)
        found = [restarted(service) for _ in range(scale.pairs)]
        beside = f"{scale.many:,} queued and {scale.running} running"
        yield Figure(
            name=f"s until a server answers, {beside}", measured=[seconds for seconds, _ in found], goal=within(3)
        )
        yield Figure(
            name=f"MiB in memory of that server, {beside}", measured=[memory for _, memory in found], goal=within(200)
        )


def until_running(service: Service, number: int) -> None:
    with closing(Caller(service.url)) as call:
        while len(call("listjobs", jobQueue=QUEUE, jobStatus="RUNNING")["jobSummaryList"]) < min(number, PAGE):
            time.sleep(0.5)


def idle(service: Service, seconds: float) -> float:
    time.sleep(1)  # so that the last start is complete
    before = cpu_of(service.process.pid)
    time.sleep(seconds)
    return (cpu_of(service.process.pid) - before) / seconds * 100


def restarted(service: Service) -> tuple[float, float]:
    """Seconds from the command until the server is ready, and its resident MiB then."""
    service.stop()
    began = time.perf_counter()
    service.start()
    return time.perf_counter() - began, memory_of(service.process.pid)
