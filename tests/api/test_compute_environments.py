"""CreateComputeEnvironment, UpdateComputeEnvironment, DeleteComputeEnvironment, DescribeComputeEnvironments."""

import pytest

from batchq.domain.enums import State
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
REQUEST = {"computeEnvironmentName": "it", "type": "MANAGED", "computeResources": EC2}
UNMANAGED = {"computeEnvironmentName": "it", "type": "UNMANAGED"}


@pytest.fixture
def described(boto):
    async def described(name="it"):
        return (await boto.describe_compute_environments(computeEnvironments=[name]))["computeEnvironments"][0]

    return described


@pytest.mark.parametrize("resources", [EC2, EC2 | {"type": "SPOT", "bidPercentage": 60}, FARGATE, INSTANCES], ids=str)
async def test_machine_members_are_returned_as_sent_and_the_environment_is_valid_at_once(boto, described, resources):
    members = {"computeResources": resources, "serviceRole": "arn:aws:iam::123456789012:role/batch", "tags": {"a": "b"}}
    made = await boto.create_compute_environment(**REQUEST | members)

    environment = await described()
    assert (made["computeEnvironmentName"], made["computeEnvironmentArn"]) == ("it", ARN + "compute-environment/it")

    unique = environment.pop("uuid")
    assert environment == {
        **REQUEST,
        **members,
        "computeEnvironmentArn": ARN + "compute-environment/it",
        "ecsClusterArn": f"arn:aws:ecs:eu-central-1:123456789012:cluster/AWSBatch-it-{unique}",
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "ComputeEnvironment Healthy",
        "containerOrchestrationType": "ECS",
    }


@pytest.mark.parametrize(
    ("members", "millicpus"),
    [
        (REQUEST, 8000),
        (REQUEST | {"computeResources": FARGATE | {"maxvCpus": 0}}, 0),
        (UNMANAGED | {"unmanagedvCpus": 3}, 3000),
        (UNMANAGED, 4000),
        (UNMANAGED | {"serviceRole": "", "eksConfiguration": {}, "tags": {}}, 4000),
    ],
    ids=str,
)
async def test_the_vcpus_of_an_environment_are_its_capacity(server, accepted, members, millicpus):
    await accepted("CreateComputeEnvironment", members)

    assert server.catalog.environments["it"].max_millicpus == millicpus


REFUSED = [
    (UNMANAGED | {"computeEnvironmentName": None}, "'computeEnvironmentName'"),
    (UNMANAGED | {"type": "OTHER"}, "'type'"),
    (UNMANAGED | {"state": "ON"}, "'state'"),
    (UNMANAGED | {"unmanagedvCpus": -1}, "'unmanagedvCpus'"),
    (
        UNMANAGED | {"eksConfiguration": {"eksClusterArn": "x"}},
        "eksConfiguration is not supported by this server: it is for Kubernetes",
    ),
    (UNMANAGED | {"tags": {"k": 1}}, "'tags.k'"),
    (REQUEST | {"computeResources": None}, "computeResources must be provided"),
    (REQUEST | {"unmanagedvCpus": 1}, "unmanagedvCpus is not applicable"),
    (REQUEST | {"computeResources": {"type": "EC2"}}, "'computeResources.maxvCpus' is a required field"),
    (REQUEST | {"computeResources": EC2 | {"instanceRole": ""}}, "Instance role is required."),
    (REQUEST | {"computeResources": EC2 | {"minvCpus": None}}, "Resource minvCpus is required."),
    (REQUEST | {"computeResources": EC2 | {"minvCpus": 9}}, "minvCpus must not be above maxvCpus"),
    (REQUEST | {"computeResources": FARGATE | {"desiredvCpus": 1}}, "desiredvCpus is not applicable for Fargate."),
    (REQUEST | {"computeResources": FARGATE | {"tags": {"a": "b"}}}, "tags is not applicable for Fargate."),
]


async def test_invalid_requests_are_refused_and_store_nothing(refuses):
    await refuses("CreateComputeEnvironment", REFUSED)


async def test_an_update_changes_only_what_it_names(server, boto, described):
    await boto.create_compute_environment(**REQUEST)

    made = await boto.update_compute_environment(
        computeEnvironment=ARN + "compute-environment/it",
        computeResources={"maxvCpus": 16, "updateToLatestImageVersion": True},
        updatePolicy={"jobExecutionTimeoutMinutes": 5},
    )

    environment = await described()
    assert made["computeEnvironmentName"] == "it"
    assert environment["computeResources"] == EC2 | {"maxvCpus": 16}
    assert environment["updatePolicy"] == {"jobExecutionTimeoutMinutes": 5}
    assert environment["state"] == "ENABLED"
    assert server.catalog.environments["it"].max_millicpus == 16000


REMOVING = {
    "ec2KeyPair": "",
    "imageId": "",
    "ec2Configuration": [],
    "launchTemplate": {"launchTemplateId": ""},
}


@pytest.mark.parametrize("member", REMOVING)
async def test_an_empty_member_of_an_update_removes_the_member(boto, described, member):
    resources = EC2 | {"ec2KeyPair": "a-key", "imageId": "ami-2"}
    await boto.create_compute_environment(**REQUEST | {"computeResources": resources})

    await boto.update_compute_environment(computeEnvironment="it", computeResources={member: REMOVING[member]})

    assert (await described())["computeResources"] == {name: resources[name] for name in resources if name != member}


@pytest.mark.parametrize(("created", "left"), [(EC2, []), (FARGATE, ["subnet-1"])], ids=["EC2", "Fargate"])
async def test_an_empty_list_of_subnets_changes_nothing_on_fargate(boto, described, created, left):
    await boto.create_compute_environment(**REQUEST | {"computeResources": created})

    await boto.update_compute_environment(computeEnvironment="it", computeResources={"subnets": []})

    assert (await described())["computeResources"]["subnets"] == left


async def test_an_update_of_the_state_keeps_the_capacity(server, boto):
    await boto.create_compute_environment(**UNMANAGED, unmanagedvCpus=3)

    await boto.update_compute_environment(computeEnvironment="it", state="DISABLED", serviceRole="")

    environment = server.catalog.environments["it"]
    assert (environment.state, environment.max_millicpus) == (State.DISABLED, 3000)


@pytest.mark.parametrize(
    ("members", "text"),
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
async def test_an_invalid_update_changes_nothing(boto, refused, members, text):
    await boto.create_compute_environment(**REQUEST)

    assert text in await refused("UpdateComputeEnvironment", {"computeEnvironment": "it"} | members)


async def test_an_update_does_not_require_members_that_only_create_requires(server, boto):
    """The environment that a first start creates lacks members that AWS requires."""
    await server.catalog.install_defaults(max_millicpus=2000)

    await boto.update_compute_environment(
        computeEnvironment="local", state="DISABLED", computeResources={"maxvCpus": 1}
    )

    environment = server.catalog.environments["local"]
    assert (environment.state, environment.max_millicpus) == (State.DISABLED, 1000)


async def test_only_a_disabled_environment_without_queues_can_be_deleted(default_queue, boto):
    with pytest.raises(boto.exceptions.ClientException):
        await boto.delete_compute_environment(computeEnvironment="local")
    await boto.update_compute_environment(computeEnvironment="local", state="DISABLED")
    with pytest.raises(boto.exceptions.ClientException, match="Cannot delete, found existing JobQueue relationship"):
        await boto.delete_compute_environment(computeEnvironment="local")
    await boto.update_job_queue(jobQueue="default", state="DISABLED")
    await boto.delete_job_queue(jobQueue="default")

    await boto.delete_compute_environment(computeEnvironment="local")

    assert (await boto.describe_compute_environments())["computeEnvironments"] == []
