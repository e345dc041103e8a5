"""jobStateTimeLimitActions of queues."""

from datetime import timedelta

import pytest

from batchq.domain.catalog import TimeLimit

CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
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


async def test_time_limits_are_described_as_created(server, default_queue, boto, described):
    given = [action(), action(TOO_LARGE, maxTimeSeconds=86_400)]

    await boto.create_job_queue(**QUEUE, jobStateTimeLimitActions=given)

    assert await described("it") == given
    assert server.catalog.queues["it"].time_limits == (
        TimeLimit(reason=CAPACITY, most=timedelta(minutes=10)),
        TimeLimit(reason=TOO_LARGE, most=timedelta(days=1)),
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


@pytest.mark.parametrize(
    "reason",
    [
        CAPACITY,
        TOO_LARGE,
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
    ],
)
async def test_each_reason_of_aws_is_accepted(default_queue, boto, reason, described):
    await boto.update_job_queue(jobQueue="default", jobStateTimeLimitActions=[action(reason)])

    assert await described("default") == [action(reason)]


REFUSED = [
    ([action("")], "must be one of"),
    ([action("whatever")], "must be one of"),
    ([action("UNDETERMINED")], "must be one of"),
    ([action("ACTION_REQUIRED")], "must be one of"),
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
async def test_invalid_requests_are_refused_and_store_nothing(server, default_queue, http, given, text):
    before = server.stored_rows()

    made, headers, created = await http.post("CreateJobQueue", QUEUE | {"jobStateTimeLimitActions": given})
    changed, _, described = await http.post(
        "UpdateJobQueue", {"jobQueue": "default", "priority": 9, "jobStateTimeLimitActions": given}
    )

    assert (made, changed, headers["x-amzn-ErrorType"]) == (400, 400, "ClientException")
    assert text in created["message"]
    assert text in described["message"]
    assert server.stored_rows() == before
