"""GetJobHistory and ListAudit."""

import pytest


async def test_the_history_of_a_job_starts_with_its_submission(server, submit, http):
    job_id = await submit()
    await server.runs(job_id)
    await server.ends(job_id)

    status, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id}/history")

    assert (status, answer["jobId"]) == (200, job_id)
    walk = ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]
    assert [moment["status"] for moment in answer["history"]] == walk
    assert [moment.get("attempt") for moment in answer["history"]] == [None, None, 1, 1, None]
    assert answer["history"][-1]["reason"] == "Essential container in task exited"
    assert all(isinstance(moment["at"], int) for moment in answer["history"])


async def test_an_unknown_job_has_no_history(http):
    status, _, answer = await http.send("GET", "/v1/batchq/jobs/5d1f6c1e-0000-4000-8000-000000000000/history")

    assert status == 404
    assert "not found" in answer["message"]


@pytest.mark.fault("IN19")
@pytest.mark.parametrize("job_id", ["..%2f..%2fetc", "%00", "%ff", "a" * 65, "X"])
async def test_a_malformed_id_is_not_an_operation(http, job_id):
    status, _, _ = await http.send("GET", f"/v1/batchq/jobs/{job_id}/history")

    assert status == 400


async def test_listing_audit_records_of_a_job_and_a_resource_at_once_is_refused(http):
    members = {"job": "5d1f6c1e-0000-4000-8000-000000000000", "resource": "job-queue/default"}

    for one in members.items():
        status, _, answer = await http.post("batchq/ListAudit", dict([one]))
        assert (status, answer) == (200, {"records": []})
    status, _, answer = await http.post("batchq/ListAudit", members)

    assert (status, answer["message"]) == (400, "Only one of job and resource can be specified.")
