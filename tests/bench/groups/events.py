"""What readers of events cost the server and other requests, against the same load without readers."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from batchq.compute.simulated.script import VARIABLE
from tests.bench.figures import Figure, at_least, at_most_more, interleaved, within
from tests.bench.processes import cpu_of
from tests.bench.scale import Scale
from tests.bench.services import QUEUE, create_queues, define, simulated
from tests.bench.wire import Caller, p99, request, send
from tests.support.service import PATIENCE, Service

CHANGES = 4  # status changes of a job
#: The filters of the readers, one after the other: all events, a queue, and ends.
VIEWS = ("", f"queues={QUEUE}", "statuses=FAILED", "statuses=SUCCEEDED,FAILED", f"queues={QUEUE}&statuses=RUNNING")
LOW_RATE = 1  # jobs a second
CONNECTIONS = (
    16  # that submit jobs at the highest rate; a server accepts 128 from one address, with those of the readers
)
CALL_INTERVAL = 0.01  # seconds between two calls of DescribeJobs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What was measured for some seconds of a load."""

    #: Percent of a core that the server used.
    cpu: float
    #: Milliseconds of DescribeJobs, the 99th percentile.
    describe: float


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "data") as service:
        batch = service.client()
        create_queues(batch, at_once=64)
        define(batch, "instant", "true", environment=[{"name": VARIABLE, "value": json.dumps({"seconds": 0})}])
        seconds, rate = scale.event_seconds, scale.event_changes
        yield Figure(
            name=f"ms from a status change to its reader, p99, {LOW_RATE} job/s",
            measured=[p99(asyncio.run(Load(service.url, readers=1, rate=LOW_RATE * CHANGES).run(seconds)))],
            goal=within(200),
        )
        cost = partial(_cost, service, rate=rate, seconds=seconds)
        without, beside = interleaved(scale.pairs, lambda: cost(readers=0), lambda: cost(readers=scale.readers))
        load = f"{rate} status changes/s, {scale.readers} readers of events"
        yield Figure(
            name=f"% of a core, {load}",
            against="the same without readers",
            measured=[it.cpu for it in beside],
            baseline=[it.cpu for it in without],
            goal=at_most_more(10),
        )
        yield Figure(
            name=f"ms of DescribeJobs, p99, {load}",
            against="the same without readers",
            measured=[it.describe for it in beside],
            baseline=[it.describe for it in without],
            goal=at_most_more(5),
        )
        lives = partial(_lives, service, scale.lives)
        without, beside = interleaved(scale.pairs, lambda: lives(readers=0), lambda: lives(readers=scale.readers))
        yield Figure(
            name=f"whole lives of jobs/s over HTTP, simulated, {scale.readers} readers of events",
            against="the same without readers",
            measured=beside,
            baseline=without,
            goal=at_least(0.95),
        )


class Load:
    """Jobs at a rate, and readers that follow all events."""

    def __init__(self, url: str, *, readers: int, rate: float) -> None:
        """`rate`: status changes a second; 0: no jobs are submitted."""
        self._url = url
        self._readers = readers
        self._rate = rate
        self._numbers = count()
        self._late: list[float] = []

    async def run(self, seconds: float | None, begun: Event | None = None) -> list[float]:
        """Returns the milliseconds from each event to its first reader. `seconds`: None runs until it is killed."""
        session = ClientSession(self._url, connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None))
        async with session:
            tasks = [asyncio.create_task(self._read(session, number)) for number in range(self._readers)]
            if self._rate:
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
        return self._late

    async def _submit(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            body = {"jobName": f"job-{next(self._numbers)}", "jobQueue": QUEUE, "jobDefinition": "true"}
            async with session.post("/v1/submitjob", json=body) as answer:
                assert answer.status == 200, await answer.text()
            due += CHANGES / self._rate
            await asyncio.sleep(max(0, due - loop.time()))

    async def _read(self, session: ClientSession, number: int) -> None:
        path = f"/v1/batchq/events?{VIEWS[number % len(VIEWS)]}"
        async with session.get(path, headers={"Accept": "text/event-stream"}) as answer:
            assert answer.status == 200, await answer.read()
            if number > 0:  # its work would delay the server, which has no core of its own
                while await answer.content.readany():
                    pass
            async for line in answer.content:
                if line.startswith(b"data: "):
                    self._late.append(time.time() * 1000 - json.loads(line.removeprefix(b"data: "))["at"])


@contextmanager
def _loaded(service: Service, *, readers: int, rate: float = 0) -> Iterator[None]:
    """A load in a process of its own, so that its work does not delay the caller's."""
    context = get_context("spawn")
    begun = context.Event()
    process = context.Process(target=_run, args=(service.url, readers, rate, begun), daemon=True)
    process.start()
    try:
        assert begun.wait(PATIENCE)
        time.sleep(1)  # so that all readers wait
        yield
        assert process.is_alive(), "a request of the load failed"
    finally:
        process.terminate()
        process.join()


def _run(url: str, readers: int, rate: float, begun: Event) -> None:
    asyncio.run(Load(url, readers=readers, rate=rate).run(None, begun))


def _cost(service: Service, *, readers: int, rate: float, seconds: float) -> Cost:
    job = service.client().submit_job(jobName="described", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    took = []
    with _loaded(service, readers=readers, rate=rate), closing(Caller(service.url)) as call:
        before, began = cpu_of(service.process.pid), time.perf_counter()
        while (since := time.perf_counter()) < began + seconds:
            call("describejobs", jobs=[job])
            took.append(1000 * (time.perf_counter() - since))
            time.sleep(CALL_INTERVAL)
        used = cpu_of(service.process.pid) - before
        return Cost(cpu=100 * used / (time.perf_counter() - began), describe=p99(took))


def _lives(service: Service, number: int, *, readers: int) -> float:
    """Jobs a second from the first submission to the last end."""
    submission = request("submitjob", jobName="life", jobQueue=QUEUE, jobDefinition="instant")
    _wait_until_idle(service)
    with _loaded(service, readers=readers):
        began = time.perf_counter()
        send(service.url, repeat(submission, number), connections=CONNECTIONS)
        _wait_until_idle(service)
        return number / (time.perf_counter() - began)


def _wait_until_idle(service: Service) -> None:
    end = time.monotonic() + PATIENCE
    with closing(Caller(service.url)) as call:
        while any(sum(it["counts"].values()) for it in call("batchq/overview")["queues"]):
            assert time.monotonic() < end, "jobs do not end"
            time.sleep(0.02)
