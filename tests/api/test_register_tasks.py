"""RegisterJobDefinition with ecsProperties."""

from datetime import timedelta

import pytest

from batchq.domain.container import Mount, Resources
from batchq.domain.task import Condition, ContainerDependency
from tests.api.several import DUO, ECS, SIDECAR, TASK, WORKER, with_task, with_worker

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

    side, work = made.task.containers
    assert (side.name, side.essential, side.spec.resources.millicpus) == ("side", False, 250)
    assert (work.name, work.essential, work.stop_timeout) == ("work", True, timedelta(seconds=120))
    assert (work.start_timeout, work.spec.privileged, work.spec.user) == (timedelta(seconds=2), True, "nobody")
    assert work.depends_on == (ContainerDependency(container="side", condition=Condition.COMPLETE),)
    assert (made.container, made.task.resources) == (work.spec, Resources(millicpus=1250, memory_mib=96))


async def test_containers_share_the_volumes_of_their_task(registered):
    volumes = [{"name": "scratch"}, {"name": "data", "host": {"sourcePath": "/data"}}]
    points = [
        {"sourceVolume": "scratch", "containerPath": "/scratch"},
        {"sourceVolume": "data", "containerPath": "/in", "readOnly": True},
    ]

    made = await registered(with_task(volumes=volumes, containers=[WORKER | {"dependsOn": [], "mountPoints": points}]))

    assert made.container.mounts == (
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

    assert (made.task.share_ipc, made.task.share_pids) == shared


async def test_a_registered_definition_is_returned_member_by_member(boto):
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


TAKEN = [
    with_task(containers=[{key: value for key, value in SIDECAR.items() if key not in {"name", "essential"}}]),
    with_task(containers=[SIDECAR, *({**WORKER, "name": f"c{n}"} for n in range(9))]),
    with_worker(name="a" * 255),
    with_worker(startTimeout=120, stopTimeout=2),
    with_worker(dependsOn=[{"containerName": "side", "condition": "SUCCESS"}]),
    with_worker(dependsOn=None),
    with_task(networkMode="bridge"),
    DUO | {"containerProperties": {}, "nodeProperties": {}, "eksProperties": {}},
    FARGATE,
]
TAKEN[0]["ecsProperties"]["taskProperties"][0]["containers"][0]["resourceRequirements"] = WORKER["resourceRequirements"]


@pytest.mark.parametrize("members", TAKEN, ids=str)
async def test_requests_that_aws_accepts_are_accepted(accepted, members):
    await accepted("RegisterJobDefinition", members)


A_CIRCLE = [
    SIDECAR | {"dependsOn": [{"containerName": "work", "condition": "START"}]},
    WORKER,
]
REFUSED = [
    (DUO | {"ecsProperties": {"taskProperties": []}}, "exactly 1 element"),
    (DUO | {"ecsProperties": {"taskProperties": [TASK, TASK]}}, "exactly 1 element"),
    (DUO | {"ecsProperties": {"other": 1}}, "ecsProperties.taskProperties"),
    (DUO | {"containerProperties": {"image": "x"}}, "Only one of containerProperties and ecsProperties"),
    (with_task(containers=[]), "1 to 10 containers"),
    (with_task(containers=[SIDECAR, *({**WORKER, "name": f"c{n}"} for n in range(10))]), "1 to 10 containers"),
    (with_task(containers=[SIDECAR]), "At least one container of a task must be essential"),
    (with_task(containers=[SIDECAR, WORKER, SIDECAR]), "The name of a container must not be named more than once"),
    *((with_worker(name=it), "The name of a container must be") for it in ("a" * 256, "a/b", "", None)),
    *((with_worker(image=it), "image") for it in ("", None)),
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
    *((with_worker(**{name: it}), name) for name in ("startTimeout", "stopTimeout") for it in (1, 121)),
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


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(("members", "text"), REFUSED, ids=str)
async def test_invalid_requests_are_refused_and_store_nothing(refused, members, text):
    assert text in await refused("RegisterJobDefinition", members)
