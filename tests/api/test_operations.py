"""Every operation that AWS Batch has gets an answer in AWS's shape, whether this server does it or not."""

import json

import pytest
from botocore.exceptions import ClientError

from api.batch.routes import JOBS, RESOURCES, TAGS, UNSUPPORTED
from tests.api.conftest import ARN
from tests.api.model import OPERATIONS, sample

SERVED = JOBS.keys() | RESOURCES.keys() | TAGS.keys()


def snake(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")


def test_each_is_either_served_or_known_not_to_be():
    assert SERVED.isdisjoint(UNSUPPORTED)
    assert OPERATIONS.keys() == SERVED | set(UNSUPPORTED)


@pytest.mark.parametrize("name", UNSUPPORTED)
async def test_one_that_is_not_served_is_refused_by_its_name(server, boto, name):
    before = server.remembers()

    with pytest.raises(boto.exceptions.ClientException, match=f"{name} is not supported by this server."):
        await getattr(boto, snake(name))(**sample(OPERATIONS[name].input_shape))

    assert server.remembers() == before


@pytest.mark.parametrize("name", sorted(SERVED))
async def test_one_that_is_served_answers_what_the_model_says_or_a_client_exception(ground, boto, name):
    asked = sample(OPERATIONS[name].input_shape)
    if "resourceArn" in asked:
        asked["resourceArn"] = ARN + "job-queue/default"

    try:
        answer = await getattr(boto, snake(name))(**asked)
    except ClientError as why:
        answer = why.response

    told = answer["ResponseMetadata"]
    assert told["HTTPHeaders"]["content-type"] == "application/json"
    assert len(told["RequestId"]) == 36
    assert (told["HTTPStatusCode"], answer.get("Error", {}).get("Code")) in {(200, None), (400, "ClientException")}


UNKNOWN = [
    ("POST", "/v1/makecoffee"),
    ("POST", "/v1/submitjob/"),
    ("POST", "/v1/SubmitJob"),
    ("POST", "/v2/submitjob"),
    ("POST", "/v1/..%2fsubmitjob"),
    ("POST", "/"),
    ("GET", "/v1/submitjob"),
    ("PUT", "/v1/submitjob"),
    ("DELETE", "/v1/terminatejob"),
    ("GET", "/"),
    ("GET", "/favicon.ico"),
    ("PATCH", "/v1/tags/x"),
    ("OPTIONS", "/v1/submitjob"),
]


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
async def test_what_is_no_operation_is_refused_by_what_was_asked(server, http, method, path):
    before = server.remembers()

    status, headers, answer = await http.ask(method, path, data=json.dumps({}))

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert answer["message"].startswith(method)
    assert answer["message"].endswith("is not an operation of this server.")
    assert server.remembers() == before


async def test_reading_changes_nothing(server, sleeper, submit, boto):
    job_id = await submit()
    before = server.remembers()

    await boto.describe_jobs(jobs=[job_id])
    await boto.list_jobs(jobQueue="default")
    await boto.describe_job_definitions()
    await boto.describe_job_queues()
    await boto.describe_compute_environments()
    await boto.list_tags_for_resource(resourceArn=sleeper)

    assert server.remembers() == before
