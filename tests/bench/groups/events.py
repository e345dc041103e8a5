"""What readers of events cost the server: its CPU beside many long polls, against the same load without readers."""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from tests.bench.figures import Figure, at_most_more, in_turns, within
from tests.bench.ground import QUEUE, lay, simulated
from tests.bench.processes import cpu_of
from tests.bench.scale import Scale
from tests.bench.wire import p99
from tests.support.service import Service

CHANGES = 4  # status changes of a job
#: The filters of the readers, one after the other: all that happens, a queue, and ends.
VIEWS = ("", f"&queues={QUEUE}", "&statuses=FAILED", "&statuses=SUCCEEDED,FAILED", f"&queues={QUEUE}&statuses=RUNNING")
WAIT = 20  # seconds of a long poll
LOW_RATE = 1  # jobs a second


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "data") as service:
        lay(service.client(), at_once=64)
        seconds, rate = scale.event_seconds, scale.event_changes
        late = asyncio.run(Load(service, readers=1, rate=LOW_RATE * CHANGES).run(seconds)).late
        yield Figure(
            name=f"ms from a status change to its reader, p99, {LOW_RATE} job/s", ours=[p99(late)], goal=within(200)
        )
        without, beside = in_turns(
            scale.pairs,
            lambda: asyncio.run(Load(service, readers=0, rate=rate).run(seconds)),
            lambda: asyncio.run(Load(service, readers=scale.readers, rate=rate).run(seconds)),
        )
        yield Figure(
            name=f"% of a core, {rate} status changes/s, {scale.readers} readers of events",
            against="the same without readers",
            ours=[it.cpu for it in beside],
            theirs=[it.cpu for it in without],
            goal=at_most_more(10),
        )


class Load:
    """Jobs at a rate, and readers that follow all events."""

    def __init__(self, service: Service, *, readers: int, rate: int) -> None:
        """`rate`: status changes a second."""
        self._service = service
        self._readers = readers
        self._between = CHANGES / rate
        self._numbers = count()
        #: Percent of a core that the server used.
        self.cpu = 0.0
        #: Milliseconds from each event to its first reader.
        self.late: list[float] = []

    async def run(self, seconds: float) -> "Load":
        session = ClientSession(self._service.url, connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None))
        async with session:
            readers = [asyncio.create_task(self._read(session, number)) for number in range(self._readers)]
            await asyncio.sleep(seconds / 10)
            submitter = asyncio.create_task(self._submit(session))
            await asyncio.sleep(seconds / 10)
            before, began = cpu_of(self._service.process.pid), time.perf_counter()
            await asyncio.sleep(seconds)
            used = cpu_of(self._service.process.pid) - before
            self.cpu = 100 * used / (time.perf_counter() - began)
            for task in (submitter, *readers):
                task.cancel()
            done = await asyncio.gather(submitter, *readers, return_exceptions=True)
        for it in done:
            if not isinstance(it, asyncio.CancelledError):
                raise it
        return self

    async def _submit(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            body = {"jobName": f"job-{next(self._numbers)}", "jobQueue": QUEUE, "jobDefinition": "true"}
            async with session.post("/v1/submitjob", json=body) as answer:
                assert answer.status == 200, await answer.text()
            due += self._between
            await asyncio.sleep(max(0, due - loop.time()))

    async def _read(self, session: ClientSession, number: int) -> None:
        path = f"/v1/batchq/events?wait={WAIT}{VIEWS[number % len(VIEWS)]}"
        after = ""
        while True:
            async with session.get(path + after) as answer:
                body = await answer.read()
            assert answer.status == 200, body
            if number == 0:
                present = time.time() * 1000
                self.late += [present - it["at"] for it in json.loads(body)["events"]]
            after = f"&after={json.loads(body)['next']}"
