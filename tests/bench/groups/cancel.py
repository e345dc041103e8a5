"""Cancels of thousands of separate queued jobs: one a call, fifty a call, and all by a filter in one call."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from tests.bench.figures import Figure, Scale, at_most_more, within
from tests.bench.services import DISABLED_QUEUE, create_queues, simulated
from tests.bench.wire import Caller, describing, p99, request, send
from tests.store.many import filled, id_of
from tests.support.builders import job

CONNECTIONS, AT_ONCE = 16, 50
IDLE_SECONDS, CALL_INTERVAL = 3.0, 0.005
WAITS = job(number=0, status=Status.RUNNABLE, queue=QueueName(DISABLED_QUEUE))


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    yield from by_ids(scale, folder)
    yield from by_filter(scale, folder)


def by_ids(scale: Scale, folder: Path) -> Iterator[Figure]:
    count, rounds = scale.separate, 2 * scale.pairs
    filled(folder / "data", count * rounds, WAITS)
    with simulated(folder / "data") as service:
        create_queues(service.client())
        call = Caller(service.url)
        singly, by_fifty = [], []
        for number in range(scale.pairs):
            first = number * 2 * count
            singly.append(cancelled(service.url, range(first, first + count)))
            by_fifty.append(cancelled_by_fifty(service.url, range(first + count, first + 2 * count)))
            assert over(call, range(first, first + 2 * count))
        call.close()
    yield Figure(
        name=f"s to cancel {count:,} queued jobs, one a call, {CONNECTIONS} connections",
        against="(Slurm: 7.3 s)",
        measured=singly,
        goal=within(4),
    )
    yield Figure(
        name=f"s to cancel {count:,} queued jobs, {AT_ONCE} a call, {CONNECTIONS} connections",
        measured=by_fifty,
        goal=within(1),
    )


def by_filter(scale: Scale, folder: Path) -> Iterator[Figure]:
    """While another client calls DescribeJobs."""
    took, idle, meanwhile = [], [], []
    for number in range(scale.pairs):
        data = folder / f"swept-{number}"
        filled(data, scale.swept, WAITS)
        with simulated(data) as service, closing(Caller(service.url)) as call:
            create_queues(service.client())
            with describing(service.url, id_of(0), interval=CALL_INTERVAL) as described:
                time.sleep(IDLE_SECONDS)
            idle.append(1000 * p99(described))
            began = time.perf_counter()
            with describing(service.url, id_of(0), interval=CALL_INTERVAL) as described:
                answer = call("batchq/canceljobs", jobQueues=[DISABLED_QUEUE], reason="measured")
            took.append(time.perf_counter() - began)
            meanwhile.append(1000 * p99(described))
            assert answer["counts"] == {"CANCELLED": scale.swept}
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


def cancelled(url: str, numbers: range) -> float:
    requests = [request("canceljob", jobId=id_of(number), reason="measured") for number in numbers]
    return send(url, requests, connections=CONNECTIONS).seconds


def cancelled_by_fifty(url: str, numbers: range) -> float:
    pages = [numbers[first : first + AT_ONCE] for first in range(0, len(numbers), AT_ONCE)]
    requests = [request("canceljobs", jobs=[*map(id_of, page)], reason="measured") for page in pages]
    return send(url, requests, connections=CONNECTIONS).seconds


def over(call: Caller, numbers: range) -> bool:
    """Whether a sample of a hundred jobs is FAILED."""
    some = [id_of(number) for number in numbers[:: max(1, len(numbers) // 99)]][:100]
    return {other_job["status"] for other_job in call("describejobs", jobs=some)["jobs"]} == {"FAILED"}
