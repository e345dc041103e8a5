"""Thousands of separate queued jobs are cancelled, one a call and fifty a call."""

from collections.abc import Iterator
from pathlib import Path

from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from tests.bench.figures import Figure, within
from tests.bench.ground import NOWHERE, lay, simulated
from tests.bench.scale import Scale
from tests.bench.wire import Caller, request, send
from tests.store.many import filled, its_id
from tests.support.builders import job

CONNECTIONS, AT_ONCE = 16, 50


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    count, rounds = scale.separate, 2 * scale.pairs
    filled(folder / "data", count * rounds, job(number=0, status=Status.RUNNABLE, queue=QueueName(NOWHERE)))
    with simulated(folder / "data") as service:
        lay(service.client())
        ask = Caller(service.url)
        singly, by_fifty = [], []
        for number in range(scale.pairs):
            first = number * 2 * count
            singly.append(cancelled(service.url, range(first, first + count)))
            by_fifty.append(cancelled_by_fifty(service.url, range(first + count, first + 2 * count)))
            assert over(ask, range(first, first + 2 * count))
        ask.close()
    yield Figure(
        name=f"s to cancel {count:,} queued jobs, one a call, {CONNECTIONS} connections",
        against="(Slurm: 7.3 s)",
        ours=singly,
        goal=within(4),
    )
    yield Figure(
        name=f"s to cancel {count:,} queued jobs, {AT_ONCE} a call, {CONNECTIONS} connections",
        ours=by_fifty,
        goal=within(1),
    )


def cancelled(url: str, numbers: range) -> float:
    asked = [request("canceljob", jobId=its_id(it), reason="measured") for it in numbers]
    return send(url, asked, connections=CONNECTIONS).seconds


def cancelled_by_fifty(url: str, numbers: range) -> float:
    pages = [numbers[first : first + AT_ONCE] for first in range(0, len(numbers), AT_ONCE)]
    asked = [request("canceljobs", jobs=[*map(its_id, page)], reason="measured") for page in pages]
    return send(url, asked, connections=CONNECTIONS).seconds


def over(ask: Caller, numbers: range) -> bool:
    """By a hundred of them."""
    some = [its_id(it) for it in numbers[:: max(1, len(numbers) // 99)]][:100]
    return {it["status"] for it in ask("describejobs", jobs=some)["jobs"]} == {"FAILED"}
