"""RegisterJobDefinition with ecsProperties, of type multinode, and with consumable resources."""

from datetime import timedelta

import pytest

from batchq.domain.container import Mount, Resources
from batchq.domain.job import ConsumableRequirement
from batchq.domain.task import Condition, ContainerDependency
from tests.api.conftest import ARN, CONTAINER
from tests.api.several import (
    DUO,
    ECS,
    GANG,
    RANGES,
    SIDECAR,
    TASK,
    WORKER,
    with_nodes,
    with_range,
    with_task,
    with_worker,
)

ROLE = "arn:aws:iam::123456789012:role/runs"
SMALL = {"resourceRequirements": [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}]}
FARGATE = with_task(containers=[SIDECAR | SMALL, WORKER | SMALL], executionRoleArn=ROLE) | {
    "platformCapabilities": ["FARGATE"]
}


async def test_each_container_is_translated(registered):
    worker = {
        "dependsOn": [{"containerName": "side", "condition": "COMPLETE"}],
        "startTimeout": 2,
        "stopTimeout": 120,
        "privileged": True,
        "user": "nobody",
        "linuxParameters": {"sharedMemorySize": 8},
    }

    made = await registered(with_worker(**worker))

    side, work = made.nodes.task(0).containers
    assert (side.name, side.essential, side.spec.resources.millicpus) == ("side", False, 250)
    assert (work.name, work.essential, work.stop_timeout) == ("work", True, timedelta(seconds=120))
    assert (work.start_timeout, work.spec.privileged, work.spec.user) == (timedelta(seconds=2), True, "nobody")
    assert work.depends_on == (ContainerDependency(container="side", condition=Condition.COMPLETE),)
    assert (made.nodes.leading.spec, made.nodes.resources) == (work.spec, Resources(millicpus=1250, memory_mib=96))


async def test_containers_share_the_volumes_of_their_task(registered):
    volumes = [{"name": "scratch"}, {"name": "data", "host": {"sourcePath": "/data"}}]
    points = [
        {"sourceVolume": "scratch", "containerPath": "/scratch"},
        {"sourceVolume": "data", "containerPath": "/in", "readOnly": True},
    ]

    made = await registered(with_task(volumes=volumes, containers=[WORKER | {"dependsOn": [], "mountPoints": points}]))

    assert made.nodes.leading.spec.mounts == (
        Mount(container_path="/scratch", host_path=None, volume="scratch"),
        Mount(container_path="/in", host_path="/data", read_only=True),
    )


@pytest.mark.parametrize(
    ("modes", "shared"),
    [
        ({}, (False, False)),
        ({"ipcMode": "task", "pidMode": "task"}, (True, True)),
        ({"ipcMode": "none"}, (False, False)),
    ],
)
async def test_namespaces_are_shared_if_requested(registered, modes, shared):
    made = await registered(with_task(**modes))

    assert (made.nodes.task(0).share_ipc, made.nodes.task(0).share_pids) == shared


async def test_a_registered_task_is_returned_member_by_member(boto):
    task = TASK | {
        "executionRoleArn": ROLE,
        "taskRoleArn": ROLE,
        "ipcMode": "task",
        "pidMode": "task",
        "networkMode": "awsvpc",
        "enableExecuteCommand": True,
        "runtimePlatform": {"operatingSystemFamily": "LINUX", "cpuArchitecture": "X86_64"},
        "volumes": [{"name": "scratch"}],
        "ephemeralStorage": {"sizeInGiB": 21},
        "platformVersion": "LATEST",
        "containers": [SIDECAR, WORKER | {"repositoryCredentials": {"credentialsParameter": "x"}, "stopTimeout": 2}],
    }
    await boto.register_job_definition(**DUO | {"ecsProperties": {"taskProperties": [task]}})

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["duo:1"]))["jobDefinitions"]

    assert described["ecsProperties"] == {"taskProperties": [task]}
    assert "containerProperties" not in described


ACCEPTED_TASKS = [
    with_task(containers=[{name: member for name, member in WORKER.items() if name not in {"name", "dependsOn"}}]),
    with_task(containers=[SIDECAR, *({**WORKER, "name": f"c{n}"} for n in range(9))]),
    with_worker(name="a" * 255),
    with_worker(startTimeout=120, stopTimeout=2),
    with_worker(dependsOn=[{"containerName": "side", "condition": "SUCCESS"}]),
    with_worker(dependsOn=None),
    with_task(networkMode="bridge"),
    DUO | {"containerProperties": {}, "nodeProperties": {}, "eksProperties": {}},
    FARGATE,
]


A_CIRCLE = [SIDECAR | {"dependsOn": [{"containerName": "work", "condition": "START"}]}, WORKER]
REFUSED_TASKS = [
    (DUO | {"ecsProperties": {"taskProperties": []}}, "exactly 1 element"),
    (DUO | {"ecsProperties": {"taskProperties": [TASK, TASK]}}, "exactly 1 element"),
    (DUO | {"ecsProperties": {"other": 1}}, "ecsProperties.taskProperties"),
    (DUO | {"containerProperties": {"image": "x"}}, "Only one of containerProperties and ecsProperties"),
    (with_task(containers=[]), "1 to 10 containers"),
    (with_task(containers=[SIDECAR, *({**WORKER, "name": f"c{n}"} for n in range(10))]), "1 to 10 containers"),
    (with_task(containers=[SIDECAR]), "At least one container of a task must be essential"),
    (with_task(containers=[SIDECAR, WORKER, SIDECAR]), "The name of a container must not be named more than once"),
    *((with_worker(name=name), "The name of a container must be") for name in ("a" * 256, "a/b", "", None)),
    *((with_worker(image=image), "image") for image in ("", None)),
    (with_worker(dependsOn=[{"containerName": "other", "condition": "START"}]), "'other' in dependsOn of 'work'"),
    (with_worker(dependsOn=[{"condition": "START"}]), "Container '' in dependsOn"),
    (with_worker(dependsOn=[{"containerName": "side"}]), "START, COMPLETE, SUCCESS"),
    (with_worker(dependsOn=[{"containerName": "side", "condition": "HEALTHY"}]), "START, COMPLETE, SUCCESS"),
    (with_worker(dependsOn=[{"containerName": "work", "condition": "START"}]), "in a cycle"),
    (with_worker(dependsOn=WORKER["dependsOn"] * 2), "more than once"),
    (with_task(containers=A_CIRCLE), "side, work depend on each other in a cycle"),
    (
        with_task(
            containers=[
                SIDECAR | {"essential": True},
                WORKER | {"dependsOn": [{"containerName": "side", "condition": "COMPLETE"}]},
            ]
        ),
        "cannot be set on 'side': it is essential",
    ),
    *((with_worker(**{name: number}), name) for name in ("startTimeout", "stopTimeout") for number in (1, 121)),
    (with_worker(firelensConfiguration={"type": "fluentbit"}), "firelensConfiguration is not supported"),
    (with_worker(logConfiguration={"logDriver": "awsfirelens"}), "awsfirelens is not supported"),
    (with_worker(resourceRequirements=[]), "vCPU is not provided."),
    (with_worker(resourceRequirements=[{"type": "VCPU", "value": "1"}]), "Memory is not provided."),
    (with_worker(resourceRequirements=[{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "3"}]), "4 MiB"),
    (with_worker(mountPoints=[{"sourceVolume": "v", "containerPath": "/v"}]), "'v' is not one of the volumes"),
    (with_task(volumes=[{"name": "v", "efsVolumeConfiguration": {"fileSystemId": "x"}}], containers=[WORKER]), "efs"),
    *((with_task(**{mode: "host"}), "host's namespaces") for mode in ("ipcMode", "pidMode", "networkMode")),
    (with_task(ipcMode="all"), "ipcMode must be one of host, task, none"),
    (with_task(pidMode="none"), "pidMode must be one of host, task"),
    (with_task(networkMode="mesh"), "networkMode must be one of"),
    (with_task(networkConfiguration={"assignPublicIp": "ENABLED"}), "not applicable for EC2"),
    (with_task(runtimePlatform={"cpuArchitecture": "RISCV"}), "cpuArchitecture"),
    (FARGATE | {"ecsProperties": ECS}, "executionRoleArn is required"),
    (FARGATE | {"ecsProperties": {"taskProperties": [TASK | {"executionRoleArn": ROLE}]}}, "no such combination"),
    (
        FARGATE | with_task(containers=[WORKER | {"dependsOn": [], "privileged": True}], executionRoleArn=ROLE),
        "privileged is not applicable for Fargate",
    ),
]


EMPTY = {"environment": [], "mountPoints": [], "secrets": [], "ulimits": [], "volumes": []}
LICENCE = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}


async def test_each_node_has_a_range_and_inner_ranges_take_precedence(registered):
    made = await registered(GANG)

    gang = made.nodes
    assert (gang.count, gang.main) == (4, 0)
    assert [(node_range.first, node_range.last) for node_range in gang.ranges] == [(0, 3), (2, 3)]
    assert [len(gang.task(node).containers) for node in range(4)] == [1, 1, 2, 2]
    assert gang.leading.name == "default"
    assert gang.resources == Resources(millicpus=2 * 1000 + 2 * 1250, memory_mib=2 * 64 + 2 * 96)


async def test_a_registered_gang_is_returned_member_by_member(boto):
    ranges = [RANGES[0] | {"consumableResourceProperties": LICENCE, "instanceTypes": ["c5.large"]}, RANGES[1]]
    await boto.register_job_definition(**with_nodes(nodeRangeProperties=ranges))

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["gang:1"]))["jobDefinitions"]

    assert described["type"] == "multinode"
    assert described["nodeProperties"] == {
        "numNodes": 4,
        "mainNode": 0,
        "nodeRangeProperties": [ranges[0] | {"container": EMPTY | CONTAINER}, ranges[1]],
    }
    assert "containerProperties" not in described


def ranges(*texts):
    return with_nodes(nodeRangeProperties=[RANGES[0] | {"targetNodes": text} for text in texts])


ACCEPTED_GANGS = [
    *(ranges(text) for text in ("0:3", ":3", "0:", ":")),
    ranges("0:0", "1:3"),
    ranges("0:1", "2:"),
    ranges("0:0", "1:1", "2:2", "3:3"),
    ranges(":3", "0:0", "1:1", "2:2", "3:3"),
    with_nodes(numNodes=1, nodeRangeProperties=RANGES[:1]),
    with_nodes(numNodes=1000, mainNode=999),
    with_range(ecsProperties={}, eksProperties={}),
    GANG | {"containerProperties": {}, "ecsProperties": {}},
]


REFUSED_GANGS = [
    (GANG | {"nodeProperties": None}, "nodeProperties must be provided"),
    (GANG | {"containerProperties": CONTAINER}, "in nodeProperties only"),
    (GANG | {"ecsProperties": ECS}, "in nodeProperties only"),
    (GANG | {"type": "container"}, "only for a job definition of type multinode"),
    (GANG | {"platformCapabilities": ["FARGATE"]}, "multinode is not applicable for Fargate"),
    (GANG | {"nodeProperties": {"numNodes": 2}}, "nodeProperties.mainNode"),
    (with_nodes(numNodes=0), "numNodes must be between 1 and 1000"),
    (with_nodes(numNodes=1001), "numNodes must be between 1 and 1000"),
    (with_nodes(numNodes="4"), "nodeProperties.numNodes"),
    (with_nodes(mainNode=-1), "mainNode must be from 0 to 3"),
    (with_nodes(mainNode=4), "mainNode must be from 0 to 3"),
    (with_nodes(nodeRangeProperties=[]), "1 to 5 ranges"),
    (ranges(*(f"{n}:" for n in range(6))), "1 to 5 ranges"),
    (ranges("0:2"), "Node 3 has no range"),
    (ranges("1:"), "Node 0 has no range"),
    (ranges("0:1", "3:3"), "Node 2 has no range"),
    (ranges("0:4"), "must be within 0:3"),
    (ranges("0:3", "4:4"), "is beyond the 4 nodes"),
    (ranges("0:3", "0:"), "more than once"),
    (ranges("3:0"), "ends before it begins"),
    *((ranges(text), "targetNodes must be a range") for text in ("0", "", "0-3", "0:3\n", "-1:3", f"0:{'9' * 30}")),
    (with_range(container=None), "exactly one of container and ecsProperties"),
    (with_range(ecsProperties=ECS), "exactly one of container and ecsProperties"),
    (with_range(eksProperties={"podProperties": {}}), "eksProperties is not supported"),
    (with_range(container=CONTAINER | {"image": ""}), "image"),
    (with_range(container=CONTAINER | {"resourceRequirements": []}), "vCPU is not provided."),
    (with_range(container=CONTAINER | {"networkConfiguration": {}}), "not applicable for EC2"),
    (with_nodes(nodeRangeProperties=[RANGES[0] | {"container": {}}]), "exactly one of"),
]


async def test_requests_that_aws_accepts_are_accepted(accepts):
    await accepts("RegisterJobDefinition", [*ACCEPTED_TASKS, *ACCEPTED_GANGS])


@pytest.mark.fault("SE09")
async def test_invalid_requests_are_refused_and_store_nothing(refuses):
    await refuses("RegisterJobDefinition", [*REFUSED_TASKS, *REFUSED_GANGS])


def needing(*entries, of=DUO):
    return of | {"consumableResourceProperties": {"consumableResourceList": list(entries)}}


async def test_required_resources_are_stored_by_name_and_returned_as_registered(registered, boto):
    entries = [
        {"consumableResource": ARN + "consumable-resource/licence", "quantity": 2},
        {"consumableResource": "seat", "quantity": 1},
    ]

    made = await registered(needing(*entries))
    empty = await registered(needing() | {"jobDefinitionName": "empty"})

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["duo:1"]))["jobDefinitions"]
    assert made.needs == (
        ConsumableRequirement(resource="licence", quantity=2),
        ConsumableRequirement(resource="seat", quantity=1),
    )
    assert empty.needs == ()
    assert described["consumableResourceProperties"] == {"consumableResourceList": entries}


async def test_a_gang_requires_the_resources_of_each_nodes_range(registered):
    members = with_nodes(nodeRangeProperties=[RANGES[0] | {"consumableResourceProperties": LICENCE}, RANGES[1]])

    made = await registered(needing({"consumableResource": "licence", "quantity": 1}, of=members))

    assert made.needs == (ConsumableRequirement(resource="licence", quantity=1 + 2 * 2),)


@pytest.mark.parametrize("operation", ["RegisterJobDefinition", "SubmitJob"])
async def test_the_total_of_all_nodes_is_limited_to_what_clients_can_read(default_queue, accepted, refused, operation):
    half = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2**62}]}
    ranges = [RANGES[0] | {"consumableResourceProperties": half, "targetNodes": "0:"}]
    members = with_nodes(numNodes=1, nodeRangeProperties=ranges)
    await accepted("RegisterJobDefinition", members)

    two = {
        "RegisterJobDefinition": with_nodes(numNodes=2, nodeRangeProperties=ranges),
        "SubmitJob": {"jobName": "x", "jobQueue": "default", "jobDefinition": "gang", "nodeOverrides": {"numNodes": 2}},
    }
    assert "consumable resource" in await refused(operation, two[operation])


@pytest.mark.parametrize(
    "entries",
    [
        [{"consumableResource": "licence"}],
        *([{"consumableResource": "licence", "quantity": number}] for number in (0, -1, 1.0, 2**63)),
        [{"consumableResource": "", "quantity": 1}],
        [{"consumableResource": ARN + "job-queue/licence", "quantity": 1}],
        [{"quantity": 1}],
        [{"consumableResource": name, "quantity": 1} for name in ("licence", ARN + "consumable-resource/licence")],
    ],
    ids=str,
)
async def test_invalid_resource_requirements_are_refused(refused, entries):
    await refused("RegisterJobDefinition", needing(*entries))
