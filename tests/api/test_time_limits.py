"""jobStateTimeLimitActions of queues."""

from datetime import timedelta

import pytest

from batchq.domain.catalog import TimeLimit

CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
REASONS = (
    CAPACITY,
    TOO_LARGE,
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
)
ORDER = [{"order": 1, "computeEnvironment": "local"}]
QUEUE = {"jobQueueName": "it", "priority": 1, "computeEnvironmentOrder": ORDER}


def action(reason=CAPACITY, **changes):
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"} | changes


@pytest.fixture
def described(boto):
    async def described(name):
        (queue,) = (await boto.describe_job_queues(jobQueues=[name]))["jobQueues"]
        return queue["jobStateTimeLimitActions"]

    return described


async def test_time_limits_for_each_reason_of_aws_are_described_as_created(server, default_queue, boto, described):
    given = [action(it, maxTimeSeconds=86_400) for it in REASONS]

    await boto.create_job_queue(**QUEUE, jobStateTimeLimitActions=given)

    assert await described("it") == given
    assert server.catalog.queues["it"].time_limits == tuple(
        TimeLimit(reason=it, most=timedelta(days=1)) for it in REASONS
    )


async def test_an_update_replaces_all_time_limits_or_keeps_them(default_queue, boto, described):
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[action()])
    await boto.update_job_queue(jobQueue="default", priority=5)
    kept = await described("default")
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[action(TOO_LARGE)])
    replaced = await described("default")
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[])

    assert (kept, replaced) == ([action()], [action(TOO_LARGE)])
    assert await described("default") == []


REFUSED = [
    *(([action(it)], "must be one of") for it in ("", "whatever", "UNDETERMINED", "ACTION_REQUIRED")),
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


@pytest.mark.parametrize(("given", "text"), REFUSED, ids=lambda it: str(it)[:60])
async def test_invalid_requests_are_refused_and_store_nothing(default_queue, refused, given, text):
    update = {"jobQueue": "default", "priority": 9, "jobStateTimeLimitActions": given}

    assert text in await refused("CreateJobQueue", QUEUE | {"jobStateTimeLimitActions": given})
    assert text in await refused("UpdateJobQueue", update)
