"""TerminateJob: what it takes. What becomes of the job is told in the scenarios."""

import pytest

from tests.api.conftest import ARN


async def test_it_answers_an_empty_object(submit, http):
    status, _, answer = await http.post("TerminateJob", {"jobId": await submit(), "reason": "no"})

    assert (status, answer) == (200, {})


async def test_a_queued_job_fails_with_the_reason(submit, boto, told):
    job_id = await submit()

    await boto.terminate_job(jobId=f"{ARN}job/{job_id}", reason="enough")

    job = await told(job_id)
    assert (job["status"], job["statusReason"], job["isTerminated"]) == ("FAILED", "enough", True)


async def test_a_running_job_is_terminated_from_now_on_and_running_until_its_container_is_gone(
    server, submit, boto, told
):
    job_id = await submit()
    await server.runs(job_id)

    await boto.terminate_job(jobId=job_id, reason="enough")
    before = await told(job_id)
    await server.ends(job_id, exit_code=143)
    after = await told(job_id)

    assert (before["status"], before["isTerminated"]) == ("RUNNING", True)
    assert (after["status"], after["statusReason"], after["container"]["exitCode"]) == ("FAILED", "enough", 143)


async def test_an_id_that_nobody_has_is_no_error(boto):
    answer = await boto.terminate_job(jobId="nobody", reason="enough")

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("asked", [{"jobId": ""}, {"reason": ""}, {"reason": "x" * 1025}], ids=str)
async def test_what_is_not_said_well_is_refused(server, submit, boto, asked):
    job_id = await submit()
    before = server.remembers()

    with pytest.raises(boto.exceptions.ClientException):
        await boto.terminate_job(**{"jobId": job_id, "reason": "enough"} | asked)

    assert server.remembers() == before
