"""CreateSchedulingPolicy, UpdateSchedulingPolicy, DeleteSchedulingPolicy, DescribeSchedulingPolicies, List."""

from datetime import timedelta

import pytest

from batchq.domain.catalog import ShareWeight
from tests.api.conftest import ARN

FAIR = {
    "shareDecaySeconds": 3600,
    "computeReservation": 10,
    "shareDistribution": [{"shareIdentifier": "teamA*", "weightFactor": 0.125}, {"shareIdentifier": "b"}],
}
ARN_OF = ARN + "scheduling-policy/"
IT = ARN_OF + "it"


@pytest.fixture
async def policy(boto):
    """The policy `it` with FAIR."""
    await boto.create_scheduling_policy(name="it", fairsharePolicy=FAIR)


@pytest.fixture
def described(boto):
    async def described(*arns):
        return (await boto.describe_scheduling_policies(arns=list(arns or (IT,))))["schedulingPolicies"]

    return described


NONE = {"computeReservation": 0, "shareDecaySeconds": 0, "shareDistribution": []}
SHARES = (ShareWeight(identifier="teamA*", weight=0.125), ShareWeight(identifier="b", weight=1.0))


@pytest.mark.parametrize(
    "case",
    [
        ({"fairsharePolicy": FAIR, "tags": {"a": "b"}}, (FAIR, {"a": "b"}), (SHARES, timedelta(hours=1), 10)),
        ({}, (NONE, {}), ((), timedelta(), 0)),
    ],
    ids=["all members", "no member"],
)
async def test_a_policy_is_described_as_created(server, boto, described, case):
    members, (fair, tags), stored = case

    made = await boto.create_scheduling_policy(name="it", **members)

    kept = server.catalog.policies["it"]
    assert (made["name"], made["arn"]) == ("it", IT)
    assert await described() == [{"name": "it", "arn": IT, "fairsharePolicy": fair, "tags": tags}]
    assert (kept.shares, kept.decay, kept.reservation) == stored


def distribution(identifier="a", **entry):
    return {"fairsharePolicy": {"shareDistribution": [{"shareIdentifier": identifier} | entry]}}


TAKEN = [
    {"fairsharePolicy": {"shareDecaySeconds": 0}},
    {"fairsharePolicy": {"shareDecaySeconds": 604_800}},
    {"fairsharePolicy": {"computeReservation": 0}},
    {"fairsharePolicy": {"computeReservation": 99}},
    {"fairsharePolicy": {"shareDistribution": []}},
    distribution(weightFactor=0.0001),
    distribution(weightFactor=999.9999),
    distribution(weightFactor=3),
    distribution("a" * 255 + "*"),
]


@pytest.mark.parametrize("members", TAKEN, ids=lambda case: str(case)[:60])
async def test_requests_that_aws_accepts_are_accepted(accepted, members):
    await accepted("CreateSchedulingPolicy", {"name": "it"} | members)


TOO_MANY = {f"{n}": "" for n in range(51)}
OVERLAPPING = {"fairsharePolicy": {"shareDistribution": [{"shareIdentifier": "a*"}, {"shareIdentifier": "a1"}]}}
BAD_POLICIES = [
    ({"fairsharePolicy": {"shareDecaySeconds": -1}}, "shareDecaySeconds must be between 0 and 604800"),
    ({"fairsharePolicy": {"shareDecaySeconds": 604_801}}, "shareDecaySeconds must be"),
    ({"fairsharePolicy": {"shareDecaySeconds": 1.5}}, "shareDecaySeconds"),
    ({"fairsharePolicy": {"computeReservation": -1}}, "computeReservation must be between 0 and 99"),
    ({"fairsharePolicy": {"computeReservation": 100}}, "computeReservation must be"),
    (distribution(weightFactor=0.00009), "weightFactor must be between 0.0001 and 999.9999"),
    (distribution(weightFactor=1000), "weightFactor must be"),
    (distribution(weightFactor=0), "weightFactor must be"),
    *(
        (distribution(weightFactor=factor), "weightFactor")
        for factor in ("1", True, [], float("nan"), float("inf"), -float("inf"))
    ),
    *((distribution(text), "shareIdentifier must be") for text in ("", "*", "a*b", "a_b", "a" * 256)),
    ({"fairsharePolicy": {"shareDistribution": [{"weightFactor": 1}]}}, "shareIdentifier' is a required field"),
    (OVERLAPPING, "a* and a1 of a fair-share policy overlap"),
    (
        {"quotaSharePolicy": {"idleResourceAssignmentStrategy": "FIFO"}},
        "quotaSharePolicy is not supported by this server: quota shares divide the capacity that SageMaker",
    ),
]


async def test_invalid_requests_are_refused_and_store_nothing(refuses):
    table = [*BAD_POLICIES, ({"name": None}, "'name'"), ({"tags": TOO_MANY}, "'tags'")]
    await refuses("CreateSchedulingPolicy", table, name="it")


async def test_an_update_replaces_the_policy_and_keeps_the_tags(server, boto, described):
    await boto.create_scheduling_policy(name="it", fairsharePolicy=FAIR, tags={"a": "b"})

    await boto.update_scheduling_policy(arn=IT, fairsharePolicy={"shareDecaySeconds": 60})

    assert await described() == [
        {"name": "it", "arn": IT, "fairsharePolicy": {"shareDecaySeconds": 60}, "tags": {"a": "b"}}
    ]
    kept = server.catalog.policies["it"]
    assert (kept.shares, kept.decay, kept.reservation) == ((), timedelta(minutes=1), 0)


async def test_an_empty_update_changes_nothing(server, policy, boto):
    before = server.stored_rows()

    await boto.update_scheduling_policy(arn=IT)

    assert server.stored_rows() | {"audit_log": before["audit_log"]} == before, "the audit record apart"


async def test_an_invalid_update_changes_nothing(policy, refuses):
    wrong_arns = [
        ({"arn": ""}, "'arn' is a required field"),
        ({"arn": ARN_OF + "nothing"}, "SchedulingPolicy nothing not found"),
        ({"arn": ARN + "job-queue/it"}, "not found"),
    ]
    await refuses("UpdateSchedulingPolicy", [*BAD_POLICIES, *wrong_arns], arn=IT)


ORDER = [{"order": 1, "computeEnvironment": "local"}]
QUEUE = {"jobQueueName": "fair", "priority": 1, "computeEnvironmentOrder": ORDER}


@pytest.fixture
async def fair(default_queue, policy, boto):
    """The queue `fair` with the policy `it`."""
    await boto.create_job_queue(**QUEUE, schedulingPolicyArn=IT)


async def test_a_queue_has_its_scheduling_policy(fair, boto):
    (fair,) = (await boto.describe_job_queues(jobQueues=["fair"]))["jobQueues"]
    (fifo,) = (await boto.describe_job_queues(jobQueues=["default"]))["jobQueues"]

    assert fair["schedulingPolicyArn"] == IT
    assert "schedulingPolicyArn" not in fifo


async def test_the_policy_of_a_queue_can_be_replaced_and_is_kept_otherwise(fair, boto, server):
    await boto.create_scheduling_policy(name="other")

    await boto.update_job_queue(jobQueue="fair", schedulingPolicyArn=ARN_OF + "other")
    await boto.update_job_queue(jobQueue="fair", priority=2, schedulingPolicyArn="")

    assert server.catalog.queues["fair"].policy == "other"


async def test_a_policy_in_use_is_not_deleted(fair, boto):
    with pytest.raises(boto.exceptions.ClientException, match="Cannot delete, found existing JobQueue relationship"):
        await boto.delete_scheduling_policy(arn=IT)


@pytest.mark.parametrize("arn", [ARN_OF + "nothing", ARN + "job-queue/default"])
async def test_an_unknown_policy_is_refused(fair, refused, arn):
    members = {"schedulingPolicyArn": arn}

    assert "not found" in await refused("CreateJobQueue", QUEUE | {"jobQueueName": "another"} | members)
    assert "not found" in await refused("UpdateJobQueue", {"jobQueue": "fair"} | members)


async def test_a_policy_cannot_be_added_to_a_queue_without_one(default_queue, policy, boto):
    with pytest.raises(boto.exceptions.ClientException, match="none can be added"):
        await boto.update_job_queue(jobQueue="default", schedulingPolicyArn=IT)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"schedulingPriorityOverride": 1}, "shareIdentifier must be specified."),
        (
            {"shareIdentifier": "mine"},
            "Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.",
        ),
    ],
)
async def test_a_fair_share_queue_refuses_jobs_without_a_share_or_a_priority(fair, sleeper, refused, members, text):
    job = {"jobName": "a-job", "jobQueue": "fair", "jobDefinition": "sleeper"}

    assert f"Exception : {text}," in await refused("SubmitJob", job | members)


async def test_a_share_may_end_with_an_asterisk(fair, sleeper, accepted):
    await accepted(
        "SubmitJob",
        {"jobName": "a-job", "jobQueue": "fair", "jobDefinition": "sleeper", "schedulingPriorityOverride": 1}
        | {"shareIdentifier": "teamA*"},
    )
