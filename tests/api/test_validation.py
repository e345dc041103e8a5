"""Empty members of requests, older members of overrides, and the shares of queues."""

import pytest

from batchq.api.batch.containers import ContainerOverrides
from batchq.api.batch.submit_job import container_overrides
from batchq.domain.container import Overrides
from batchq.errors import Invalid
from batchq.services.submissions import check_share
from tests.api.conftest import CONTAINER
from tests.api.several import DUO, GANG, with_task, with_worker
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


def requirements(**values):
    return [{"type": kind, "value": value} for kind, value in values.items()]


def of(operation, **members):
    return operation, members


@pytest.fixture
async def definitions(sleeper, http):
    """The definitions `sleeper`, `duo` and `gang`."""
    for content in (DUO, GANG):
        await http.post("RegisterJobDefinition", content)


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


@pytest.mark.parametrize("content", ABSENT, ids=lambda it: str(it)[:80])
async def test_empty_members_count_as_omitted(definitions, http, content):
    status, _, answer = await http.post(*content)

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
    ("content", "text"),
    [
        ({"scheduling_priority": 1}, "shareIdentifier must be specified."),
        (
            {"share_identifier": "mine"},
            "Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.",
        ),
    ],
)
def test_a_fair_share_queue_refuses_jobs_without_a_share(content, text):
    with pytest.raises(Invalid) as refused:
        check_share(SHARING, builders.spec(**content))

    assert str(refused.value) == text


def test_a_fifo_queue_accepts_a_priority_and_refuses_a_share():
    check_share(builders.queue(), builders.spec(scheduling_priority=1))

    with pytest.raises(Invalid, match="shareIdentifier must not be specified"):
        check_share(builders.queue(), builders.spec(share_identifier="mine"))
