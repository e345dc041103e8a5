"""GetJobQueueSnapshot: the response. The order of jobs is tested elsewhere."""

from datetime import timedelta

import pytest

from batchq.ports.catalog import Snapshot
from tests.api.conftest import ARN
from tests.support.builders import NOON, job_id

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
    order = [{"order": 1, "computeEnvironment": "local"}]
    await boto.create_job_queue(
        jobQueueName="fair", priority=1, computeEnvironmentOrder=order, schedulingPolicyArn=policy
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
