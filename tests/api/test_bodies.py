"""Malformed bodies are refused: no server error, and nothing is stored."""

import json

import pytest
from pydantic import ValidationError

from batchq.api.batch.list_jobs import ListJobs
from batchq.api.batch.routes import JOBS, RESOURCES
from batchq.api.http.http import parse
from batchq.errors import Invalid
from tests.api.conftest import ARN, CONTAINER
from tests.support.timing import cpu_seconds, little_cpu

POSTED = [*JOBS, *RESOURCES, f"tags/{ARN}job-queue/default"]

NOT_JSON = {
    "blank": b"  ",
    "text": b"not json",
    "open": b'{"jobs": [',
    "trailing": b"{} x",
    "two": b"{}{}",
    "single quotes": b"{'jobs': []}",
    "comment": b"{/**/}",
    "invalid utf-8": b'{"jobs": ["\xff\xfe"]}',
    "latin-1": '{"reason": "é"}'.encode("latin-1"),
    "overlong": b'{"jobs": ["\xc0\xaf"]}',
    "raw surrogate": b'{"jobs": ["\xed\xa0\x80"]}',
    "utf-16": '{"jobs": []}'.encode("utf-16"),
    "utf-32": '{"jobs": []}'.encode("utf-32-le"),
    "bom": b'\xef\xbb\xbf{"jobs": []}',
    "lone surrogate": b'{"jobs": ["\\ud800"], "x": "\\udfff"}',
    "control character": b'{"x": "\x01"}',
    "900 deep": b'{"x":' * 900 + b"1" + b"}" * 900,
    "100000 deep": b"[" * 100_000,
    "5000 digits": b'{"x": ' + b"9" * 5000 + b"}",
}
NOT_AN_OBJECT = {"null": b"null", "list": b"[]", "string": b'"x"', "number": b"7", "true": b"true", "NaN": b"NaN"}
BODIES = NOT_JSON | NOT_AN_OBJECT


@pytest.mark.fault("IN01", "IN02", "IN03", "IN05")
async def test_bodies_that_are_not_json_objects_are_refused(default_queue, refused):
    for body in BODIES.values():
        for name in POSTED:
            assert await refused(name, body=body)


async def test_an_empty_body_counts_as_an_object_without_members(server, default_queue, http):
    """boto3 before 2022 sends it for a call without parameters."""
    empty = {name: (await http.post(name, body=b""))[0] for name in POSTED}

    assert empty == {name: (await http.post(name, {}))[0] for name in POSTED}
    assert empty["DescribeJobQueues"] == 200


@pytest.mark.fault("IN06")
async def test_unknown_members_are_ignored(server, default_queue, http):
    body = b'{"__proto__": {"a": 1}, "constructor": null, "": [], "x": 1, "x": 2, "y": 1e3, "z": [[[[{}]]]]}'

    statuses = {(await http.post(name, body=body))[0] for name in POSTED}

    assert statuses == {200, 400}  # 200 for operations without required members


WRONG_NUMBERS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "1e999999",
    "1e2",
    "5.0",
    "true",
    '"5"',
    "[]",
    "{}",
    str(10**30),
    "9" * 5000,
]
NUMBERS = {
    "ListJobs": '{"jobQueue": "default", "maxResults": %s}',
    "DescribeJobQueues": '{"maxResults": %s}',
    "DescribeComputeEnvironments": '{"maxResults": %s}',
    "DescribeJobDefinitions": '{"maxResults": %s}',
    "CreateJobQueue": '{"jobQueueName": "q", "priority": %s,'
    ' "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "local"}]}',
    "UpdateJobQueue": '{"jobQueue": "default", "priority": %s}',
    "CreateComputeEnvironment": '{"computeEnvironmentName": "e", "type": "UNMANAGED", "unmanagedvCpus": %s}',
    "UpdateComputeEnvironment": '{"computeEnvironment": "local", "unmanagedvCpus": %s}',
    "SubmitJob": '{"jobName": "j", "jobQueue": "default", "jobDefinition": "sleeper",'
    ' "retryStrategy": {"attempts": %s}}',
    "RegisterJobDefinition": '{"jobDefinitionName": "d", "type": "container",'
    ' "timeout": {"attemptDurationSeconds": %s},'
    f' "containerProperties": {json.dumps(CONTAINER)}}}',
}


@pytest.mark.fault("IN04", "IN07")
async def test_integers_must_be_integers(sleeper, http):
    for number in WRONG_NUMBERS:
        statuses = {name: (await http.post(name, body=(body % number).encode()))[0] for name, body in NUMBERS.items()}

        assert statuses == dict.fromkeys(NUMBERS, 400), number


@pytest.mark.fault("IN04")
async def test_minus_zero_equals_zero(default_queue, http, boto):
    status, _, _ = await http.post("UpdateJobQueue", body=b'{"jobQueue": "default", "priority": -0}')

    assert status == 200
    assert (await boto.describe_job_queues())["jobQueues"][0]["priority"] == 0


@pytest.mark.fault("IN01")
def test_a_body_with_many_errors_costs_little_more_than_its_validation():
    body = b'{"filters": [' + b",".join([b"1"] * 120_000) + b"]}"

    def find_out():
        with pytest.raises(ValidationError):
            ListJobs.model_validate_json(body)

    def refuse():
        with pytest.raises(Invalid, match="it has 120000 errors"):
            parse(ListJobs, body)

    assert cpu_seconds(refuse) < 3 * cpu_seconds(find_out)


@pytest.mark.fault("IN03")
def test_a_deep_body_is_refused_quickly():
    with little_cpu(), pytest.raises(Invalid):
        parse(ListJobs, b"[" * 256 * 1024)
