"""GetJobQueueSnapshot as it is told; who is next is decided elsewhere."""

from datetime import timedelta

import pytest

from batchq.ports.catalog import Snapshot
from tests.api.conftest import ARN
from tests.support.builders import NOON, job_id

NOON_MS = int(NOON.timestamp() * 1000)
QUIET = Snapshot(jobs=(), updated_at=NOON, millicpus=0)


@pytest.fixture
def seen(server):
    """Lets the engine see this in whatever queue it looks at."""

    def seen(snapshot):
        server.engine.seen = snapshot

    return seen


@pytest.fixture
def told(boto):
    async def told(queue="default"):
        answer = await boto.get_job_queue_snapshot(jobQueue=queue)
        del answer["ResponseMetadata"]
        return answer

    return told


async def test_the_front_of_a_queue_is_told_with_what_its_jobs_hold(ground, seen, told):
    later = NOON + timedelta(milliseconds=1500)
    seen(Snapshot(jobs=((job_id(7), NOON), (job_id(3), later)), updated_at=later, millicpus=2250))

    assert await told(ARN + "job-queue/default") == {
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


async def test_an_empty_queue_has_nobody_at_its_front(ground, seen, told):
    seen(QUIET)

    answer = await told()

    assert answer["frontOfQueue"]["jobs"] == []
    assert answer["queueUtilization"]["totalCapacityUsage"] == [{"capacityUnit": "VCPU", "quantity": 0.0}]


async def test_a_queue_with_a_policy_tells_its_shares(ground, boto, seen, told):
    policy = (await boto.create_scheduling_policy(name="fair"))["arn"]
    order = [{"order": 1, "computeEnvironment": "local"}]
    await boto.create_job_queue(
        jobQueueName="fair", priority=1, computeEnvironmentOrder=order, schedulingPolicyArn=policy
    )
    seen(Snapshot(jobs=(), updated_at=NOON, millicpus=3000, shares=(("b", 2000), ("a", 1000)), active_shares=5))

    assert (await told("fair"))["queueUtilization"]["fairshareUtilization"] == {
        "activeShareCount": 5,
        "topCapacityUtilization": [
            {"shareIdentifier": "b", "capacityUsage": [{"capacityUnit": "VCPU", "quantity": 2.0}]},
            {"shareIdentifier": "a", "capacityUsage": [{"capacityUnit": "VCPU", "quantity": 1.0}]},
        ],
    }


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "'jobQueue' is a required field"),
        ({"jobQueue": ""}, "'jobQueue' is a required field"),
        ({"jobQueue": "nowhere"}, "JobQueue nowhere not found"),
        ({"jobQueue": ARN + "compute-environment/local"}, "not found"),
    ],
    ids=str,
)
async def test_a_queue_that_is_not_there_has_no_front(ground, seen, http, asked, text):
    seen(QUIET)

    status, headers, answer = await http.post("GetJobQueueSnapshot", asked)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
