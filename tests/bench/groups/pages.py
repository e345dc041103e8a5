"""The duration of the requests behind pages, with a million finished jobs and a log of 1 GiB stored."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from batchq.domain.ids import Tag
from batchq.ports.logs import LogLine
from batchq.store.log_files import LogFiles
from tests.bench.figures import Figure, Scale, within
from tests.bench.services import environment, simulated
from tests.bench.wire import Caller, p99
from tests.store.many import filled, id_of, make_group

ROWS = 50  # of a page
LINES = 1000  # of a page of a log
MIB = 2**20
Page = Callable[[int], object]


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with large_server(scale, folder) as (call, middle):
        yield from durations(scale, pages(call, scale, middle))


@contextmanager
def large_server(scale: Scale, folder: Path) -> Iterator[tuple[Caller, int]]:
    """A client of a server with many finished jobs, and a position in the middle of the log of the first job.

    The first `scale.swept` jobs are a group.
    """
    filled(folder / "data", scale.many)
    make_group(folder / "data", scale.swept)
    middle = _fill_log(folder / "data" / "logs", scale.log_mib)
    with simulated(folder / "data") as service:
        environment(service.client(), "empty", 1, state="DISABLED")
        with closing(Caller(service.url)) as call:
            yield call, middle


def durations(scale: Scale, named: Mapping[str, tuple[Page, float]]) -> Iterator[Figure]:
    """The duration of each page by name, with its goal in milliseconds."""
    for name, (page, goal) in named.items():
        page(0)
        yield Figure(
            name=f"ms of {name}, p99 of {scale.reads}, {scale.many:,} jobs",
            measured=[1000 * p99([seconds(page, number) for number in range(scale.reads)])],
            goal=within(goal),
        )


def pages(call: Caller, scale: Scale, middle: int) -> Mapping[str, tuple[Page, float]]:
    """The pages by name, each with its goal in milliseconds. `middle`: a position in the log of the first job."""
    search = partial(call, "batchq/listjobs", maxResults=ROWS)
    log, size = f"/v1/batchq/jobs/{id_of(0)}/log?limit={LINES}", f"a log of {scale.log_mib:,} MiB"
    return {
        "an overview": (lambda _: call("batchq/overview"), 10),
        "a page of all jobs": (lambda _: search(), 20),
        "a page of a status": (lambda _: search(jobStatuses=["SUCCEEDED"]), 20),
        "a page by end": (lambda _: search(orderBy="ENDED"), 20),
        "one job": (lambda number: call.get(f"/v1/batchq/jobs/{id_of(number * 7919 % scale.many)}"), 20),
        "a name that no job has": (lambda _: search(jobNames=["*rare*"]), 50),
        f"the last {LINES:,} lines of {size}": (lambda _: call.get(f"{log}&tail={LINES}"), 50),
        f"{LINES:,} lines in the middle of {size}": (lambda _: call.get(f"{log}&after=1.{middle}"), 50),
    }


def _fill_log(folder: Path, mib: int) -> int:
    """Write the log of the first job: copies of a block of lines. Returns the position of a line in its middle."""
    tag = Tag(job_id=id_of(0), attempt=1)
    lines = [LogLine(at=at, message=f"{at:0100}") for at in range(1, 5 * LINES)]
    with closing(LogFiles(folder)) as archive:
        block = asyncio.run(archive.append(tag.log_id, lines))
    (file,) = folder.rglob(f"{tag.log_id}.log")
    data, copies = file.read_bytes(), mib * MIB // block
    with file.open("ab") as log:
        log.writelines(data for _ in range(copies))
    return copies // 2 * block


def seconds(page: Page, number: int) -> float:
    began = time.perf_counter()
    page(number)
    return time.perf_counter() - began
