"""CreateComputeEnvironment, UpdateComputeEnvironment, DeleteComputeEnvironment, DescribeComputeEnvironments."""

import pytest

from batchq.domain.catalog import State
from tests.api.conftest import ARN

EC2 = {
    "type": "EC2",
    "minvCpus": 0,
    "maxvCpus": 8,
    "desiredvCpus": 2,
    "instanceTypes": ["optimal"],
    "subnets": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
    "instanceRole": "ecsInstanceRole",
    "tags": {"Name": "it"},
    "allocationStrategy": "BEST_FIT_PROGRESSIVE",
    "launchTemplate": {
        "launchTemplateName": "lt",
        "version": "$Latest",
        "overrides": [{"launchTemplateId": "lt-2", "targetInstanceTypes": ["c5"]}],
    },
    "ec2Configuration": [{"imageType": "ECS_AL2023", "imageIdOverride": "ami-1"}],
    "scalingPolicy": {"minScaleDownDelayMinutes": 20},
}
FARGATE = {"type": "FARGATE", "maxvCpus": 8, "subnets": ["subnet-1"], "securityGroupIds": ["sg-1"]}
INSTANCES = {
    "type": "ECS_MANAGED_INSTANCES",
    "maxvCpus": 8,
    "managedInstancesProvider": {
        "infrastructureRoleArn": "arn:aws:iam::123456789012:role/x",
        "instanceLaunchTemplate": {
            "ec2InstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/x",
            "networkConfiguration": {"subnets": ["subnet-1"], "securityGroups": ["sg-1"]},
        },
    },
}
ASKED = {"computeEnvironmentName": "it", "type": "MANAGED", "computeResources": EC2}
UNMANAGED = {"computeEnvironmentName": "it", "type": "UNMANAGED"}


@pytest.fixture
def told(boto):
    async def told(name="it"):
        return (await boto.describe_compute_environments(computeEnvironments=[name]))["computeEnvironments"][0]

    return told


async def test_it_answers_name_and_arn(boto):
    made = await boto.create_compute_environment(**ASKED)

    assert (made["computeEnvironmentName"], made["computeEnvironmentArn"]) == ("it", ARN + "compute-environment/it")


@pytest.mark.parametrize("resources", [EC2, EC2 | {"type": "SPOT", "bidPercentage": 60}, FARGATE, INSTANCES], ids=str)
async def test_what_machines_to_rent_is_told_as_it_was_said_and_the_environment_is_valid_at_once(boto, told, resources):
    asked = {"computeResources": resources, "serviceRole": "arn:aws:iam::123456789012:role/batch", "tags": {"a": "b"}}
    await boto.create_compute_environment(**ASKED | asked)

    environment = await told()

    unique = environment.pop("uuid")
    assert environment == {
        **ASKED,
        **asked,
        "computeEnvironmentArn": ARN + "compute-environment/it",
        "ecsClusterArn": f"arn:aws:ecs:eu-central-1:123456789012:cluster/AWSBatch-it-{unique}",
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "ComputeEnvironment Healthy",
        "containerOrchestrationType": "ECS",
    }


@pytest.mark.parametrize(
    ("asked", "millicpus"),
    [
        (ASKED, 8000),
        (ASKED | {"computeResources": FARGATE | {"maxvCpus": 0}}, 0),
        (UNMANAGED | {"unmanagedvCpus": 3}, 3000),
        (UNMANAGED, 4000),
        (UNMANAGED | {"serviceRole": "", "eksConfiguration": {}, "tags": {}}, 4000),
    ],
    ids=str,
)
async def test_its_vcpus_are_what_it_takes_at_a_time(server, http, asked, millicpus):
    status, _, answer = await http.post("CreateComputeEnvironment", asked)

    assert status == 200, answer
    assert server.catalog.environments["it"].max_millicpus == millicpus


async def test_an_environment_may_begin_disabled(server, boto):
    await boto.create_compute_environment(**UNMANAGED, state="DISABLED")

    assert server.catalog.environments["it"].state is State.DISABLED


REFUSED = [
    (UNMANAGED | {"computeEnvironmentName": ""}, "computeEnvironmentName must be"),
    (UNMANAGED | {"computeEnvironmentName": "a" * 129}, "computeEnvironmentName must be"),
    (UNMANAGED | {"computeEnvironmentName": "a/b"}, "computeEnvironmentName must be"),
    (UNMANAGED | {"computeEnvironmentName": None}, "'computeEnvironmentName'"),
    (UNMANAGED | {"type": "OTHER"}, "'type'"),
    (UNMANAGED | {"state": "ON"}, "'state'"),
    (UNMANAGED | {"unmanagedvCpus": -1}, "'unmanagedvCpus'"),
    (
        UNMANAGED | {"eksConfiguration": {"eksClusterArn": "x"}},
        "eksConfiguration is not supported by this server: it is for Kubernetes",
    ),
    (UNMANAGED | {"tags": {"k": 1}}, "'tags.k'"),
    (ASKED | {"computeResources": None}, "computeResources must be provided"),
    (ASKED | {"unmanagedvCpus": 1}, "unmanagedvCpus is not applicable"),
    (ASKED | {"computeResources": {"type": "EC2"}}, "'computeResources.maxvCpus' is a required field"),
    (ASKED | {"computeResources": EC2 | {"instanceRole": ""}}, "Instance role is required."),
    (ASKED | {"computeResources": EC2 | {"minvCpus": None}}, "Resource minvCpus is required."),
    (ASKED | {"computeResources": EC2 | {"minvCpus": 9}}, "minvCpus must not be above maxvCpus"),
    (ASKED | {"computeResources": FARGATE | {"desiredvCpus": 1}}, "desiredvCpus is not applicable for Fargate."),
    (ASKED | {"computeResources": FARGATE | {"tags": {"a": "b"}}}, "tags is not applicable for Fargate."),
]


@pytest.mark.parametrize(("asked", "text"), REFUSED, ids=str)
async def test_what_cannot_be_is_refused_and_nothing_is_stored(server, http, asked, text):
    before = server.remembers()

    status, headers, answer = await http.post("CreateComputeEnvironment", asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
    assert server.remembers() == before


async def test_a_taken_name_is_refused_with_aws_text_and_bare(boto, http):
    await boto.create_compute_environment(**UNMANAGED)

    _, _, answer = await http.post("CreateComputeEnvironment", UNMANAGED)

    assert answer == {"message": "Object already exists"}


async def test_an_update_changes_only_what_it_names(server, boto, told):
    await boto.create_compute_environment(**ASKED)

    made = await boto.update_compute_environment(
        computeEnvironment=ARN + "compute-environment/it",
        computeResources={"maxvCpus": 16, "updateToLatestImageVersion": True},
        updatePolicy={"jobExecutionTimeoutMinutes": 5},
    )

    environment = await told()
    assert made["computeEnvironmentName"] == "it"
    assert environment["computeResources"] == EC2 | {"maxvCpus": 16}
    assert environment["updatePolicy"] == {"jobExecutionTimeoutMinutes": 5}
    assert environment["state"] == "ENABLED"
    assert server.catalog.environments["it"].max_millicpus == 16000


async def test_an_update_of_the_state_leaves_the_capacity(server, boto):
    await boto.create_compute_environment(**UNMANAGED, unmanagedvCpus=3)

    await boto.update_compute_environment(computeEnvironment="it", state="DISABLED", serviceRole="")

    environment = server.catalog.environments["it"]
    assert (environment.state, environment.max_millicpus) == (State.DISABLED, 3000)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"computeEnvironment": "other"}, "other"),
        ({"computeEnvironment": ""}, "'computeEnvironment' is a required field"),
        ({"computeEnvironment": ARN + "job-queue/it"}, "not found"),
        ({"computeResources": {"minvCpus": 9}}, "minvCpus must not be above maxvCpus"),
        ({"unmanagedvCpus": 4}, "unmanagedvCpus is not applicable"),
        ({"eksConfiguration": {"x": "y"}}, "eksConfiguration is not supported by this server: it is for Kubernetes"),
    ],
    ids=str,
)
async def test_an_update_that_cannot_be_changes_nothing(server, boto, http, asked, text):
    await boto.create_compute_environment(**ASKED)
    before = server.remembers()

    status, _, answer = await http.post("UpdateComputeEnvironment", {"computeEnvironment": "it"} | asked)

    assert status == 400
    assert text in answer["message"]
    assert server.remembers() == before


async def test_an_update_does_not_ask_again_what_only_a_new_environment_must_have(server, boto):
    """As the environment that a first start makes, which AWS would not have taken."""
    await server.catalog.install_defaults(max_millicpus=2000)

    await boto.update_compute_environment(
        computeEnvironment="local", state="DISABLED", computeResources={"maxvCpus": 1}
    )

    environment = server.catalog.environments["local"]
    assert (environment.state, environment.max_millicpus) == (State.DISABLED, 1000)


async def test_it_is_deleted_when_it_is_disabled_and_no_queue_uses_it(ground, boto):
    with pytest.raises(boto.exceptions.ClientException):
        await boto.delete_compute_environment(computeEnvironment="local")
    await boto.update_compute_environment(computeEnvironment="local", state="DISABLED")
    with pytest.raises(boto.exceptions.ClientException, match="Cannot delete, found existing JobQueue relationship"):
        await boto.delete_compute_environment(computeEnvironment="local")
    await boto.update_job_queue(jobQueue="default", state="DISABLED")
    await boto.delete_job_queue(jobQueue="default")

    await boto.delete_compute_environment(computeEnvironment="local")

    assert (await boto.describe_compute_environments())["computeEnvironments"] == []


@pytest.mark.parametrize("said", ["nowhere", ARN + "compute-environment/nowhere"])
async def test_deleting_what_is_not_there_is_no_error(boto, said):
    answer = await boto.delete_compute_environment(computeEnvironment=said)

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


async def test_they_are_told_by_name_or_arn_and_unknown_ones_are_left_out(boto):
    for name in ("c", "a", "b"):
        await boto.create_compute_environment(computeEnvironmentName=name, type="UNMANAGED")

    async def names(**asked):
        found = await boto.describe_compute_environments(**asked)
        return [it["computeEnvironmentName"] for it in found["computeEnvironments"]]

    assert await names() == ["a", "b", "c"]
    assert await names(computeEnvironments=["b", ARN + "compute-environment/a", "x"]) == ["a", "b"]
    assert await names(computeEnvironments=[ARN + "job-queue/a"]) == []
    assert await names(computeEnvironments=[]) == ["a", "b", "c"]


async def test_pages_tell_every_environment_once(boto):
    for name in "abcde":
        await boto.create_compute_environment(computeEnvironmentName=name, type="UNMANAGED")

    pages = await boto.pages("describe_compute_environments", PaginationConfig={"PageSize": 2})

    assert [len(page["computeEnvironments"]) for page in pages] == [2, 2, 1]
    assert [it["computeEnvironmentName"] for page in pages for it in page["computeEnvironments"]] == list("abcde")


async def test_a_hundred_are_named_at_once_and_no_more(ground, http):
    names = ["local", *(f"no-{n}" for n in range(99))]

    status, _, answer = await http.post("DescribeComputeEnvironments", {"computeEnvironments": names})
    refused, headers, _ = await http.post("DescribeComputeEnvironments", {"computeEnvironments": [*names, "one more"]})

    assert (status, len(answer["computeEnvironments"])) == (200, 1)
    assert (refused, headers["x-amzn-ErrorType"]) == (400, "ClientException")
