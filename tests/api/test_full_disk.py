"""Low disk space: requests that grow the data are refused; running jobs are saved and can be stopped."""

import pytest

from tests.api.conftest import CONTAINER

MIB = 2**20
JOB = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
DEFINITION = {"jobDefinitionName": "another", "type": "container", "containerProperties": CONTAINER}


@pytest.mark.parametrize(("operation", "members"), [("SubmitJob", JOB), ("RegisterJobDefinition", DEFINITION)])
async def test_requests_that_grow_the_data_are_refused_until_there_is_space(server, sleeper, http, operation, members):
    server.free = 64 * MIB - 1
    before = server.stored_rows()

    status, headers, answer = await http.post(operation, members)
    after = server.stored_rows()
    server.free = 64 * MIB
    accepted, _, _ = await http.post(operation, members)

    assert (status, headers["x-amzn-ErrorType"]) == (500, "ServerException")
    assert answer["message"] == (
        "The disk of batchq's data directory has 63 MiB of free space. "
        "Below 64 MiB jobs and job definitions are rejected, and output of containers is not stored."
    )
    assert after == before
    assert accepted == 200


async def test_other_requests_still_succeed(server, submit, described, boto):
    running, waiting, terminated = [await submit(name) for name in ("runs", "waits", "is-stopped")]
    server.free = 0

    await boto.cancel_job(jobId=waiting, reason="not needed")
    await boto.terminate_job(jobId=terminated, reason="stop it")
    await server.runs(running)
    await server.ends(running)

    assert [(await described(job))["status"] for job in (running, waiting, terminated)] == [
        "SUCCEEDED",
        "FAILED",
        "FAILED",
    ]
    assert len((await boto.list_jobs(jobQueue="default", jobStatus="FAILED"))["jobSummaryList"]) == 2
