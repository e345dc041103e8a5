"""Readers of changes, and what they cost a server and other requests, against the same load without readers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from multiprocessing import get_context
from multiprocessing.synchronize import Event

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from tests.bench.figures import Figure, Scale, at_least, at_most_more, compared, interleaved
from tests.bench.services import QUEUE
from tests.bench.wire import Caller, p99, request, send
from tests.support.processes import cpu_of
from tests.support.service import PATIENCE, Service

CHANGES = 4  # status changes of a job
CONNECTIONS = 16  # that submit jobs at the highest rate
CALL_INTERVAL = 0.01  # seconds between two calls of DescribeJobs

#: Reads changes without end, as reader of this number, from an address of its own. Functions of a module only, because
#: they run in another process.
Reader = Callable[[ClientSession, int], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Load:
    """Jobs at a rate, and readers that follow their changes."""

    url: str
    read: Reader
    readers: int
    #: Status changes a second; 0: no jobs are submitted.
    rate: float

    async def run(self, seconds: float | None, begun: Event | None = None) -> None:
        """`seconds`: None runs until it is killed."""
        async with _session(self.url) as session:
            tasks = [asyncio.create_task(self._read(number)) for number in range(self.readers)]
            if self.rate:
                tasks.append(asyncio.create_task(self._submit(session)))
            timer = asyncio.create_task(asyncio.sleep(1e9 if seconds is None else seconds))
            if begun is not None:
                begun.set()
            done, _ = await asyncio.wait([timer, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in (timer, *tasks):
                task.cancel()
            await asyncio.gather(timer, *tasks, return_exceptions=True)
            for task in done:
                task.result()

    async def _read(self, number: int) -> None:
        async with _session(self.url, f"127.0.1.{number + 1}") as session:  # a server limits what one address opens
            await self.read(session, number)

    async def _submit(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in count():
            body = {"jobName": f"job-{number}", "jobQueue": QUEUE, "jobDefinition": "true"}
            async with session.post("/v1/submitjob", json=body) as answer:
                assert answer.status == 200, await answer.text()
            due += CHANGES / self.rate
            await asyncio.sleep(max(0, due - loop.time()))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The measurements of some seconds of a load."""

    #: Percent of a core that the server used.
    cpu: float
    #: Milliseconds of DescribeJobs, the 99th percentile.
    describe: float


def costs(service: Service, scale: Scale, read: Reader, name: str) -> Iterator[Figure]:
    """The costs of `scale.readers` readers, called `name`, on a server with the queue QUEUE and the job `instant`."""
    cost = partial(_cost, service, read, rate=scale.event_changes, seconds=scale.event_seconds)
    without, beside = interleaved(scale.pairs, lambda: cost(readers=0), lambda: cost(readers=scale.readers))
    load = f"{scale.event_changes} status changes/s, {scale.readers} {name}"
    yield Figure(
        name=f"% of a core, {load}",
        against="the same without them",
        measured=[run.cpu for run in beside],
        baseline=[run.cpu for run in without],
        goal=at_most_more(10),
    )
    yield Figure(
        name=f"ms of DescribeJobs, p99, {load}",
        against="the same without them",
        measured=[reader.describe for reader in beside],
        baseline=[reader.describe for reader in without],
        goal=at_most_more(5),
    )
    lives = partial(_lives, service, read, scale.lives)
    yield compared(
        scale.pairs,
        lambda: lives(readers=0),
        lambda: lives(readers=scale.readers),
        name=f"whole lives of jobs/s over HTTP, simulated, {scale.readers} {name}",
        against="the same without them",
        goal=at_least(0.95),
    )


def _session(url: str, address: str = "127.0.0.1") -> ClientSession:
    connector = TCPConnector(limit=0, local_addr=(address, 0))
    return ClientSession(url, connector=connector, timeout=ClientTimeout(total=None))


@contextmanager
def _loaded(service: Service, read: Reader, *, readers: int, rate: float = 0) -> Iterator[None]:
    """A load in a process of its own, so that its work does not delay the caller's."""
    context = get_context("spawn")
    begun = context.Event()
    load = Load(url=service.url, read=read, readers=readers, rate=rate)
    process = context.Process(target=_run, args=(load, begun), daemon=True)
    process.start()
    try:
        assert begun.wait(PATIENCE)
        time.sleep(1)  # so that all readers wait
        yield
        assert process.is_alive(), "a request of the load failed"
    finally:
        process.terminate()
        process.join()


def _run(load: Load, begun: Event) -> None:
    asyncio.run(load.run(None, begun))


def _cost(service: Service, read: Reader, *, readers: int, rate: float, seconds: float) -> Cost:
    job = service.client().submit_job(jobName="described", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    took = []
    with _loaded(service, read, readers=readers, rate=rate), closing(Caller(service.url)) as call:
        before, began = cpu_of(service.process.pid), time.perf_counter()
        while (since := time.perf_counter()) < began + seconds:
            call("describejobs", jobs=[job])
            took.append(1000 * (time.perf_counter() - since))
            time.sleep(CALL_INTERVAL)
        used = cpu_of(service.process.pid) - before
        return Cost(cpu=100 * used / (time.perf_counter() - began), describe=p99(took))


def _lives(service: Service, read: Reader, number: int, *, readers: int) -> float:
    """Jobs a second from the first submission to the last end."""
    submission = request("submitjob", jobName="life", jobQueue=QUEUE, jobDefinition="instant")
    _wait_until_idle(service)
    with _loaded(service, read, readers=readers):
        began = time.perf_counter()
        send(service.url, repeat(submission, number), connections=CONNECTIONS)
        _wait_until_idle(service)
        return number / (time.perf_counter() - began)


def _wait_until_idle(service: Service) -> None:
    end = time.monotonic() + PATIENCE
    with closing(Caller(service.url)) as call:
        while any(sum(queue["counts"].values()) for queue in call("batchq/overview")["queues"]):
            assert time.monotonic() < end, "jobs do not end"
            time.sleep(0.02)
