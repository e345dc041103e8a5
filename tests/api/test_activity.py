"""GetActivity: `POST /v1/batchq/activity`."""

from datetime import timedelta

import pytest

from batchq.domain.activity import COARSE, FINE, ActivityKey, ActivityLoad, ActivitySample, EndedAs, bucket_of
from batchq.domain.container import Resources
from batchq.domain.times import milliseconds
from batchq.ports.activity import ActivityEvents

KEY = ActivityKey("default", "root", "")


@pytest.fixture
async def recorded(default_queue, server):
    """The time of a sample of a server with one environment."""
    at = server.clock.now()
    events = [
        ActivityEvents(key=KEY, at=at, outcome=EndedAs.FAILED, wait=None, count=2),
        ActivityEvents(key=KEY, at=at, outcome=None, wait=4, count=1),
    ]
    sample = ActivitySample(
        at=at,
        loads={
            KEY: ActivityLoad(
                running=3,
                waiting=4,
                millicpus=2500,
                memory_mib=512,
                measured=1,
                used_millicpus=800,
                used_mib=100,
                hourly_cost=25e7,
            )
        },
        environment_loads={},
        environments=dict.fromkeys(server.catalog.environments, 8000),
        machines=Resources(millicpus=8000, memory_mib=1024, gpus=1),
    )
    await server.store.record_activity(sample, events, 0)
    return at


async def activity(http, **members):
    status, _, answer = await http.post("batchq/Activity", members)
    assert status == 200, answer
    return answer


async def test_a_bucket_has_averages_limits_and_what_ended(http, recorded):
    answer = await activity(http, jobQueue="default")

    (bucket,) = answer["buckets"]
    assert bucket == {
        "at": milliseconds(bucket_of(recorded, FINE)),
        "running": 3.0,
        "waiting": 4.0,
        "vcpus": 2.5,
        "memoryMiB": 512.0,
        "gpus": 0.0,
        "measuredJobs": 1.0,
        "usedVcpus": 0.8,
        "usedMemoryMiB": 100.0,
        "costPerHour": 0.25,
        "limits": {"vcpus": 8.0, "memoryMiB": 1024, "gpus": 1},
        "succeeded": 0,
        "failed": 2,
        "stopped": 0,
        "wait": {"p50": 20.0, "p95": 29.0},
    }
    assert answer["bucketSeconds"] == 300
    assert answer["at"] >= milliseconds(recorded)


async def test_more_than_a_day_has_buckets_of_an_hour(http, recorded):
    answer = await activity(http, hours=25)

    assert answer["bucketSeconds"] == 3600
    assert [bucket["at"] for bucket in answer["buckets"]] == [milliseconds(bucket_of(recorded, COARSE))]
    assert answer["first"] == milliseconds(bucket_of(recorded, COARSE) - timedelta(hours=24))


@pytest.mark.parametrize("members", [{"hours": 0}, {"hours": 721}, {"jobQueue": ""}, {"jobQueue": "nope"}, {"days": 1}])
async def test_an_invalid_request_is_refused(http, members):
    status, _, answer = await http.post("batchq/Activity", members)

    assert status in (400, 404), answer
    assert answer["message"]
