"""Very long logs and lines of a job, and what they cost a real server in memory and time (EN28)."""

import re
from pathlib import Path

import pytest

from tests.faults.job_server import job_server

pytestmark = pytest.mark.docker

LINE, ALL = 8_000, 200_000_000  # bytes
ONE_LONG_LINE = 1_000_000
MUCH = 240.0  # seconds, for what takes ten where nothing else is done
MORE = 50 << 10  # KiB of memory
PAGE = 1 << 20  # bytes, CloudWatch's own bound
FLOOD = f"yes $(head -c {LINE} /dev/zero | tr '\\0' x) | head -c {ALL}; head -c {ONE_LONG_LINE} /dev/zero | tr '\\0' y"


@pytest.fixture
def server(tmp_path, docker_engine):
    with job_server(tmp_path) as server:
        yield server


def peak(pid):
    """The most memory that a process has had, in KiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def page(server, job_id, **members):
    (job,) = server.batch.describe_jobs(jobs=[job_id])["jobs"]
    stream = job["container"]["logStreamName"]
    logs = server.service.client("logs")
    events = logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream, **members)["events"]
    return [event["message"] for event in events]


@pytest.mark.fault("EN28")
@pytest.mark.timeout(3 * MUCH)
def test_two_hundred_megabytes_of_log_and_a_line_of_one_use_little_memory(server):
    warm = server.submit("echo warm")
    server.wait_for(warm, "SUCCEEDED")
    assert page(server, warm) == ["warm"]
    before = peak(server.service.process.pid)

    job = server.submit(FLOOD)
    server.until(lambda: server.have_status([job], "SUCCEEDED"), patience=MUCH)
    server.until(lambda: not server.service.containers(), patience=MUCH)
    first, last = page(server, job, startFromHead=True), page(server, job)

    assert peak(server.service.process.pid) - before < MORE
    assert server.stored_log_bytes() > ALL
    assert first[0] == "x" * LINE
    assert set(last[-1]) == {"y"}
    assert max(sum(map(len, first)), sum(map(len, last))) <= PAGE
