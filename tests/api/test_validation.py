"""Empty members of requests, older members of overrides, and the shares of queues."""

import pytest

from batchq.api.batch.containers import ContainerOverrides
from batchq.api.batch.submit_job import container_overrides
from batchq.errors import Invalid
from batchq.services.submissions import check_share
from tests.api.conftest import CONTAINER
from tests.api.several import DUO, GANG, with_task, with_worker
from tests.support import builders

UNKNOWN = "5d1f6c1e-0000-4000-8000-000000000000"
JOB = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}
DEFINITION = {"jobDefinitionName": "it", "type": "container", "containerProperties": CONTAINER}


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
    of(
        "SubmitJob",
        **JOB | {"jobDefinition": "duo", "containerOverrides": {"command": [], "environment": []}, "nodeOverrides": {}},
    ),
    of(
        "SubmitJob",
        **JOB | {"jobDefinition": "gang", "containerOverrides": {}, "ecsPropertiesOverride": {"taskProperties": []}},
    ),
    definition(nodeProperties={}, ecsProperties={}, eksProperties={}, consumableResourceProperties={}),
    definition(tags={}, parameters={}, timeout={}, platformCapabilities=[], retryStrategy=None),
    container(executionRoleArn="", jobRoleArn="", user="", linuxParameters={}, command=[], volumes=[]),
    ("RegisterJobDefinition", with_task(volumes=[], ipcMode="", pidMode="", networkMode="", runtimePlatform={})),
    ("RegisterJobDefinition", with_worker(environment=[], mountPoints=[], secrets=[], ulimits=[], user="")),
]


@pytest.mark.parametrize("content", ABSENT, ids=lambda it: str(it)[:80])
async def test_empty_members_count_as_omitted(definitions, accepted, content):
    await accepted(*content)


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
        check_share(builders.queue(policy="fair"), builders.spec(**content))

    assert str(refused.value) == text
