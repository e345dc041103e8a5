"""Very long logs and lines of a job, and what they cost a real server in memory and time (EN28)."""

import re
from pathlib import Path

import pytest

from tests.faults.stage import staged

pytestmark = pytest.mark.docker

LINE, ALL = 8_000, 200_000_000  # bytes
ONE_LONG_LINE = 1_000_000
MUCH = 240.0  # seconds, for what takes ten where nothing else is done
MORE = 50 << 10  # KiB of memory
PAGE = 1 << 20  # bytes, CloudWatch's own bound
FLOOD = f"yes $(head -c {LINE} /dev/zero | tr '\\0' x) | head -c {ALL}; head -c {ONE_LONG_LINE} /dev/zero | tr '\\0' y"


@pytest.fixture
def stage(tmp_path, docker_engine):
    with staged(tmp_path) as stage:
        yield stage


def peak(pid):
    """The most memory that a process has had, in KiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def page(stage, job_id, **members):
    (job,) = stage.batch.describe_jobs(jobs=[job_id])["jobs"]
    stream = job["container"]["logStreamName"]
    logs = stage.service.client("logs")
    events = logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream, **members)["events"]
    return [event["message"] for event in events]


@pytest.mark.fault("EN28")
@pytest.mark.timeout(3 * MUCH)
def test_two_hundred_megabytes_of_log_and_a_line_of_one_use_little_memory(stage):
    warm = stage.submit("echo warm")
    stage.then(warm, "SUCCEEDED")
    assert page(stage, warm) == ["warm"]
    before = peak(stage.service.process.pid)

    job = stage.submit(FLOOD)
    stage.until(lambda: stage.are([job], "SUCCEEDED"), patience=MUCH)
    stage.until(lambda: not stage.service.containers(), patience=MUCH)
    first, last = page(stage, job, startFromHead=True), page(stage, job)

    assert peak(stage.service.process.pid) - before < MORE
    assert stage.kept() > ALL
    assert first[0] == "x" * LINE
    assert set(last[-1]) == {"y"}
    assert max(sum(map(len, first)), sum(map(len, last))) <= PAGE
