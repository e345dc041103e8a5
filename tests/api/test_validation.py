"""AWS's limits on requests: each at its bound and one beyond it, with its text; and empty members."""

import json

import pytest

from batchq.api.batch.containers import ContainerOverrides
from batchq.api.batch.submit_job import container_overrides
from batchq.domain.container import Overrides
from batchq.errors import Invalid
from batchq.services.submissions import check_share
from tests.api.conftest import CONTAINER
from tests.api.several import DUO, GANG, with_nodes, with_task, with_worker
from tests.support import builders

UNKNOWN = "5d1f6c1e-0000-4000-8000-000000000000"
JOB = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
DEFINITION = {"jobDefinitionName": "it", "type": "container", "containerProperties": CONTAINER}
ENVIRONMENT = {"computeEnvironmentName": "it", "type": "UNMANAGED"}
QUEUE = {
    "jobQueueName": "it",
    "priority": 1,
    "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "local"}],
}


def job(**members):
    return "SubmitJob", JOB | members


def definition(**members):
    return "RegisterJobDefinition", DEFINITION | members


def container(**members):
    return definition(containerProperties=CONTAINER | members)


def sized(asked, size):
    """A request with parameters that make it so many bytes long."""
    operation, content = asked
    bare = content | {"parameters": {"x": ""}}
    return operation, content | {"parameters": {"x": "y" * (size - len(json.dumps(bare)))}}


def requirements(**values):
    return [{"type": kind, "value": value} for kind, value in values.items()]


def retry(attempts=1, **members):
    return {"retryStrategy": {"attempts": attempts} | members}


def exits(count=1, **conditions):
    return retry(evaluateOnExit=[{"action": "EXIT"} | conditions] * count)


def of(operation, **members):
    return operation, members


# What is asked just within the rule, just beyond it, and what is said then.
BOUNDS = [
    (job(jobName="a"), job(jobName=""), "Job name should match valid pattern"),
    (job(jobName="a" * 128), job(jobName="a" * 129), "Job name should match valid pattern"),
    (job(jobName="0-_"), job(jobName="-0_"), "Job name should match valid pattern"),
    (definition(jobDefinitionName="_" * 128), definition(jobDefinitionName="_" * 129), "jobDefinitionName"),
    (("CreateJobQueue", QUEUE | {"jobQueueName": "q" * 128}), ("CreateJobQueue", QUEUE | {"jobQueueName": "q" * 129}),
     "jobQueueName"),
    (("CreateComputeEnvironment", ENVIRONMENT | {"computeEnvironmentName": "c" * 128}),
     ("CreateComputeEnvironment", ENVIRONMENT | {"computeEnvironmentName": "c" * 129}), "computeEnvironmentName"),
    (container(image="i" * 255), container(image="i" * 256), "image"),
    (container(image="a@sha256:0/b.c#d_e-f"), container(image="a b"), "image"),
    (container(volumes=[{"name": "v" * 255}]), container(volumes=[{"name": "v" * 256}]), "name of a volume"),
    (container(user="u" * 31), container(user="u" * 32), f"User '{'u' * 32}' does not match regex"),
    (container(user="1000"), container(user="1000:1000"), "User '1000:1000' does not match regex"),
    (job(), job(jobDefinition="other"), "JobDefinition name other does not exist or is not in ACTIVE status"),
    (job(), job(jobQueue="other"), "JobQueue other not found."),
    (job(dependsOn=[]), job(dependsOn=[{"jobId": UNKNOWN}] * 21), "Job cannot have more than 20 dependencies"),
    (job(arrayProperties={"size": 2}), job(arrayProperties={"size": 1}), "Array size must be between 2 and 10000"),
    (job(arrayProperties={"size": 10000}), job(arrayProperties={"size": 10001}), "between 2 and 10000"),
    (of("DescribeJobs", jobs=[UNKNOWN] * 100), of("DescribeJobs", jobs=[UNKNOWN] * 101),
     "Maximum number of jobs supported is  100 ."),
    (sized(job(), 30 * 1024 - 1), sized(job(), 30 * 1024), "Job size must be less than 30 KiB, got 30 KiB"),
    (sized(definition(), 24 * 1024), sized(definition(), 24 * 1024 + 1), "24 KiB"),
    (job(**retry(1)), job(**retry(0)), "Retry attempts must be between 1 and 10"),
    (job(**retry(10)), job(**retry(11)), "Retry attempts must be between 1 and 10"),
    (definition(**retry(10)), definition(**retry(11)), "Retry attempts must be between 1 and 10"),
    (job(**retry()), job(retryStrategy={"evaluateOnExit": []}), "RetryAttempts must be provided with retry strategy"),
    (job(**exits(5)), job(**exits(6)), "evaluateOnExit can have at most 5 entries"),
    (job(**exits(onReason="x" * 511 + "*")), job(**exits(onReason="x" * 512 + "*")), "onReason"),
    (job(**exits(onStatusReason="a: b.c*")), job(**exits(onStatusReason="a*b")), "onStatusReason"),
    (job(**exits(onExitCode="13*")), job(**exits(onExitCode="1x")), "onExitCode"),
    (job(**exits(action="retry")), job(**exits(action="maybe")), "RETRY or EXIT"),
    (job(timeout={"attemptDurationSeconds": 60}), job(timeout={"attemptDurationSeconds": 59}), "at least 60"),
    (job(timeout={"attemptDurationSeconds": 2**31 - 1}), job(timeout={"attemptDurationSeconds": 2**31}), "timeout"),
    (container(), container(resourceRequirements=[]), "vCPU is not provided."),
    (container(), container(resourceRequirements=requirements(VCPU="1")), "Memory is not provided."),
    (container(resourceRequirements=requirements(VCPU="1", MEMORY="4")),
     container(resourceRequirements=requirements(VCPU="1", MEMORY="3")), "at least 4 MiB"),
    (container(resourceRequirements=requirements(VCPU="0.001", MEMORY="4")),
     container(resourceRequirements=requirements(VCPU="0.0001", MEMORY="4")), "VCPU must be a positive number"),
    (container(resourceRequirements=requirements(VCPU="0.25", MEMORY="4")),
     container(resourceRequirements=requirements(VCPU="0.25", MEMORY="4.5")), "MEMORY must be a whole number"),
    (container(resourceRequirements=requirements(VCPU="1", MEMORY="4", GPU=1)),
     container(resourceRequirements=requirements(VCPU="1", MEMORY="4", GPU=0.5)), "GPU"),
    (container(), container(networkConfiguration={"assignPublicIp": "ENABLED"}),
     "networkConfiguration not applicable for EC2."),
    (job(tags={f"k{n}": "" for n in range(50)}), job(tags={f"k{n}": "" for n in range(51)}), "tags"),
    (job(tags={"k" * 128: "v" * 256}), job(tags={"k" * 129: ""}), "tags"),
    (job(tags={"k": "v" * 256}), job(tags={"k": "v" * 257}), "tags"),
    (job(schedulingPriorityOverride=9999), job(schedulingPriorityOverride=10000), "schedulingPriorityOverride"),
    (job(schedulingPriorityOverride=0), job(schedulingPriorityOverride=-1), "schedulingPriorityOverride"),
    (definition(schedulingPriority=9999), definition(schedulingPriority=10000), "schedulingPriority"),
    (job(), job(shareIdentifier="mine"), "shareIdentifier must not be specified"),
    (job(), job(shareIdentifier="a b"), "shareIdentifier must be 1 to 255 letters and digits"),
    (job(), job(shareIdentifier="a" * 256), "shareIdentifier must be 1 to 255 letters and digits"),
    (job(containerOverrides={"command": [" "]}), job(containerOverrides={"command": [""]}), "empty elements"),
    (of("ListJobs", jobQueue="default"), of("ListJobs"), "Exactly one of"),
    (of("ListJobs", arrayJobId=UNKNOWN), of("ListJobs", jobQueue="default", arrayJobId=UNKNOWN), "Exactly one of"),
    (of("ListJobs", jobQueue="default", maxResults=1000), of("ListJobs", jobQueue="default", maxResults=1001),
     "maxResults"),
    (of("ListJobs", jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["a"]}]),
     of("ListJobs", jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["a"]}] * 2),
     "Only one filter key-value pair can be specified."),
    (of("CancelJob", jobId=UNKNOWN, reason="x"), of("CancelJob", jobId=UNKNOWN, reason=""),
     "'reason' is a required field (cannot be an empty string)"),
    (of("TerminateJob", jobId=UNKNOWN, reason="x"), of("TerminateJob", jobId="", reason="x"),
     "'jobId' is a required field (cannot be an empty string)"),
    (of("TerminateJob", jobId=UNKNOWN, reason="x" * 1024), of("TerminateJob", jobId=UNKNOWN, reason="x" * 1025),
     "'reason' must be at most 1024"),
    (of("CancelJobs", jobs=[UNKNOWN] * 50, reason="x"), of("CancelJobs", jobs=[UNKNOWN] * 51, reason="x"), "jobs"),
    (of("DescribeJobDefinitions", maxResults=100), of("DescribeJobDefinitions", maxResults=101), "maxResults"),
    (("RegisterJobDefinition", with_worker(startTimeout=120)), ("RegisterJobDefinition", with_worker(startTimeout=121)),
     "startTimeout"),
    (("RegisterJobDefinition", with_worker(stopTimeout=2)), ("RegisterJobDefinition", with_worker(stopTimeout=1)),
     "stopTimeout"),
    (("RegisterJobDefinition", with_task(ephemeralStorage={"sizeInGiB": 200})),
     ("RegisterJobDefinition", with_task(ephemeralStorage={"sizeInGiB": 201})), "sizeInGiB"),
    (("RegisterJobDefinition", with_nodes(numNodes=1000)), ("RegisterJobDefinition", with_nodes(numNodes=1001)),
     "numNodes must be between 1 and 1000"),
]  # fmt: skip


@pytest.fixture
async def laid(sleeper, http):
    """The definitions `sleeper`, `duo` and `gang`."""
    for asked in (DUO, GANG):
        await http.post("RegisterJobDefinition", asked)


@pytest.mark.fault("IN14", "IN18")
@pytest.mark.parametrize("within", [within for within, _, _ in BOUNDS], ids=lambda it: str(it)[:80])
async def test_values_within_a_limit_are_accepted(laid, http, within):
    operation, asked = within

    status, _, answer = await http.post(operation, asked)

    assert status == 200, answer


@pytest.mark.fault("IN13", "IN14")
@pytest.mark.parametrize(("beyond", "text"), [it[1:] for it in BOUNDS], ids=lambda it: str(it)[:80])
async def test_values_beyond_a_limit_are_refused_with_its_text_and_store_nothing(laid, server, http, beyond, text):
    operation, asked = beyond
    before = server.stored_rows()

    status, headers, answer = await http.post(operation, asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException"), answer
    assert text in answer["message"]
    assert server.stored_rows() == before


ABSENT = [
    of("ListJobs", jobQueue="default", nextToken="", jobStatus="", filters=[]),
    of("ListJobs", jobQueue="default", arrayJobId="", multiNodeJobId=""),
    of("ListJobs", jobQueue="", arrayJobId=UNKNOWN),
    of("DescribeJobDefinitions", jobDefinitions=[], nextToken="", jobDefinitionName="", status=""),
    of("DescribeJobQueues", jobQueues=[], nextToken=""),
    of("DescribeComputeEnvironments", computeEnvironments=[], nextToken=""),
    ("CreateComputeEnvironment", ENVIRONMENT | {"serviceRole": "", "tags": {}, "eksConfiguration": {}}),
    ("CreateJobQueue", QUEUE | {"tags": {}, "schedulingPolicyArn": "", "jobStateTimeLimitActions": []}),
    job(arrayProperties={}, dependsOn=[], tags={}, parameters={}, shareIdentifier=""),
    job(containerOverrides={}, nodeOverrides={}, ecsPropertiesOverride={}, eksPropertiesOverride={}),
    job(consumableResourcePropertiesOverride={}, timeout={}),
    job(arrayProperties=None, dependsOn=None, tags=None, retryStrategy=None),
    job(jobDefinition="duo", containerOverrides={"command": [], "environment": []}, nodeOverrides={}),
    job(jobDefinition="gang", containerOverrides={}, ecsPropertiesOverride={"taskProperties": []}),
    definition(nodeProperties={}, ecsProperties={}, eksProperties={}, consumableResourceProperties={}),
    definition(tags={}, parameters={}, timeout={}, platformCapabilities=[], retryStrategy=None),
    container(executionRoleArn="", jobRoleArn="", user="", linuxParameters={}, command=[], volumes=[]),
    ("RegisterJobDefinition", with_task(volumes=[], ipcMode="", pidMode="", networkMode="", runtimePlatform={})),
    ("RegisterJobDefinition", with_worker(environment=[], mountPoints=[], secrets=[], ulimits=[], user="")),
]


@pytest.mark.parametrize("asked", ABSENT, ids=lambda it: str(it)[:80])
async def test_empty_members_count_as_omitted(laid, http, asked):
    status, _, answer = await http.post(*asked)

    assert status == 200, answer


LEGACY = [
    ({"vcpus": 2, "memory": 64}, {}, (2000, 64)),
    ({"vcpus": 2}, {"resourceRequirements": requirements(VCPU="1")}, (None, None)),
    ({"memory": 64}, {"resourceRequirements": requirements(VCPU="1")}, (None, 64)),
    ({"vcpus": 2, "resourceRequirements": requirements(VCPU="0.25")}, {}, (250, None)),
]


@pytest.mark.parametrize(("given", "registered", "wanted"), LEGACY)
def test_older_members_override_only_older_members(given, registered, wanted):
    made = container_overrides(ContainerOverrides.model_validate(given), registered)

    assert (made.millicpus, made.memory_mib) == wanted


def test_omitted_overrides_change_nothing():
    assert container_overrides(None, {}) == Overrides()


SHARING = builders.queue(policy="fair")


def test_a_fair_share_queue_accepts_a_share_and_a_priority():
    check_share(SHARING, builders.spec(share_identifier="mine", scheduling_priority=0))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"scheduling_priority": 1}, "shareIdentifier must be specified."),
        (
            {"share_identifier": "mine"},
            "Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.",
        ),
    ],
)
def test_a_fair_share_queue_refuses_jobs_without_a_share(asked, text):
    with pytest.raises(Invalid) as refused:
        check_share(SHARING, builders.spec(**asked))

    assert str(refused.value) == text


def test_a_fifo_queue_accepts_a_priority_and_refuses_a_share():
    check_share(builders.queue(), builders.spec(scheduling_priority=1))

    with pytest.raises(Invalid, match="shareIdentifier must not be specified"):
        check_share(builders.queue(), builders.spec(share_identifier="mine"))
