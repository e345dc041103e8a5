"""Other programs open and close the database beside a server, which is then killed. faults.md S9."""

import subprocess
import sys

import pytest

from tests.service.waiting import PATIENCE, register
from tests.support.service import BATCHQ, ForkedService

LOOK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute("SELECT count(*) FROM jobs").fetchone()[0])
database.close()
"""


@pytest.fixture
def service(tmp_path):
    service = ForkedService(tmp_path / "data", "--runtime", "simulated").start()
    yield service
    service.kill()


def submit(batch, count):
    members = {"jobQueue": "default", "jobDefinition": "d"}
    return [batch.submit_job(jobName=f"job-{number}", **members)["jobId"] for number in range(count)]


def run(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


@pytest.mark.exhaustive
@pytest.mark.fault("DB15")
def test_programs_that_open_the_database_lose_nothing(service, tmp_path):
    batch = service.client()
    register(batch, "d", "true")
    early = submit(batch, 10)

    counted = run(sys.executable, "-c", LOOK, service.data / "batchq.db")
    run(BATCHQ, "check", "--data", service.data)
    run(BATCHQ, "backup", tmp_path / "backup", "--data", service.data)
    late = submit(batch, 10)
    service.kill()
    service.start()

    found = service.client().describe_jobs(jobs=[*early, *late])["jobs"]
    assert int(counted) == 10
    assert {job["jobId"] for job in found} == {*early, *late}
