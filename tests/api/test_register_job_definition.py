"""RegisterJobDefinition."""

import json

import pytest
from msgspec.structs import replace

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.job_definitions import RegisterJobDefinition, to_definition
from batchq.domain.container import Device, DevicePermission, Logging, Mount, Resources, Secret, Tmpfs, Ulimit
from batchq.errors import NotSupported
from tests.api.conftest import ARN, CONTAINER, padded, requirements
from tests.api.fakes import ACCOUNT
from tests.api.several import RANGES, SIDECAR, WORKER, with_nodes, with_range, with_task, with_worker
from tests.support.builders import ADMIN, NOON
from tests.support.parts import LIMITS

REQUEST = {"jobDefinitionName": "it", "type": "container", "containerProperties": CONTAINER}
ARNS = BatchArns(account=ACCOUNT, region="eu-central-1")
ROLE = "arn:aws:iam::123456789012:role/runs"


def with_container(**members):
    return REQUEST | {"containerProperties": CONTAINER | members}


def with_linux(**members):
    return with_container(linuxParameters=members)


def on_fargate(**members):
    container = CONTAINER | {"executionRoleArn": ROLE, "resourceRequirements": requirements(VCPU="0.25", MEMORY="512")}
    return REQUEST | {"platformCapabilities": ["FARGATE"], "containerProperties": container | members}


async def test_revisions_of_a_name_start_with_one(boto):
    first = await boto.register_job_definition(**REQUEST)
    second = await boto.register_job_definition(**REQUEST)
    other = await boto.register_job_definition(**REQUEST | {"jobDefinitionName": "other"})

    assert [definition["revision"] for definition in (first, second, other)] == [1, 2, 1]
    assert (second["jobDefinitionName"], second["jobDefinitionArn"]) == ("it", ARN + "job-definition/it:2")


ALL_OF_IT = {
    "image": "registry.example:5000/team/image@sha256:0123abc",
    "command": ["run", "Ref::what", ""],
    "jobRoleArn": ROLE,
    "executionRoleArn": ROLE,
    "volumes": [{"name": "data", "host": {"sourcePath": "/data"}}, {"name": "scratch"}],
    "mountPoints": [
        {"sourceVolume": "data", "containerPath": "/in", "readOnly": True},
        {"sourceVolume": "scratch", "containerPath": "/tmp/scratch"},
    ],
    "environment": [{"name": "A", "value": "1"}, {"name": "EMPTY", "value": ""}],
    "readonlyRootFilesystem": True,
    "privileged": True,
    "ulimits": [{"name": "nofile", "softLimit": 1024, "hardLimit": 2048}],
    "user": "nobody",
    "instanceType": "c5.large",
    "resourceRequirements": requirements(VCPU="1.5", MEMORY="64", GPU="1"),
    "linuxParameters": {
        "devices": [{"hostPath": "/dev/fuse", "permissions": ["READ", "WRITE"]}],
        "initProcessEnabled": True,
        "sharedMemorySize": 32,
        "tmpfs": [{"containerPath": "/t", "size": 16, "mountOptions": ["noexec", "mode=1777"]}],
        "maxSwap": 0,
        "swappiness": 10,
    },
    "logConfiguration": {"logDriver": "gelf", "options": {"gelf-address": "udp://10.0.0.1:12201"}},
    "secrets": [{"name": "PASSWORD", "valueFrom": "arn:aws:ssm:us-east-1:123456789012:parameter/password"}],
    "enableExecuteCommand": False,
    "ephemeralStorage": {"sizeInGiB": 21},
    "runtimePlatform": {"operatingSystemFamily": "LINUX", "cpuArchitecture": "ARM64"},
    "repositoryCredentials": {"credentialsParameter": "arn:aws:secretsmanager:us-east-1:123456789012:secret:x"},
}


async def test_every_member_of_the_container_is_translated(server, boto):
    await boto.register_job_definition(**REQUEST | {"containerProperties": ALL_OF_IT})

    spec = (await server.catalog.definitions.find("it", 1, caller=ADMIN)).nodes.leading.spec
    assert spec.image == ALL_OF_IT["image"]
    assert spec.command == ("run", "Ref::what", "")
    assert spec.mounts == (
        Mount(container_path="/in", host_path="/data", read_only=True),
        Mount(container_path="/tmp/scratch", host_path=None),
    )
    assert spec.environment == (("A", "1"), ("EMPTY", ""))
    assert (spec.read_only_root, spec.privileged, spec.init, spec.user) == (True, True, True, "nobody")
    assert spec.ulimits == (Ulimit(name="nofile", soft=1024, hard=2048),)
    assert spec.resources == Resources(millicpus=1500, memory_mib=64, gpus=1)
    assert spec.devices == (
        Device(
            host_path="/dev/fuse",
            container_path="/dev/fuse",
            permissions=(DevicePermission.READ, DevicePermission.WRITE),
        ),
    )
    assert spec.tmpfs == (Tmpfs(container_path="/t", size_mib=16, options=("noexec", "mode=1777")),)
    assert (spec.shared_memory_mib, spec.max_swap_mib, spec.swappiness) == (32, 0, 10)
    assert spec.logging == Logging(driver="gelf", options=(("gelf-address", "udp://10.0.0.1:12201"),))
    assert spec.secrets == (
        Secret(name="PASSWORD", value_from="arn:aws:ssm:us-east-1:123456789012:parameter/password"),
    )
    assert spec.platform == "linux/arm64"


async def test_a_registered_definition_is_returned_member_by_member(boto):
    content = {
        "parameters": {"what": "it"},
        "schedulingPriority": 3,
        "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"onReason": "Cannot*", "action": "retry"}]},
        "propagateTags": True,
        "timeout": {"attemptDurationSeconds": 60},
        "tags": {"team": "blue"},
        "platformCapabilities": ["EC2"],
    }
    await boto.register_job_definition(**REQUEST | content | {"containerProperties": ALL_OF_IT})

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["it:1"]))["jobDefinitions"]

    assert described == {
        "jobDefinitionName": "it",
        "jobDefinitionArn": ARN + "job-definition/it:1",
        "revision": 1,
        "status": "ACTIVE",
        "type": "container",
        "containerOrchestrationType": "ECS",
        "containerProperties": ALL_OF_IT,
        **content,
    }


async def test_a_number_of_gpus_is_returned_as_a_string(http, boto):
    given = requirements(VCPU=2, MEMORY="64", GPU=1)
    await http.post("RegisterJobDefinition", with_container(resourceRequirements=given))

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["it:1"]))["jobDefinitions"]

    assert described["containerProperties"]["resourceRequirements"] == requirements(VCPU="2", MEMORY="64", GPU="1")


@pytest.mark.fault("IN06")
async def test_unknown_members_are_ignored_and_the_last_of_duplicate_members_counts(accepted, boto):
    content = with_container(colour="blue") | {"__proto__": {"x": 1}, "colour": "blue"}
    body = json.dumps(content).encode().replace(b'"type"', b'"jobDefinitionName": "last", "type"')

    await accepted("RegisterJobDefinition", body=body)

    (described,) = (await boto.describe_job_definitions(jobDefinitions=["last:1"]))["jobDefinitions"]
    assert "colour" not in described
    assert "colour" not in described["containerProperties"]


TAKEN = [
    *(REQUEST | {"jobDefinitionName": text} for text in ("a", "a" * 128, "A-b_9", "_", "0")),
    with_container(image="a" * 255),
    with_container(image="UPPER/Case:Tag"),
    with_container(user="a" * 31),
    with_container(resourceRequirements=requirements(VCPU="1", MEMORY="4")),
    with_container(resourceRequirements=requirements(VCPU="1", MEMORY="4", GPU=1)),
    with_container(resourceRequirements=[], vcpus=1, memory=4),
    with_container(command=[]),
    with_container(environment=[{"name": "AWS_BATCH_JOB_ID", "value": "mine"}]),
    with_container(logConfiguration={"logDriver": "awslogs", "options": {"awslogs-group": "mine"}}),
    with_container(logConfiguration={"logDriver": "json-file"}),
    with_container(runtimePlatform={"operatingSystemFamily": "LINUX"}),
    with_container(runtimePlatform={"cpuArchitecture": "X86_64"}),
    with_container(volumes=[{"name": "a" * 255}]),
    with_container(ulimits=[{"name": "core", "softLimit": -1, "hardLimit": -1}]),
    with_linux(swappiness=100, maxSwap=1),
    with_linux(tmpfs=[{"containerPath": "/t", "size": 1}]),
    REQUEST | {"retryStrategy": {"attempts": 10}},
    REQUEST | {"timeout": {"attemptDurationSeconds": 60}},
    REQUEST | {"schedulingPriority": 9999},
    REQUEST | {"platformCapabilities": ["EC2"]},
    REQUEST | {"platformCapabilities": ["MANAGED_INSTANCES"]},
    REQUEST | {"tags": {f"{n:02}" + "k" * 126: "v" * 256 for n in range(50)}},
    REQUEST
    | {"consumableResourceProperties": {"consumableResourceList": []}, "nodeProperties": {}, "eksProperties": None},
    REQUEST | {"tags": {}, "parameters": {}, "timeout": {}},
    on_fargate(),
    on_fargate(networkConfiguration={"assignPublicIp": "ENABLED"}),
    on_fargate(logConfiguration={"logDriver": "splunk"}),
    on_fargate(resourceRequirements=requirements(VCPU="16", MEMORY="122880")),
    on_fargate(resourceRequirements=requirements(VCPU="0.50", MEMORY="4096")),
]


@pytest.mark.fault("IN18")
async def test_requests_that_aws_accepts_are_accepted(accepts):
    await accepts("RegisterJobDefinition", TAKEN)


@pytest.mark.parametrize(
    ("content", "member", "value"),
    [
        (with_linux(swappiness=10), "swappiness", None),
        (with_container(logConfiguration={"logDriver": "awslogs"}), "logging", Logging()),
        (
            with_container(
                logConfiguration={"logDriver": "awslogs", "options": {"awslogs-group": "g", "awslogs-region": "r"}}
            ),
            "logging",
            Logging(group="g"),
        ),
        (
            with_container(
                logConfiguration={"logDriver": "splunk", "secretOptions": [{"name": "t", "valueFrom": "v"}]}
            ),
            "logging",
            Logging(driver="splunk", secret_options=(Secret(name="t", value_from="v"),)),
        ),
    ],
    ids=["swappiness without maxSwap", "awslogs", "awslogs-group", "secret options"],
)
async def test_a_member_with_a_rule_of_its_own_is_translated(registered, content, member, value):
    assert getattr((await registered(content)).nodes.leading.spec, member) == value


REFUSED = [
    *((REQUEST | {"jobDefinitionName": text}, "jobDefinitionName must be") for text in ("", "a" * 129, "a:1", "a\n")),
    (REQUEST | {"type": "other"}, "'type'"),
    (REQUEST | {"containerProperties": None}, "containerProperties must be provided"),
    (REQUEST | {"eksProperties": {"podProperties": {}}}, "eksProperties cannot be used with"),
    (REQUEST | {"schedulingPriority": 10000}, "schedulingPriority"),
    (REQUEST | {"platformCapabilities": ["ARM"]}, "platformCapabilities"),
    (REQUEST | {"retryStrategy": {"evaluateOnExit": []}}, "RetryAttempts must be provided with retry strategy"),
    (REQUEST | {"retryStrategy": {"attempts": 11}}, "between 1 and 10"),
    (REQUEST | {"timeout": {"attemptDurationSeconds": 59}}, "at least 60"),
    *((REQUEST | {"tags": tags}, "tags") for tags in ({f"{n}": "" for n in range(51)}, {"k" * 129: ""}, {"": ""})),
    (REQUEST | {"tags": {"k": "v" * 257}}, "tags"),
    (REQUEST | {"parameters": {"a": "\0"}}, "NUL"),
    *(
        (with_container(image=image), "image")
        for image in ("", None, "a" * 256, "a b", "-rm", "--privileged", "a\n", "bücher")
    ),
    (with_container(image="https://hub.docker.com/_/busybox"), "write busybox in place of"),
    (with_container(image="docker://busybox:1"), "write busybox:1 in place of"),
    (with_container(user="1000:1000"), "User '1000:1000' does not match regex"),
    (with_container(user="a" * 32), "does not match regex"),
    (with_container(user="Root"), "does not match regex"),
    (with_container(resourceRequirements=[]), "vCPU is not provided."),
    (with_container(resourceRequirements=requirements(MEMORY="64")), "vCPU is not provided."),
    (with_container(resourceRequirements=requirements(VCPU="1")), "Memory is not provided."),
    (with_container(resourceRequirements=requirements(VCPU="0", MEMORY="64")), "VCPU must be a positive number"),
    (with_container(resourceRequirements=requirements(VCPU="1", MEMORY="3")), "at least 4 MiB"),
    (with_container(resourceRequirements=[], vcpus=0, memory=64), "VCPU must be"),
    (with_container(resourceRequirements=[], vcpus=1, memory=-1), "MEMORY must be"),
    (with_container(environment=[{"name": "A=B"}]), "environment variable"),
    (with_container(secrets=[{"name": "A=B", "valueFrom": "x"}]), "environment variable"),
    (with_container(secrets=[{"name": "A", "valueFrom": ""}]), "'valueFrom' is a required field"),
    (with_container(command=["\0"]), "NUL"),
    (
        with_container(networkConfiguration={"assignPublicIp": "ENABLED"}),
        "networkConfiguration not applicable for EC2.",
    ),
    (
        with_container(volumes=[{"name": "v", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}}]),
        "efsVolumeConfiguration is not supported by this server: it mounts no file systems",
    ),
    (with_container(volumes=[{"name": "v", "s3filesVolumeConfiguration": {"x": 1}}]), "s3filesVolumeConfiguration"),
    *((with_container(volumes=[{"name": text}]), "name of a volume") for text in ("", "a" * 256, "a/b")),
    (with_container(volumes=[{"name": "v"}, {"name": "v"}]), "more than once"),
    (with_container(volumes=[{"name": "v", "host": {"sourcePath": "data"}}]), "absolute path"),
    (with_container(volumes=[{"name": "v", "host": {"sourcePath": "/a:/b"}}]), "absolute path"),
    (with_container(mountPoints=[{"sourceVolume": "v", "containerPath": "/v"}]), "'v' is not one of the volumes"),
    (with_container(mountPoints=[{"containerPath": "/v"}]), "is not one of the volumes"),
    (with_container(volumes=[{"name": "v"}], mountPoints=[{"sourceVolume": "v"}]), "absolute path"),
    (with_container(ulimits=[{"name": "no=file", "softLimit": 1, "hardLimit": 1}]), "ulimit"),
    (with_container(ulimits=[{"name": "nofile", "softLimit": 2, "hardLimit": 1}]), "above its hardLimit"),
    (with_container(logConfiguration={"logDriver": "none"}), "logDriver"),
    (with_container(logConfiguration={"logDriver": "awsfirelens"}), "awsfirelens is not supported"),
    (
        with_container(logConfiguration={"logDriver": "splunk", "secretOptions": [{"name": "t", "valueFrom": ""}]}),
        "'valueFrom' is a required field",
    ),
    (with_container(runtimePlatform={"operatingSystemFamily": "WINDOWS_SERVER_2022_CORE"}), "is not supported"),
    (with_container(runtimePlatform={"cpuArchitecture": "RISCV"}), "cpuArchitecture must be one of"),
    (with_container(ephemeralStorage={"sizeInGiB": 20}), "sizeInGiB"),
    (with_container(ephemeralStorage={"sizeInGiB": 201}), "sizeInGiB"),
    (with_linux(swappiness=101), "swappiness"),
    (with_linux(maxSwap=-1), "maxSwap"),
    (with_linux(sharedMemorySize=0), "sharedMemorySize"),
    (with_linux(tmpfs=[{"containerPath": "/t", "size": 0}]), "size of a tmpfs"),
    (with_linux(tmpfs=[{"containerPath": "t", "size": 1}]), "absolute path"),
    (with_linux(tmpfs=[{"containerPath": "/t", "size": 1, "mountOptions": ["rw,exec"]}]), "mountOptions"),
    (with_linux(tmpfs=[{"containerPath": "/t", "size": 1, "mountOptions": ["size=1g"]}]), "mountOptions"),
    (with_linux(devices=[{"hostPath": "dev"}]), "absolute path"),
    (with_linux(devices=[{"hostPath": "/dev/fuse", "permissions": ["EXEC"]}]), "permissions"),
    (on_fargate(executionRoleArn=""), "executionRoleArn is required"),
    (on_fargate(privileged=True), "privileged is not applicable for Fargate."),
    (on_fargate(ulimits=[{"name": "nofile", "softLimit": 1, "hardLimit": 1}]), "ulimits is not applicable"),
    (on_fargate(volumes=[{"name": "v", "host": {"sourcePath": "/v"}}]), "host volume is not applicable"),
    (on_fargate(linuxParameters={"sharedMemorySize": 1}), "sharedMemorySize is not applicable"),
    (on_fargate(linuxParameters={"maxSwap": 0}), "maxSwap is not applicable"),
    (on_fargate(logConfiguration={"logDriver": "json-file"}), "for Fargate"),
    (on_fargate(resourceRequirements=requirements(VCPU="0.25", MEMORY="4096")), "no such combination"),
    (on_fargate(resourceRequirements=requirements(VCPU="3", MEMORY="8192")), "no such combination"),
    (on_fargate(resourceRequirements=requirements(VCPU="0.25", MEMORY="512", GPU="1")), "GPU is not applicable"),
]


@pytest.mark.fault("IN15", "IN16", "IN18")
async def test_invalid_requests_are_refused_and_store_nothing(refuses):
    await refuses("RegisterJobDefinition", REFUSED)


async def test_a_definition_of_24_kib_is_accepted_and_one_byte_more_is_refused(accepted, refused):
    await accepted("RegisterJobDefinition", body=padded(REQUEST, 24 * 1024))

    assert "24 KiB" in await refused("RegisterJobDefinition", body=padded(REQUEST, 24 * 1024 + 1))


DISK = {"devices": [{"hostPath": "/dev/sda"}]}


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    "content",
    [
        with_container(privileged=True),
        with_linux(**DISK),
        with_worker(privileged=True),
        with_worker(linuxParameters=DISK),
        with_task(containers=[SIDECAR | {"privileged": True}, WORKER]),
        with_range(container=CONTAINER | {"linuxParameters": DISK}),
        with_nodes(
            nodeRangeProperties=[
                RANGES[0],
                RANGES[1] | {"ecsProperties": with_worker(privileged=True)["ecsProperties"]},
            ]
        ),
    ],
    ids=str,
)
def test_a_server_without_privileged_containers_refuses_them_at_registration(content):
    limits = replace(LIMITS, privileged=False)
    content = RegisterJobDefinition.model_validate(content)

    with pytest.raises(NotSupported, match="privileged containers, and devices of the host, are not allowed"):
        to_definition(content, arns=ARNS, limits=limits, now=NOON)
