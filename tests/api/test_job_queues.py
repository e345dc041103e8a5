"""CreateJobQueue, UpdateJobQueue, DeleteJobQueue, DescribeJobQueues, GetJobQueueSnapshot."""

from datetime import timedelta

import pytest

from batchq.domain.catalog import TimeLimit
from batchq.domain.ids import QueueName
from batchq.ports.catalog import Snapshot
from tests.api.conftest import ARN
from tests.support.builders import ADMIN, NOON, job_id

ENVIRONMENTS = [{"order": 1, "computeEnvironment": "local"}]
REQUEST = {"jobQueueName": "it", "priority": 5, "computeEnvironmentOrder": ENVIRONMENTS}


@pytest.fixture
async def environments(default_queue, boto):
    """`local`, and `a` to `c`."""
    for name in "abc":
        await boto.create_compute_environment(computeEnvironmentName=name, type="UNMANAGED")


@pytest.fixture
def described(boto):
    async def described(name="it"):
        return (await boto.describe_job_queues(jobQueues=[name]))["jobQueues"][0]

    return described


async def test_a_queue_is_valid_at_once_and_described_as_created(default_queue, boto, described):
    made = await boto.create_job_queue(**REQUEST, state="ENABLED", jobQueueType="ECS", tags={"a": "b"})

    assert (made["jobQueueName"], made["jobQueueArn"]) == ("it", ARN + "job-queue/it")
    assert await described() == {
        "jobQueueName": "it",
        "jobQueueArn": ARN + "job-queue/it",
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "JobQueue Healthy",
        "priority": 5,
        "jobQueueType": "ECS",
        "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": ARN + "compute-environment/local"}],
        "serviceEnvironmentOrder": [],
        "jobStateTimeLimitActions": [],
        "tags": {"a": "b"},
    }


async def test_environments_are_ordered_and_given_by_name_or_arn(server, environments, boto, described):
    order = [
        {"order": 30, "computeEnvironment": "a"},
        {"order": 10, "computeEnvironment": ARN + "compute-environment/b"},
        {"order": 20, "computeEnvironment": "c"},
    ]

    await boto.create_job_queue(**REQUEST | {"computeEnvironmentOrder": order})

    assert server.catalog.queues["it"].environments == ("b", "c", "a")
    assert [order["order"] for order in (await described())["computeEnvironmentOrder"]] == [10, 20, 30]


EMPTY = {"tags": {}, "schedulingPolicyArn": "", "jobStateTimeLimitActions": []}


@pytest.mark.parametrize("members", [{"priority": 0}, {"priority": 2**31 - 1}, EMPTY], ids=str)
async def test_requests_that_aws_accepts_are_accepted(default_queue, accepted, members):
    await accepted("CreateJobQueue", REQUEST | members)


def entries(*names, orders=(1, 2, 3, 4)):
    return [{"order": order, "computeEnvironment": name} for order, name in zip(orders, names, strict=False)]


REFUSED = [
    ({"priority": None}, "'priority'"),
    ({"priority": 2**31}, "'priority'"),
    ({"priority": "1"}, "'priority'"),
    ({"priority": True}, "'priority'"),
    ({"priority": 1.0}, "'priority'"),
    ({"state": "OFF"}, "'state'"),
    ({"computeEnvironmentOrder": []}, "must name 1 to 3"),
    ({"computeEnvironmentOrder": entries("local", "a", "b", "c")}, "must name 1 to 3"),
    ({"computeEnvironmentOrder": entries("local", "local")}, "more than once"),
    ({"computeEnvironmentOrder": entries("local", "a", orders=(1, 1))}, "more than once"),
    ({"computeEnvironmentOrder": entries("nowhere")}, "nowhere"),
    ({"computeEnvironmentOrder": entries(ARN + "job-queue/local")}, "not found"),
    (
        {"serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": "x"}]},
        "serviceEnvironmentOrder is not supported by this server: service environments are",
    ),
    (
        {"jobQueueType": "SAGEMAKER_TRAINING"},
        "jobQueueType SAGEMAKER_TRAINING is not supported by this server: service",
    ),
    ({"jobQueueType": "EKS"}, "jobQueueType EKS is not supported by this server: it is for Kubernetes"),
]


async def test_invalid_requests_are_refused_and_store_nothing(environments, refuses):
    await refuses("CreateJobQueue", REFUSED, **REQUEST)


async def test_fargate_environments_cannot_be_mixed_with_others(server, environments, boto):
    fargate = {"type": "FARGATE", "maxvCpus": 1, "subnets": [], "securityGroupIds": []}
    for name in ("f", "g"):
        await boto.create_compute_environment(computeEnvironmentName=name, type="MANAGED", computeResources=fargate)

    await boto.create_job_queue(**REQUEST | {"computeEnvironmentOrder": entries("f", "g")})
    with pytest.raises(boto.exceptions.ClientException, match="EC2 and Fargate compute environments cannot be mixed"):
        await boto.create_job_queue(**REQUEST | {"jobQueueName": "other", "computeEnvironmentOrder": entries("f", "a")})
    with pytest.raises(boto.exceptions.ClientException, match="cannot be mixed"):
        await boto.update_job_queue(jobQueue="default", computeEnvironmentOrder=entries("local", "f"))

    assert server.catalog.queues["it"].environments == ("f", "g")
    assert server.catalog.queues["default"].environments == ("local",)
    assert "other" not in server.catalog.queues


async def test_an_update_changes_only_what_it_names(environments, boto, described):
    await boto.create_job_queue(**REQUEST, jobQueueType="ECS")

    made = await boto.update_job_queue(jobQueue=ARN + "job-queue/it", priority=9)
    first = await described()
    await boto.update_job_queue(jobQueue="it", state="DISABLED", computeEnvironmentOrder=entries("b", "a"))
    second = await described()

    assert made["jobQueueName"] == "it"
    assert (first["priority"], first["state"]) == (9, "ENABLED")
    assert (second["priority"], second["state"], second["jobQueueType"]) == (9, "DISABLED", "ECS")
    assert second["computeEnvironmentOrder"] == [
        {"order": 1, "computeEnvironment": ARN + "compute-environment/b"},
        {"order": 2, "computeEnvironment": ARN + "compute-environment/a"},
    ]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"jobQueue": "nowhere", "priority": 1}, "nowhere"),
        ({"jobQueue": "nowhere", "computeEnvironmentOrder": ENVIRONMENTS}, "nowhere"),
        ({"jobQueue": ""}, "'jobQueue' is a required field"),
        ({"computeEnvironmentOrder": entries("nowhere")}, "nowhere"),
        ({"priority": "high"}, "'priority'"),
    ],
    ids=str,
)
async def test_an_invalid_update_changes_nothing(default_queue, refused, members, text):
    assert text in await refused("UpdateJobQueue", {"jobQueue": "default"} | members)


async def test_only_a_disabled_queue_can_be_deleted(default_queue, boto):
    with pytest.raises(boto.exceptions.ClientException):
        await boto.delete_job_queue(jobQueue="default")
    await boto.update_job_queue(jobQueue="default", state="DISABLED")

    await boto.delete_job_queue(jobQueue=ARN + "job-queue/default")

    assert (await boto.describe_job_queues())["jobQueues"] == []


async def test_a_token_cannot_be_used_with_other_names(default_queue, boto):
    await boto.create_job_queue(**REQUEST)
    token = (await boto.describe_job_queues(maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.describe_job_queues(jobQueues=["it"], nextToken=token)


async def test_a_drained_queue_is_enabled_and_says_that_it_is_drained(server, default_queue, boto, described):
    await boto.create_job_queue(**REQUEST)
    await server.catalog.drain_queue(QueueName("it"), drained=True, caller=ADMIN)

    await boto.update_job_queue(jobQueue="it", priority=6)

    queue = await described()
    assert (queue["state"], queue["status"], queue["priority"]) == ("ENABLED", "VALID", 6)
    assert queue["statusReason"].startswith("DRAINED - ")


CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
REASONS = (
    CAPACITY,
    TOO_LARGE,
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
)


def action(reason=CAPACITY, **changes):
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"} | changes


@pytest.fixture
def limits(described):
    """The jobStateTimeLimitActions of a queue."""

    async def limits(name):
        return (await described(name))["jobStateTimeLimitActions"]

    return limits


async def test_time_limits_for_each_reason_of_aws_are_described_as_created(server, default_queue, boto, limits):
    given = [action(reason, maxTimeSeconds=86_400) for reason in REASONS]

    await boto.create_job_queue(**REQUEST, jobStateTimeLimitActions=given)

    assert await limits("it") == given
    assert server.catalog.queues["it"].time_limits == tuple(
        TimeLimit(reason=reason, most=timedelta(days=1)) for reason in REASONS
    )


async def test_an_update_replaces_all_time_limits_or_keeps_them(default_queue, boto, limits):
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[action()])
    await boto.update_job_queue(jobQueue="default", priority=5)
    kept = await limits("default")
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[action(TOO_LARGE)])
    replaced = await limits("default")
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[])

    assert (kept, replaced) == ([action()], [action(TOO_LARGE)])
    assert await limits("default") == []


WRONG_LIMITS = [
    *(([action(text)], "must be one of") for text in ("", "whatever", "UNDETERMINED", "ACTION_REQUIRED")),
    ([action("MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS")], "must be one of"),
    ([action(maxTimeSeconds=599)], "maxTimeSeconds of jobStateTimeLimitActions must be between 600 and 86400"),
    ([action(maxTimeSeconds=86_401)], "must be between 600 and 86400"),
    ([action(maxTimeSeconds="600")], "maxTimeSeconds"),
    ([action(action="TERMINATE")], "TERMINATE of jobStateTimeLimitActions is for queues of SageMaker Training jobs"),
    ([action(action="PAUSE")], "action"),
    ([action(state="RUNNING")], "state"),
    ([action(), action()], "must not be named more than once"),
    ([{"reason": CAPACITY}], "is a required field"),
    ([{}], "is a required field"),
    ({}, "jobStateTimeLimitActions"),
]


async def test_invalid_time_limits_are_refused(default_queue, refuses):
    table = [({"jobStateTimeLimitActions": given}, text) for given, text in WRONG_LIMITS]

    await refuses("CreateJobQueue", table, **REQUEST)
    await refuses("UpdateJobQueue", table, jobQueue="default", priority=9)


NOON_MS = int(NOON.timestamp() * 1000)


@pytest.fixture
def snapshot(server, boto):
    """The response to GetJobQueueSnapshot if the engine has this snapshot of the queue."""

    async def snapshot(queue, **members):
        server.engine.seen = Snapshot(**members)
        answer = await boto.get_job_queue_snapshot(jobQueue=queue)
        del answer["ResponseMetadata"]
        return answer

    return snapshot


async def test_a_snapshot_has_the_first_jobs_and_the_capacity_in_use(default_queue, snapshot):
    later = NOON + timedelta(milliseconds=1500)
    jobs = (job_id(7), NOON), (job_id(3), later)

    assert await snapshot(ARN + "job-queue/default", jobs=jobs, updated_at=later, millicpus=2250) == {
        "frontOfQueue": {
            "jobs": [
                {"jobArn": ARN + f"job/{job_id(7)}", "earliestTimeAtPosition": NOON_MS},
                {"jobArn": ARN + f"job/{job_id(3)}", "earliestTimeAtPosition": NOON_MS + 1500},
            ],
            "lastUpdatedAt": NOON_MS + 1500,
        },
        "queueUtilization": {
            "totalCapacityUsage": [{"capacityUnit": "VCPU", "quantity": 2.25}],
            "lastUpdatedAt": NOON_MS + 1500,
        },
    }


async def test_the_snapshot_of_a_queue_with_a_policy_has_shares(default_queue, boto, snapshot):
    policy = (await boto.create_scheduling_policy(name="fair"))["arn"]
    await boto.create_job_queue(
        jobQueueName="fair", priority=1, computeEnvironmentOrder=ENVIRONMENTS, schedulingPolicyArn=policy
    )
    shares = ("b", 2000), ("a", 1000)

    answer = await snapshot("fair", jobs=(), updated_at=NOON, millicpus=3000, shares=shares, active_shares=5)

    assert answer["frontOfQueue"]["jobs"] == []
    assert answer["queueUtilization"]["fairshareUtilization"] == {
        "activeShareCount": 5,
        "topCapacityUtilization": [
            {"shareIdentifier": "b", "capacityUsage": [{"capacityUnit": "VCPU", "quantity": 2.0}]},
            {"shareIdentifier": "a", "capacityUsage": [{"capacityUnit": "VCPU", "quantity": 1.0}]},
        ],
    }


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "'jobQueue' is a required field"),
        ({"jobQueue": ""}, "'jobQueue' is a required field"),
        ({"jobQueue": "nowhere"}, "JobQueue nowhere not found"),
        ({"jobQueue": ARN + "compute-environment/local"}, "not found"),
    ],
    ids=str,
)
async def test_the_snapshot_of_an_unknown_queue_is_refused(default_queue, refused, members, text):
    assert text in await refused("GetJobQueueSnapshot", members)
