"""CancelJob: the request and its response. The scenarios test what happens to the job."""

import pytest

from tests.api.conftest import ARN

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"


async def test_the_response_is_an_empty_object(submit, http):
    status, _, answer = await http.post("CancelJob", {"jobId": await submit(), "reason": "no"})

    assert (status, answer) == (200, {})


async def test_a_queued_job_fails_with_the_unchanged_reason(submit, boto, described):
    job_id = await submit()
    reason = "  100 % «done» {0} %s\n"

    await boto.cancel_job(jobId=job_id, reason=reason)

    job = await described(job_id)
    assert (job["status"], job["statusReason"], job["isCancelled"]) == ("FAILED", reason, True)


async def test_a_running_job_is_left_alone(server, submit, boto, described):
    job_id = await submit()
    await server.runs(job_id)

    await boto.cancel_job(jobId=job_id, reason="no")

    job = await described(job_id)
    assert (job["status"], job["isCancelled"]) == ("RUNNING", False)


async def test_a_job_can_be_named_by_its_arn(submit, boto, described):
    job_id = await submit()

    await boto.cancel_job(jobId=f"{ARN}job/{job_id}", reason="no")

    assert (await described(job_id))["isCancelled"] is True


@pytest.mark.parametrize("job_id", [UNKNOWN_ID, "garbage", "../../etc", "a" * 10240, ARN + "job-queue/default", "arn:"])
async def test_an_unknown_id_is_not_an_error_and_changes_nothing(server, submit, http, job_id):
    await submit()
    before = server.stored_rows()

    status, _, answer = await http.post("CancelJob", {"jobId": job_id, "reason": "no"})

    assert (status, answer) == (200, {})
    assert server.stored_rows() == before


async def test_a_malformed_id_does_not_reach_the_engine(server, http):
    await http.post("CancelJob", {"jobId": "garbage", "reason": "no"})

    assert not server.engine.reached.is_set()


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"jobId": ""}, "'jobId' is a required field (cannot be an empty string)"),
        ({"reason": ""}, "'reason' is a required field (cannot be an empty string)"),
        ({"reason": None}, "'reason'"),
        ({"reason": "x" * 1025}, "'reason' must be at most 1024 characters"),
        ({"reason": "a\0b"}, "NUL"),
        ({"jobId": 7}, "'jobId'"),
    ],
    ids=str,
)
async def test_invalid_requests_are_refused(server, submit, http, asked, text):
    job_id = await submit()
    before = server.stored_rows()

    status, headers, answer = await http.post("CancelJob", {"jobId": job_id, "reason": "no"} | asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
    assert server.stored_rows() == before


async def test_a_reason_of_1024_characters_is_stored_unchanged(submit, boto, described):
    job_id = await submit()

    await boto.cancel_job(jobId=job_id, reason="ä" * 1024)

    assert (await described(job_id))["statusReason"] == "ä" * 1024
