"""TerminateJob: the request and its response. The scenarios test what happens to the job."""

import pytest

from tests.api.conftest import ARN


async def test_the_response_is_an_empty_object(submit, http):
    status, _, answer = await http.post("TerminateJob", {"jobId": await submit(), "reason": "no"})

    assert (status, answer) == (200, {})


async def test_a_queued_job_fails_with_the_reason(submit, boto, described):
    job_id = await submit()

    await boto.terminate_job(jobId=f"{ARN}job/{job_id}", reason="enough")

    job = await described(job_id)
    assert (job["status"], job["statusReason"], job["isTerminated"]) == ("FAILED", "enough", True)


async def test_a_running_job_is_marked_terminated_and_runs_until_its_container_ends(server, submit, boto, described):
    job_id = await submit()
    await server.runs(job_id)

    await boto.terminate_job(jobId=job_id, reason="enough")
    before = await described(job_id)
    await server.ends(job_id, exit_code=143)
    after = await described(job_id)

    assert (before["status"], before["isTerminated"]) == ("RUNNING", True)
    assert (after["status"], after["statusReason"], after["container"]["exitCode"]) == ("FAILED", "enough", 143)


async def test_an_unknown_id_is_not_an_error(boto):
    answer = await boto.terminate_job(jobId="nobody", reason="enough")

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("asked", [{"jobId": ""}, {"reason": ""}, {"reason": "x" * 1025}], ids=str)
async def test_invalid_requests_are_refused(server, submit, boto, asked):
    job_id = await submit()
    before = server.stored_rows()

    with pytest.raises(boto.exceptions.ClientException):
        await boto.terminate_job(**{"jobId": job_id, "reason": "enough"} | asked)

    assert server.stored_rows() == before
