"""GetJobQueueSnapshot: the response. The order of jobs is tested elsewhere."""

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
def described(boto):
    async def described(queue="default"):
        answer = await boto.get_job_queue_snapshot(jobQueue=queue)
        del answer["ResponseMetadata"]
        return answer

    return described


async def test_a_snapshot_has_the_first_jobs_and_the_capacity_in_use(default_queue, seen, described):
    later = NOON + timedelta(milliseconds=1500)
    seen(Snapshot(jobs=((job_id(7), NOON), (job_id(3), later)), updated_at=later, millicpus=2250))

    assert await described(ARN + "job-queue/default") == {
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


async def test_the_snapshot_of_an_empty_queue_has_no_jobs(default_queue, seen, described):
    seen(QUIET)

    answer = await described()

    assert answer["frontOfQueue"]["jobs"] == []
    assert answer["queueUtilization"]["totalCapacityUsage"] == [{"capacityUnit": "VCPU", "quantity": 0.0}]


async def test_the_snapshot_of_a_queue_with_a_policy_has_shares(default_queue, boto, seen, described):
    policy = (await boto.create_scheduling_policy(name="fair"))["arn"]
    order = [{"order": 1, "computeEnvironment": "local"}]
    await boto.create_job_queue(
        jobQueueName="fair", priority=1, computeEnvironmentOrder=order, schedulingPolicyArn=policy
    )
    seen(Snapshot(jobs=(), updated_at=NOON, millicpus=3000, shares=(("b", 2000), ("a", 1000)), active_shares=5))

    assert (await described("fair"))["queueUtilization"]["fairshareUtilization"] == {
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
async def test_the_snapshot_of_an_unknown_queue_is_refused(default_queue, seen, http, members, text):
    seen(QUIET)

    status, headers, answer = await http.post("GetJobQueueSnapshot", members)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ClientException")
    assert text in answer["message"]
