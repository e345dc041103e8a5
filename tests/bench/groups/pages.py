"""How long the pages that people read take over HTTP, with a million finished jobs stored."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.bench.figures import Figure, within
from tests.bench.scale import Scale
from tests.bench.services import environment, simulated
from tests.bench.wire import Caller, p99
from tests.store.many import filled, id_of

ROWS = 50  # of a page
Page = Callable[[int], object]


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    filled(folder / "data", scale.many)
    with simulated(folder / "data") as service:
        environment(service.client(), "empty", 1, state="DISABLED")
        with closing(Caller(service.url)) as call:
            for name, (page, goal) in pages(call, scale).items():
                page(0)
                yield Figure(
                    name=f"ms of {name}, p99 of {scale.looks}, {scale.many:,} jobs",
                    measured=[1000 * p99([seconds(page, number) for number in range(scale.looks)])],
                    goal=within(goal),
                )


def pages(call: Caller, scale: Scale) -> Mapping[str, tuple[Page, float]]:
    """The pages by name, each with its goal in milliseconds."""
    search = partial(call, "batchq/listjobs", maxResults=ROWS)
    return {
        "an overview": (lambda _: call("batchq/overview"), 10),
        "a page of all jobs": (lambda _: search(), 20),
        "a page of a status": (lambda _: search(statuses=["SUCCEEDED"]), 20),
        "a page by end": (lambda _: search(orderBy="ENDED"), 20),
        "one job": (lambda number: call.get(f"/v1/batchq/jobs/{id_of(number * 7919 % scale.many)}"), 20),
        "a name that no job has": (lambda _: search(names=["*rare*"]), 50),
    }


def seconds(page: Page, number: int) -> float:
    began = time.perf_counter()
    page(number)
    return time.perf_counter() - began
