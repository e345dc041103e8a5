"""What an array of ten thousand costs: to accept against one job, to end; and who is held up by it meanwhile."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

from tests.bench.figures import Figure, at_most, in_turns, within
from tests.bench.ground import NOWHERE, lay, simulated
from tests.bench.scale import Scale
from tests.bench.wire import Caller, p99

SINGLE = {"jobName": "single", "jobQueue": NOWHERE, "jobDefinition": "true"}
BREATH = 0.002  # seconds between calls of those who only want to be answered


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "data") as service:
        lay(service.client())
        ask, size = Caller(service.url), scale.array
        theirs, ours = in_turns(
            scale.ones, lambda: accepted(ask), lambda: accepted(ask, arrayProperties={"size": size})
        )  # fmt: skip
        yield Figure(
            name=f"ms to accept an array of {size:,}",
            against="one job",
            ours=ours,
            theirs=theirs,
            goal=at_most(3),
        )
        found = [cancelled(service.url, ask, size) for _ in range(scale.pairs)]
        yield Figure(
            name=f"ms from CancelJob until {size:,} children are FAILED in DescribeJobs and ListJobs",
            against="(Slurm: 8 ms)",
            ours=[it for it, _ in found],
            goal=within(100),
        )
        yield Figure(
            name="ms that DescribeJobs of another job takes meanwhile, 99th percentile",
            ours=[p99(took) * 1000 for _, took in found],
            goal=within(50),
        )
        ask.close()


def accepted(ask: Caller, **asked: object) -> float:
    """Milliseconds that one SubmitJob takes. It is ended again before this returns."""
    began = time.perf_counter()
    job = ask("submitjob", **SINGLE, **asked)["jobId"]
    took = (time.perf_counter() - began) * 1000
    ask("canceljob", jobId=job, reason="measured")
    until_over(ask, job)
    return took


def cancelled(url: str, ask: Caller, size: int) -> tuple[float, list[float]]:
    """Milliseconds until all are over, and the seconds of each call of another client until that is written, too."""
    other = ask("submitjob", **SINGLE)["jobId"]
    job = ask("submitjob", **SINGLE, arrayProperties={"size": size})["jobId"]
    while sum(summary(ask, job).values()) < size:
        time.sleep(0.1)
    with ThreadPoolExecutor(1) as beside:
        over = threading.Event()
        took = beside.submit(describe_until, url, other, over)
        began = time.perf_counter()
        ask("canceljob", jobId=job, reason="measured")
        until_over(ask, job)
        ended = time.perf_counter()
        until_written(url, f"{job}:{size - 1}")
        over.set()
        described = took.result()
    assert failed(ask, job) == size, "of the children of a FAILED array not all are FAILED"
    return (ended - began) * 1000, described


def until_over(ask: Caller, job: str) -> None:
    """In what DescribeJobs shows, of the array and of its children, and in what ListJobs does."""
    while (shown := ask("describejobs", jobs=[job])["jobs"][0])["status"] != "FAILED":
        time.sleep(BREATH)
    counts = shown["arrayProperties"]["statusSummary"] if "arrayProperties" in shown else {}
    left = {status: count for status, count in counts.items() if count and status != "FAILED"}
    assert not left, f"a FAILED array has children that are {left}"
    ends = ask("describejobs", jobs=[f"{job}:{index}" for index in range(100)])["jobs"]
    assert {it["status"] for it in ends} <= {"FAILED"}, "a FAILED array has children that are not"
    for status in ("SUBMITTED", "PENDING", "RUNNABLE"):
        left = ask("listjobs", arrayJobId=job, jobStatus=status)["jobSummaryList"]
        assert not left, f"{len(left)} children of a FAILED array are {status}"


def until_written(url: str, child: str) -> None:
    """What is shown at once is written a few children a turn: their history tells when it is."""
    asked = f"{url}/v1/batchq/jobs/{child}/history"
    while json.loads(urlopen(asked).read())["history"][-1]["status"] != "FAILED":
        time.sleep(BREATH)


def failed(ask: Caller, job: str) -> int:
    """How many children ListJobs has on its pages of FAILED ones. This takes longer than to end them."""
    count, page = 0, ask("listjobs", arrayJobId=job, jobStatus="FAILED")
    while "nextToken" in page:
        count += len(page["jobSummaryList"])
        page = ask("listjobs", arrayJobId=job, jobStatus="FAILED", nextToken=page["nextToken"])
    return count + len(page["jobSummaryList"])


def summary(ask: Caller, job: str) -> dict[str, int]:
    return ask("describejobs", jobs=[job])["jobs"][0]["arrayProperties"]["statusSummary"]


def describe_until(url: str, job: str, over: threading.Event) -> list[float]:
    ask, took = Caller(url), []
    while not over.wait(BREATH) or not took:
        began = time.perf_counter()
        ask("describejobs", jobs=[job])
        took.append(time.perf_counter() - began)
    ask.close()
    return took
