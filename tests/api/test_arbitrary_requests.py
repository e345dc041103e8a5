"""Arbitrary requests get a response in AWS's shape or an error without effect, and all stored data can be described.

Also those about jobs with several containers or nodes, and arrays.
"""

import asyncio
import copy
import json
from contextlib import suppress
from functools import reduce
from operator import getitem

import pytest
from botocore.parsers import create_parser
from hypothesis import given, settings
from hypothesis import strategies as some

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.context import BatchRequest
from batchq.api.batch.routes import JOBS, RESOURCES
from batchq.api.http.http import reply
from batchq.errors import Invalid
from tests.api.conftest import ARN, CONTAINER
from tests.api.fakes import ACCOUNT, Backend
from tests.api.model import OPERATIONS
from tests.api.several import DUO, GANG, RANGES, WORKER, with_nodes, with_task, with_worker
from tests.api.test_compute_environments import EC2
from tests.api.test_register_job_definition import ALL_OF_IT
from tests.support.builders import ADMIN
from tests.support.examples import examples

HANDLERS = {**JOBS, **RESOURCES}
DESCRIBE_REQUESTS = {
    "DescribeJobDefinitions": {},
    "DescribeJobQueues": {},
    "DescribeComputeEnvironments": {},
    "DescribeSchedulingPolicies": {"arns": [ARN + "scheduling-policy/fair", ARN + "scheduling-policy/new"]},
    "ListConsumableResources": {},
    "ListJobs": {"jobQueue": "default", "filters": [{"name": "JOB_NAME", "values": ["*"]}]},
}
PARSER = create_parser("rest-json")

# Valid requests of each operation.
RETRY = {"attempts": 2, "evaluateOnExit": [{"onReason": "Cannot*", "onExitCode": "1*", "action": "retry"}]}
LIMITS = [
    {
        "reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "state": "RUNNABLE",
        "maxTimeSeconds": 600,
        "action": "CANCEL",
    }
]
FAIR = {
    "shareDecaySeconds": 60,
    "computeReservation": 10,
    "shareDistribution": [{"shareIdentifier": "a*", "weightFactor": 0.5}, {"shareIdentifier": "b"}],
}
VALID_REQUESTS = {
    "SubmitJob": {
        "jobName": "new",
        "jobQueue": "default",
        "jobDefinition": "sleeper",
        "schedulingPriorityOverride": 1,
        "arrayProperties": {},
        "dependsOn": [],
        "parameters": {"a": "b"},
        "containerOverrides": {
            "vcpus": 1,
            "memory": 64,
            "command": ["echo", "Ref::a"],
            "environment": [{"name": "A", "value": "1"}],
            "resourceRequirements": [{"type": "MEMORY", "value": "128"}, {"type": "GPU", "value": 1}],
        },
        "retryStrategy": RETRY,
        "timeout": {"attemptDurationSeconds": 60},
        "propagateTags": True,
        "tags": {"a": "b"},
    },
    "DescribeJobs": {"jobs": ["x", "y"]},
    "ListJobs": {
        "jobQueue": "default",
        "jobStatus": "SUBMITTED",
        "maxResults": 10,
        "filters": [{"name": "JOB_NAME", "values": ["*"]}],
    },
    "CancelJob": {"jobId": "x", "reason": "y"},
    "CancelJobs": {"jobs": ["x", "y"], "reason": "z"},
    "TerminateJob": {"jobId": "x", "reason": "y"},
    "TerminateJobs": {"jobs": ["x", "y"], "reason": "z"},
    "RegisterJobDefinition": {
        "jobDefinitionName": "new",
        "type": "container",
        "parameters": {"a": "b"},
        "schedulingPriority": 1,
        "containerProperties": ALL_OF_IT,
        "retryStrategy": RETRY,
        "propagateTags": True,
        "timeout": {"attemptDurationSeconds": 60},
        "tags": {"a": "b"},
        "platformCapabilities": ["EC2"],
    },
    "DeregisterJobDefinition": {"jobDefinition": "sleeper:1"},
    "DescribeJobDefinitions": {"jobDefinitionName": "sleeper", "maxResults": 10, "status": "ACTIVE"},
    "CreateComputeEnvironment": {
        "computeEnvironmentName": "new",
        "type": "MANAGED",
        "state": "ENABLED",
        "computeResources": EC2,
        "serviceRole": "role",
        "tags": {"a": "b"},
        "context": "x",
        "ecsSettings": {"containerInsights": "ENABLED"},
    },
    "UpdateComputeEnvironment": {
        "computeEnvironment": "local",
        "state": "DISABLED",
        "unmanagedvCpus": 2,
        "computeResources": {"maxvCpus": 2},
        "updatePolicy": {"terminateJobsOnUpdate": True, "jobExecutionTimeoutMinutes": 5},
    },
    "DeleteComputeEnvironment": {"computeEnvironment": "spare"},
    "DescribeComputeEnvironments": {"computeEnvironments": ["local", "x"], "maxResults": 1},
    "CreateJobQueue": {
        "jobQueueName": "new",
        "priority": 1,
        "state": "ENABLED",
        "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "local"}],
        "jobQueueType": "ECS",
        "schedulingPolicyArn": ARN + "scheduling-policy/fair",
        "jobStateTimeLimitActions": LIMITS,
        "tags": {"a": "b"},
    },
    "UpdateJobQueue": {
        "jobQueue": "default",
        "state": "DISABLED",
        "priority": 2,
        "computeEnvironmentOrder": [{"order": 2, "computeEnvironment": "local"}],
        "jobStateTimeLimitActions": LIMITS,
    },
    "DeleteJobQueue": {"jobQueue": "spare"},
    "DescribeJobQueues": {"jobQueues": ["default", "x"], "maxResults": 1},
    "GetJobQueueSnapshot": {"jobQueue": "default"},
    "CreateSchedulingPolicy": {"name": "new", "fairsharePolicy": FAIR, "tags": {"a": "b"}},
    "UpdateSchedulingPolicy": {"arn": ARN + "scheduling-policy/fair", "fairsharePolicy": FAIR},
    "DeleteSchedulingPolicy": {"arn": ARN + "scheduling-policy/fair"},
    "DescribeSchedulingPolicies": {"arns": [ARN + "scheduling-policy/fair", "x"]},
    "ListSchedulingPolicies": {"maxResults": 1},
    "CreateConsumableResource": {
        "consumableResourceName": "new",
        "totalQuantity": 10,
        "resourceType": "NON_REPLENISHABLE",
        "tags": {"a": "b"},
    },
    "UpdateConsumableResource": {
        "consumableResource": "licences",
        "operation": "ADD",
        "quantity": 1,
        "clientToken": "token",
    },
    "DeleteConsumableResource": {"consumableResource": "licences"},
    "DescribeConsumableResource": {"consumableResource": ARN + "consumable-resource/licences"},
    "ListConsumableResources": {
        "filters": [{"name": "CONSUMABLE_RESOURCE_NAME", "values": ["l*", "x"]}],
        "maxResults": 1,
    },
    "ListJobsByConsumableResource": {
        "consumableResource": "licences",
        "filters": [{"name": "JOB_STATUS", "values": ["RUNNING"]}, {"name": "JOB_NAME", "values": ["a*"]}],
        "maxResults": 1,
    },
}

NEEDS = {"consumableResourceList": [{"consumableResource": "licences", "quantity": 2}]}
OVER = {
    "name": "work",
    "command": ["echo", "Ref::port"],
    "environment": [{"name": "A", "value": "1"}],
    "resourceRequirements": [{"type": "MEMORY", "value": "128"}],
}
WHOLE_TASK = with_task(
    volumes=[{"name": "v"}],
    ipcMode="task",
    pidMode="task",
    networkMode="awsvpc",
    platformVersion="LATEST",
    containers=[
        *with_worker()["ecsProperties"]["taskProperties"][0]["containers"],
        WORKER
        | {
            "name": "more",
            "essential": True,
            "startTimeout": 2,
            "stopTimeout": 2,
            "mountPoints": [{"sourceVolume": "v", "containerPath": "/v", "readOnly": True}],
        },
    ],
)
WHOLE_GANG = with_nodes(
    nodeRangeProperties=[RANGES[0] | {"instanceTypes": ["c5.large"], "consumableResourceProperties": NEEDS}, RANGES[1]]
)
JOB_OF_DUO = {"jobName": "new", "jobQueue": "default", "jobDefinition": "duo"}
REQUESTS_OF_SEVERAL = {
    "a task": ("RegisterJobDefinition", WHOLE_TASK | {"consumableResourceProperties": NEEDS}),
    "a gang": ("RegisterJobDefinition", WHOLE_GANG | {"consumableResourceProperties": NEEDS}),
    "an array of tasks": (
        "SubmitJob",
        JOB_OF_DUO
        | {
            "arrayProperties": {"size": 2},
            "dependsOn": [{"type": "SEQUENTIAL"}],
            "ecsPropertiesOverride": {"taskProperties": [{"containers": [OVER]}]},
            "consumableResourcePropertiesOverride": NEEDS,
            "parameters": {"port": "80"},
        },
    ),
    "a gang of another size": (
        "SubmitJob",
        JOB_OF_DUO
        | {
            "jobDefinition": "gang",
            "nodeOverrides": {
                "numNodes": 5,
                "nodePropertyOverrides": [
                    {
                        "targetNodes": "0:",
                        "containerOverrides": {"command": ["x"], "vcpus": 2},
                        "instanceTypes": ["c5.large"],
                        "consumableResourcePropertiesOverride": NEEDS,
                    },
                    {"targetNodes": "2:3", "ecsPropertiesOverride": {"taskProperties": [{"containers": [OVER]}]}},
                ],
            },
        },
    ),
    "the children": ("ListJobs", {"arrayJobId": "x", "jobStatus": "SUBMITTED", "maxResults": 1}),
    "the nodes": ("ListJobs", {"multiNodeJobId": "x", "jobStatus": "SUBMITTED", "maxResults": 1, "nextToken": ""}),
}
REQUESTS = {name: (name, content) for name, content in VALID_REQUESTS.items()} | REQUESTS_OF_SEVERAL

# Names that are there, names that could be, and texts that break things.
THERE = [
    "local",
    "default",
    "sleeper",
    "licences",
    "sleeper:1",
    "a-job",
    "busybox",
    "/data",
    "nofile",
    "1",
    "0.25",
    "64",
]
WORDS = ["VCPU", "MEMORY", "retry", "EC2", "FARGATE", "ENABLED", "DISABLED", "RUNNING", "SUBMITTED", "JOB_NAME", "*"]
OF_AWS = [
    ARN + "job-queue/default",
    ARN + "compute-environment/local",
    ARN + "job-definition/sleeper:1",
    "arn:",
    "Ref::x",
]
NASTY = ["", "A=B", "é", "👩‍🚀", "\x00", "\x1b[0m", "-rm", "../..", "a" * 129, "x" * 1025, "%s{}", "'; --"]
TEXTS = some.sampled_from([*THERE, *WORDS, *OF_AWS, *NASTY]) | some.text(max_size=20)
NUMBERS = some.sampled_from([0, 1, 2, 4, 10, 11, 60, 64, 100, 512, 1000, 9999, -1, 2**31 - 1, 2**31, 2**63, 10**30])
VALUES = TEXTS | NUMBERS | some.sampled_from([None, True, False, [], {}, 1.5, float("nan"), [None], {"a": None}])


LIKE = {str: TEXTS, int: NUMBERS, bool: some.booleans(), list: some.just([]), dict: some.just({})}


def places(content, path=()):
    """Every place in it where something stands."""
    if path:
        yield path
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in entries:
        yield from places(value, (*path, key))


def changed(content, changes):
    """The request with other values in some places."""
    content = copy.deepcopy(content)
    for path, value in changes:
        with suppress(KeyError, IndexError, TypeError):  # an earlier change took the place away
            *way, last = path
            reduce(getitem, way, content)[last] = copy.deepcopy(value)
    return content


def others(value):
    """Three times out of four of the same kind."""
    alike = LIKE.get(type(value), VALUES)
    return some.integers(0, 3).flatmap(lambda drawn: alike if drawn else VALUES)


def requests(content):
    """Variants of a request, with other values in up to three places."""
    change = some.sampled_from(list(places(content))).flatmap(
        lambda place: some.tuples(some.just(place), others(reduce(getitem, place, content)))
    )
    return some.lists(change, max_size=3).map(lambda changes: changed(content, changes))


class HandlerClient:
    """Calls the handlers directly, as the routes do."""

    def __init__(self):
        self.backend = Backend()

    async def send(self, name, content):
        operation = HANDLERS[name]
        arns, body = BatchArns(account=ACCOUNT, region="eu-central-1"), json.dumps(content).encode()
        request = BatchRequest(input=operation.parse(body), arns=arns, caller=ADMIN)
        return reply(await operation.handle(self.backend.parts, request)).body

    async def prepare(self):
        await self.backend.create_default_queue()
        definition = {"jobDefinitionName": "sleeper", "type": "container", "containerProperties": CONTAINER}
        await self.send("RegisterJobDefinition", definition)
        await self.send("CreateSchedulingPolicy", {"name": "fair"})
        await self.send("CreateConsumableResource", {"consumableResourceName": "licences"})
        await self.send("SubmitJob", {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"})
        for definition in (DUO, GANG):
            await self.send("RegisterJobDefinition", definition)
            await self.send("SubmitJob", JOB_OF_DUO | {"jobDefinition": definition["jobDefinitionName"]})


def check(name, body):
    """botocore can parse the response, and no member of it is null."""
    assert not has_null(json.loads(body))
    answer = {"status_code": 200, "headers": {}, "body": body}
    PARSER.parse(answer, OPERATIONS[name].output_shape)


def has_null(value):
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, children))


async def play(name, content):
    client = HandlerClient()
    await client.prepare()
    before = client.backend.stored_rows()

    try:
        check(name, await client.send(name, content))
    except Invalid:
        assert client.backend.stored_rows() == before

    for operation, query in DESCRIBE_REQUESTS.items():
        check(operation, await client.send(operation, query))
    jobs = [str(job_id) for job_id in client.backend.store.all_jobs()]
    members = [f"{job_id}{member}" for job_id in jobs for member in ("", "#0", "#3")]
    check("DescribeJobs", await client.send("DescribeJobs", {"jobs": members}))


def test_every_operation_has_a_valid_request():
    assert VALID_REQUESTS.keys() == HANDLERS.keys()


@pytest.mark.parametrize(("name", "content"), REQUESTS.values(), ids=REQUESTS)
async def test_valid_requests_succeed(name, content):
    client = HandlerClient()
    await client.prepare()

    check(name, await client.send(name, content))


@pytest.mark.parametrize(("name", "valid"), REQUESTS.values(), ids=REQUESTS)
def test_no_request_causes_a_server_error(name, valid):
    @settings(max_examples=examples(50), deadline=None)
    @given(requests(valid))
    def any_request(content):
        asyncio.run(play(name, content))

    any_request()
