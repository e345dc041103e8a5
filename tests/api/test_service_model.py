"""Every operation of botocore's service model gets a response in AWS's shape, whether it is supported or not."""

import json

import pytest
from botocore.exceptions import ClientError

from batchq.api.batch.routes import TAGS, UNSUPPORTED
from tests.api.conftest import ARN, CONTAINER
from tests.api.model import OPERATIONS, SERVED, sample
from tests.api.several import DUO, GANG, with_task, with_worker

FINE = (200, None)
REFUSED = (400, "ClientException")


def snake(name):
    return "".join("_" + text.lower() if text.isupper() else text for text in name).removeprefix("_")


def request_of(name, *, whole=False):
    """A request that botocore takes: with the required members, or with all."""
    sent = sample(OPERATIONS[name].input_shape, whole=whole)
    return sent | ({"resourceArn": ARN + "job-queue/default"} if "resourceArn" in sent else {})


@pytest.fixture
def post(http):
    """Send a body to an operation without botocore's validation. Returns status, error type and content."""

    async def post(name, content):
        method = TAGS[name].method if name in TAGS else "POST"
        path = OPERATIONS[name].http["requestUri"].partition("?")[0]
        where = path.replace("{resourceArn}", ARN + "job-queue/default")
        status, headers, answer = await http.send(method, where, data=json.dumps(content))
        return (status, headers.get("x-amzn-ErrorType")), answer

    return post


def test_each_operation_is_supported_or_listed_as_unsupported():
    assert SERVED.keys().isdisjoint(UNSUPPORTED)
    assert OPERATIONS.keys() == SERVED.keys() | UNSUPPORTED.keys()


UNKNOWN = [
    *(("POST", f"/{text}") for text in ("v1/makecoffee", "v1/submitjob/", "v1/SubmitJob", "v1/..%2fsubmitjob", "")),
    *((name, "/v1/submitjob") for name in ("GET", "PUT", "OPTIONS")),
    ("DELETE", "/v1/terminatejob"),
    ("PUT", "/"),
    ("GET", "/favicon.ico"),
    ("PATCH", "/v1/tags/x"),
]


async def test_an_unknown_operation_is_refused_with_its_path(server, http):
    before = server.stored_rows()

    for method, path in UNKNOWN:
        status, headers, answer = await http.send(method, path, data=b"{}")

        assert (status, headers["x-amzn-ErrorType"]) == REFUSED, (method, path)
        assert answer["message"].startswith(method)
        assert answer["message"].endswith("is not an operation of this server.")
        assert server.stored_rows() == before


@pytest.mark.parametrize("name", sorted(OPERATIONS))
async def test_a_minimal_request_is_answered_as_the_model_defines_or_refused(server, default_queue, boto, name):
    before = server.stored_rows()
    try:
        answer = await getattr(boto, snake(name))(**request_of(name))
    except ClientError as why:
        answer = why.response

    assert server.stored_rows() == before or not name.startswith(("Describe", "List", "Get"))
    metadata = answer["ResponseMetadata"]
    assert metadata["HTTPHeaders"]["content-type"] == "application/json"
    assert len(metadata["RequestId"]) == 36
    assert (metadata["HTTPStatusCode"], answer.get("Error", {}).get("Code")) in {FINE, REFUSED}
    assert "is not an operation" not in answer.get("Error", {}).get("Message", "")


@pytest.mark.parametrize("name", sorted(OPERATIONS))
async def test_a_request_with_all_members_is_answered_or_refused(server, default_queue, post, name):
    before = server.stored_rows()

    outcome, answer = await post(name, request_of(name, whole=True))

    assert outcome in {FINE, REFUSED}
    assert outcome == FINE or server.stored_rows() == before
    assert "is not an operation" not in answer.get("message", "")


async def test_an_empty_request_is_refused_if_a_member_is_required(server, default_queue, post):
    before = server.stored_rows()

    for name in SERVED.keys() - TAGS.keys():
        required = OPERATIONS[name].input_shape.required_members
        outcome, answer = await post(name, {})

        assert outcome == (REFUSED if required or name == "ListJobs" else FINE), name
        assert not required or f"'{required[0]}' is a required field" in answer["message"]
        assert server.stored_rows() == before


@pytest.mark.parametrize("name", sorted(TAGS))
async def test_an_empty_request_about_tags_is_refused_unless_it_reads(default_queue, post, name):
    outcome, _ = await post(name, {})

    assert outcome == (FINE if name == "ListTagsForResource" else REFUSED)


async def test_an_unsupported_operation_is_refused_with_its_name_and_reason(server, default_queue, post):
    before = server.stored_rows()

    for name in UNSUPPORTED:
        for sent in ({}, request_of(name), request_of(name, whole=True)):
            outcome, answer = await post(name, sent)

            assert outcome == REFUSED
            assert answer["message"].startswith(f"{name} is not supported by this server: ")
            assert "SageMaker" in answer["message"]
            assert answer["message"].endswith("this server runs containers on a Docker engine.")
    assert server.stored_rows() == before


JOB = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
DEFINITION = {"jobDefinitionName": "it", "type": "container", "containerProperties": CONTAINER}
EMPTY_PROPERTIES = {
    "executionRoleArn": "",
    "jobRoleArn": "",
    "user": "",
    "linuxParameters": {},
    "command": [],
    "volumes": [],
}
JOB_ID = "5d1f6c1e-0000-4000-8000-000000000000"


def of(operation, **members):
    return operation, members


ABSENT = [
    of("ListJobs", jobQueue="default", nextToken="", jobStatus="", filters=[]),
    of("ListJobs", jobQueue="default", arrayJobId="", multiNodeJobId=""),
    of("ListJobs", jobQueue="", arrayJobId=JOB_ID),
    of("DescribeJobDefinitions", jobDefinitions=[], nextToken="", jobDefinitionName="", status=""),
    of("DescribeJobQueues", jobQueues=[], nextToken=""),
    of("DescribeComputeEnvironments", computeEnvironments=[], nextToken=""),
    of(
        "SubmitJob",
        **JOB | {"jobDefinition": "duo", "containerOverrides": {"command": [], "environment": []}, "nodeOverrides": {}},
    ),
    of(
        "SubmitJob",
        **JOB | {"jobDefinition": "gang", "containerOverrides": {}, "ecsPropertiesOverride": {"taskProperties": []}},
    ),
    of(
        "RegisterJobDefinition",
        **DEFINITION,
        nodeProperties={},
        ecsProperties={},
        eksProperties={},
        consumableResourceProperties={},
    ),
    of(
        "RegisterJobDefinition",
        **DEFINITION,
        tags={},
        parameters={},
        timeout={},
        platformCapabilities=[],
        retryStrategy=None,
    ),
    of("RegisterJobDefinition", **DEFINITION | {"containerProperties": CONTAINER | EMPTY_PROPERTIES}),
    ("RegisterJobDefinition", with_task(volumes=[], ipcMode="", pidMode="", networkMode="", runtimePlatform={})),
    ("RegisterJobDefinition", with_worker(environment=[], mountPoints=[], secrets=[], ulimits=[], user="")),
]


@pytest.fixture
async def definitions(sleeper, accepted):
    """The definitions `sleeper`, `duo` and `gang`."""
    for content in (DUO, GANG):
        await accepted("RegisterJobDefinition", content)


@pytest.mark.parametrize("content", ABSENT, ids=lambda case: str(case)[:80])
async def test_empty_members_count_as_omitted(definitions, accepted, content):
    await accepted(*content)
