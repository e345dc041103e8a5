"""An array of ten thousand: the time to accept and to cancel it, and of other requests meanwhile."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from tests.bench.figures import Figure, Scale, at_most, compared, within
from tests.bench.services import DISABLED_QUEUE, create_queues, simulated
from tests.bench.wire import Caller, describing, p99

SINGLE = {"jobName": "single", "jobQueue": DISABLED_QUEUE, "jobDefinition": "true"}
POLL_INTERVAL = 0.002  # seconds


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with simulated(folder / "data") as service:
        create_queues(service.client())
        call, size = Caller(service.url), scale.array
        yield compared(
            scale.ones,
            lambda: accepted(call),
            lambda: accepted(call, arrayProperties={"size": size}),
            name=f"ms to accept an array of {size:,}",
            against="one job",
            goal=at_most(3),
        )
        found = [cancelled(service.url, call, size) for _ in range(scale.pairs)]
        yield Figure(
            name=f"ms from CancelJob until {size:,} children are FAILED in DescribeJobs and ListJobs",
            against="(Slurm: 8 ms)",
            measured=[first for first, _ in found],
            goal=within(100),
        )
        yield Figure(
            name="ms that DescribeJobs of another job takes meanwhile, 99th percentile",
            measured=[p99(took) * 1000 for _, took in found],
            goal=within(50),
        )
        call.close()


def accepted(call: Caller, **members: object) -> float:
    """Milliseconds of one SubmitJob. The job is cancelled afterwards."""
    began = time.perf_counter()
    job = call("submitjob", **SINGLE, **members)["jobId"]
    took = (time.perf_counter() - began) * 1000
    call("canceljob", jobId=job, reason="measured")
    wait_until_failed(call, job)
    return took


def cancelled(url: str, call: Caller, size: int) -> tuple[float, list[float]]:
    """Milliseconds until all children are FAILED, and the seconds of each other call until they are saved."""
    other = call("submitjob", **SINGLE)["jobId"]
    job = call("submitjob", **SINGLE, arrayProperties={"size": size})["jobId"]
    while sum(summary(call, job).values()) < size:
        time.sleep(0.1)
    with describing(url, other, interval=POLL_INTERVAL) as described:
        began = time.perf_counter()
        call("canceljob", jobId=job, reason="measured")
        wait_until_failed(call, job)
        ended = time.perf_counter()
        until_written(url, f"{job}:{size - 1}")
    assert failed(call, job) == size, "of the children of a FAILED array not all are FAILED"
    return (ended - began) * 1000, described


def wait_until_failed(call: Caller, job: str) -> None:
    """Wait until DescribeJobs and ListJobs show the job and its children as FAILED."""
    while (shown := call("describejobs", jobs=[job])["jobs"][0])["status"] != "FAILED":
        time.sleep(POLL_INTERVAL)
    counts = shown["arrayProperties"]["statusSummary"] if "arrayProperties" in shown else {}
    left = {status: count for status, count in counts.items() if count and status != "FAILED"}
    assert not left, f"a FAILED array has children that are {left}"
    ends = call("describejobs", jobs=[f"{job}:{index}" for index in range(100)])["jobs"]
    assert {end["status"] for end in ends} <= {"FAILED"}, "a FAILED array has children that are not"
    for status in ("SUBMITTED", "PENDING", "RUNNABLE"):
        left = call("listjobs", arrayJobId=job, jobStatus=status)["jobSummaryList"]
        assert not left, f"{len(left)} children of a FAILED array are {status}"


def until_written(url: str, child: str) -> None:
    """Wait until the end of a child is saved: children are saved in parts, and their history shows it."""
    history = f"{url}/v1/batchq/jobs/{child}/history"
    while json.loads(urlopen(history).read())["history"][-1]["status"] != "FAILED":
        time.sleep(POLL_INTERVAL)


def failed(call: Caller, job: str) -> int:
    """The number of FAILED children on the pages of ListJobs."""
    count, page = 0, call("listjobs", arrayJobId=job, jobStatus="FAILED")
    while "nextToken" in page:
        count += len(page["jobSummaryList"])
        page = call("listjobs", arrayJobId=job, jobStatus="FAILED", nextToken=page["nextToken"])
    return count + len(page["jobSummaryList"])


def summary(call: Caller, job: str) -> dict[str, int]:
    return call("describejobs", jobs=[job])["jobs"][0]["arrayProperties"]["statusSummary"]
