"""A hundred thousand queued jobs are cancelled by one request that names none, and others go on asking meanwhile."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from tests.bench.figures import Figure, at_most_more, within
from tests.bench.ground import NOWHERE, lay, simulated
from tests.bench.scale import Scale
from tests.bench.wire import Caller, p99
from tests.store.many import filled, its_id
from tests.support.builders import job

IDLE_SECONDS, PAUSE = 3.0, 0.005


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    took, idle, meanwhile = [], [], []
    for number in range(scale.pairs):
        data = folder / str(number)
        filled(data, scale.swept, job(number=0, status=Status.RUNNABLE, queue=QueueName(NOWHERE)))
        with simulated(data) as service:
            lay(service.client())
            ask = Caller(service.url)
            idle.append(1000 * p99(described(service.url, lambda: time.sleep(IDLE_SECONDS))))
            began = time.perf_counter()
            meanwhile.append(1000 * p99(described(service.url, lambda ask=ask: swept(ask, scale.swept))))
            took.append(time.perf_counter() - began)
            ask.close()
    yield Figure(
        name=f"s to cancel {scale.swept:,} queued jobs by a filter, until all are told of",
        ours=took,
        goal=within(10),
    )
    yield Figure(
        name="ms that DescribeJobs takes meanwhile, p99",
        against="the same, idle",
        ours=meanwhile,
        theirs=idle,
        goal=at_most_more(100),
    )


def swept(ask: Caller, count: int) -> None:
    told = ask("batchq/canceljobs", jobQueues=[NOWHERE], reason="measured")
    assert told["counts"] == {"CANCELLED": count}


def described(url: str, work) -> Sequence[float]:
    """How long each DescribeJobs took while that was done: one after another, with a little peace between."""
    took, over = [], threading.Event()

    def look() -> None:
        ask = Caller(url)
        while not over.is_set():
            began = time.perf_counter()
            ask("describejobs", jobs=[its_id(0)])
            took.append(time.perf_counter() - began)
            time.sleep(PAUSE)
        ask.close()

    looking = threading.Thread(target=look)
    looking.start()
    work()
    over.set()
    looking.join()
    return took
