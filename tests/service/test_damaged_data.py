"""A server over data some rows of which cannot be read: it starts, answers, and runs all other jobs."""

import sqlite3
from contextlib import closing

import pytest

from tests.service.waiting import reaches, register
from tests.support.service import serving_forked

pytestmark = pytest.mark.fault("LC06")

DAMAGE = """
UPDATE jobs SET state = '{' WHERE id = :bad;
UPDATE job_specs SET spec = '{' WHERE sequence = (SELECT sequence FROM jobs WHERE id = :queued);
UPDATE job_history SET value = '{' WHERE number IN (SELECT min(number) FROM job_history GROUP BY sequence);
UPDATE log_streams SET value = '{';
UPDATE job_definitions SET value = '{' WHERE name = 'gone';
"""


def damage(data, **names):
    with closing(sqlite3.connect(data / "batchq.db", isolation_level=None)) as left:
        for statement in DAMAGE.strip().splitlines():
            left.execute(statement, names)


def submit(batch, name, **members):
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition="plays", **members)["jobId"]


@pytest.fixture
def service(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        yield service


def test_a_server_with_damaged_rows_starts_reports_them_and_runs_other_jobs(service):
    batch = service.client()
    register(batch, "gone", "true")
    register(batch, "plays", "true")
    reaches(batch, submit(batch, "early"), "SUCCEEDED")
    batch.update_job_queue(jobQueue="default", state="ENABLED", priority=5)
    batch.update_compute_environment(computeEnvironment="local", state="DISABLED")
    bad, queued, good = submit(batch, "bad"), submit(batch, "queued"), submit(batch, "good")
    waits = submit(batch, "waits", dependsOn=[{"jobId": bad}])
    service.stop()
    damage(service.data, bad=bad, queued=queued)

    service.start()
    batch = service.client()
    batch.update_compute_environment(computeEnvironment="local", state="ENABLED")

    lost = reaches(batch, bad, "FAILED")
    assert "damaged" in lost["statusReason"]
    assert "damaged" in reaches(batch, queued, "FAILED")["statusReason"]
    assert reaches(batch, waits, "FAILED")["statusReason"] == f"Dependent Job failed: {bad}"
    assert reaches(batch, good, "SUCCEEDED")["jobName"] == "good"
    assert service.health()["putAside"] == 2
    assert service.health()["status"] == "ok"
    assert (
        len(batch.list_jobs(jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["*"]}])["jobSummaryList"]) == 5
    )
    assert [definition["jobDefinitionName"] for definition in batch.describe_job_definitions()["jobDefinitions"]] == [
        "plays"
    ]
