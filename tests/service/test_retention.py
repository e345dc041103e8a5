"""A real server deletes jobs that ended more than a month ago, and no others."""

import sqlite3
from contextlib import closing

import pytest
from botocore.exceptions import ClientError

from batchq.store.database import NAME
from tests.service.waiting import container, reaches, until

MONTH = 31 * 86_400_000_000  # microseconds


def aged(data, job_id):
    """The job ended a month earlier."""
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute("UPDATE jobs SET finished_at = finished_at - ? WHERE id = ?", [MONTH, job_id])


def log_files(data):
    return len(list((data / "logs").glob("*/*.log")))


def test_a_job_that_ended_a_month_ago_is_deleted_with_its_log(simulated):
    batch = simulated.client()
    properties = container("true") | {"environment": [{"name": "BATCHQ_SIMULATED", "value": '{"output": ["text"]}'}]}
    batch.register_job_definition(jobDefinitionName="prints", type="container", containerProperties=properties)
    old, new = (
        batch.submit_job(jobName="prints", jobQueue="default", jobDefinition="prints")["jobId"] for _ in range(2)
    )
    stream = reaches(batch, old, "SUCCEEDED")["container"]["logStreamName"]
    reaches(batch, new, "SUCCEEDED")
    until(lambda: log_files(simulated.data) == 2)
    simulated.stop()
    aged(simulated.data, old)

    simulated.start()

    batch, logs = simulated.client(), simulated.client("logs")
    until(lambda: batch.describe_jobs(jobs=[old])["jobs"] == [])
    until(lambda: log_files(simulated.data) == 1)
    listed = batch.list_jobs(jobQueue="default", jobStatus="SUCCEEDED")["jobSummaryList"]
    assert [job["jobId"] for job in listed] == [new]
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=stream)
