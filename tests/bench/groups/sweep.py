"""One request cancels a hundred thousand queued jobs by a filter, while another client calls DescribeJobs."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from tests.bench.figures import Figure, at_most_more, within
from tests.bench.scale import Scale
from tests.bench.services import DISABLED_QUEUE, create_queues, simulated
from tests.bench.wire import Caller, p99
from tests.store.many import filled, id_of
from tests.support.builders import job

IDLE_SECONDS, PAUSE = 3.0, 0.005


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    took, idle, meanwhile = [], [], []
    for number in range(scale.pairs):
        data = folder / str(number)
        filled(data, scale.swept, job(number=0, status=Status.RUNNABLE, queue=QueueName(DISABLED_QUEUE)))
        with simulated(data) as service:
            create_queues(service.client())
            call = Caller(service.url)
            idle.append(1000 * p99(described(service.url, lambda: time.sleep(IDLE_SECONDS))))
            began = time.perf_counter()
            meanwhile.append(1000 * p99(described(service.url, lambda call=call: swept(call, scale.swept))))
            took.append(time.perf_counter() - began)
            call.close()
    yield Figure(
        name=f"s to cancel {scale.swept:,} queued jobs by a filter, until all are reported",
        measured=took,
        goal=within(10),
    )
    yield Figure(
        name="ms that DescribeJobs takes meanwhile, p99",
        against="the same, idle",
        measured=meanwhile,
        baseline=idle,
        goal=at_most_more(100),
    )


def swept(call: Caller, count: int) -> None:
    answer = call("batchq/canceljobs", jobQueues=[DISABLED_QUEUE], reason="measured")
    assert answer["counts"] == {"CANCELLED": count}


def described(url: str, work) -> Sequence[float]:
    """The seconds of each DescribeJobs during `work`: one after another, PAUSE apart."""
    took, over = [], threading.Event()

    def look() -> None:
        call = Caller(url)
        while not over.is_set():
            began = time.perf_counter()
            call("describejobs", jobs=[id_of(0)])
            took.append(time.perf_counter() - began)
            time.sleep(PAUSE)
        call.close()

    looking = threading.Thread(target=look)
    looking.start()
    work()
    over.set()
    looking.join()
    return took
