"""The cost of readers of events for the server and other requests, and the delay of an event."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from aiohttp import ClientSession

from batchq.compute.simulated.script import VARIABLE
from tests.bench.figures import Figure, Scale, within
from tests.bench.readers import CHANGES, Load, costs
from tests.bench.services import QUEUE, create_queues, define, simulated
from tests.bench.wire import p99
from tests.support.service import Service

#: The filters of the readers, one after the other: all events, a queue, and ends.
VIEWS = (
    "",
    f"jobQueues={QUEUE}",
    "jobStatuses=FAILED",
    "jobStatuses=SUCCEEDED,FAILED",
    f"jobQueues={QUEUE}&jobStatuses=RUNNING",
)
LOW_RATE = 1  # jobs a second


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with busy_server(folder / "data") as service:
        late: list[float] = []
        load = Load(url=service.url, read=partial(_read, late=late), readers=1, rate=LOW_RATE * CHANGES)
        asyncio.run(load.run(scale.event_seconds))
        yield Figure(
            name=f"ms from a status change to its reader, p99, {LOW_RATE} job/s", measured=[p99(late)], goal=within(200)
        )
        yield from costs(service, scale, _read, "readers of events")


@contextmanager
def busy_server(data: Path) -> Iterator[Service]:
    """A server with simulated containers and what `costs` submits."""
    with simulated(data) as service:
        batch = service.client()
        create_queues(batch, at_once=64)
        define(batch, "instant", "true", environment=[{"name": VARIABLE, "value": json.dumps({"seconds": 0})}])
        yield service


async def _read(session: ClientSession, number: int, late: list[float] | None = None) -> None:
    """Append to `late` the milliseconds from each event until it is read."""
    path = f"/v1/batchq/events?{VIEWS[number % len(VIEWS)]}"
    async with session.get(path, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status == 200, await answer.read()
        if late is None:  # its work would delay the server, which has no core of its own
            while await answer.content.readany():
                pass
            return
        async for line in answer.content:
            if line.startswith(b"data: "):
                late.append(time.time() * 1000 - json.loads(line.removeprefix(b"data: "))["at"])
