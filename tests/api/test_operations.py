"""Unknown operations are refused, and operations that read change nothing."""

import json

import pytest

UNKNOWN = [
    ("POST", "/v1/makecoffee"),
    ("POST", "/v1/submitjob/"),
    ("POST", "/v1/SubmitJob"),
    ("POST", "/v1/..%2fsubmitjob"),
    ("POST", "/"),
    ("GET", "/v1/submitjob"),
    ("PUT", "/v1/submitjob"),
    ("DELETE", "/v1/terminatejob"),
    ("PUT", "/"),
    ("GET", "/favicon.ico"),
    ("PATCH", "/v1/tags/x"),
    ("OPTIONS", "/v1/submitjob"),
]


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
async def test_an_unknown_operation_is_refused_with_its_path(server, http, method, path):
    before = server.stored_rows()

    status, headers, answer = await http.send(method, path, data=json.dumps({}))

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert answer["message"].startswith(method)
    assert answer["message"].endswith("is not an operation of this server.")
    assert server.stored_rows() == before


async def test_read_operations_change_nothing(server, sleeper, submit, boto):
    job_id = await submit()
    before = server.stored_rows()

    await boto.describe_jobs(jobs=[job_id])
    await boto.list_jobs(jobQueue="default")
    await boto.describe_job_definitions()
    await boto.describe_job_queues()
    await boto.describe_compute_environments()
    await boto.list_scheduling_policies()
    await boto.list_consumable_resources()
    await boto.get_job_queue_snapshot(jobQueue="default")
    await boto.list_tags_for_resource(resourceArn=sleeper)

    assert server.stored_rows() == before
