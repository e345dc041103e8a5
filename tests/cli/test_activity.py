"""Activity over time as text, in `queue show` and `top`."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.cli.activity import ActivityReader, activity_lines, load_lines, sparkline
from batchq.ports.responses.activity import ActivityBucketResponse, ActivityLimits, ActivityResponse, WaitResponse
from tests.cli.responses import AT
from tests.cli.servers import batchq

WIDTH = 300_000  # milliseconds of a bucket


def bucket(number, running=None, **more):
    ends = {"succeeded": 0, "failed": 0, "stopped": 0}
    return ActivityBucketResponse(at=AT + number * WIDTH, running=running, waiting=running, **ends | more)


def activity(*buckets, slots):
    return ActivityResponse(at=AT + slots * WIDTH - 1, first=AT, bucket_seconds=300, buckets=buckets)


def test_only_nothing_is_the_lowest_block_and_a_gap_is_a_space():
    assert sparkline([0, 0.001, 4, 8, None]) == "▁▂▅█ "
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([None]) == " "


def test_a_downtime_is_a_gap_in_the_line():
    lines = load_lines(activity(bucket(0, 0.0), bucket(2, 4.0), slots=3))

    assert lines == [f"{name:<16} ▁ █  now 4, at most 4" for name in ("running", "waiting")]


def test_a_character_has_the_average_of_its_buckets():
    (line, _) = load_lines(activity(*(bucket(at, 6.0 * (at % 3 == 0)) for at in range(96)), bucket(96, 6.0), slots=97))

    assert line.split()[1] == "▄" * 32 + "█"


def test_all_figures_of_a_queue_are_shown():
    limits = ActivityLimits(vcpus=8.0, memory_mib=1024, gpus=0)
    first = bucket(0, 3.0, vcpus=6.0, limits=limits, succeeded=2, wait=WaitResponse(p50=2.0, p95=40.0))
    last = bucket(11, 1.0, vcpus=2.5, limits=limits, failed=1, stopped=3, wait=WaitResponse(p50=1.0, p95=10.0))

    assert activity_lines(activity(first, last, slots=12)) == [
        "the last 1 h; a space is a time in which the server did not run",
        "running          █          ▄  now 1, at most 3",
        "waiting          █          ▄  now 1, at most 3",
        "vCPUs            █          ▄  now 2.5, at most 6 of 8",
        "succeeded        █          ▁  2",
        "failed           ▁          █  1",
        "stopped          ▁          █  3",
        "wait, p95        █          ▃  last p50 1 s, p95 10 s, at most 40 s",
    ]


def test_what_was_used_is_shown_beside_the_request_where_it_was_measured():
    used = {"memory_mib": 512.0, "used_vcpus": 0.5, "used_memory_mib": 100.0, "measured_jobs": 1.0}
    lines = activity_lines(activity(bucket(0, 1.0, vcpus=2.0), bucket(1, 1.0, vcpus=2.0, **used), slots=2))

    assert [line for line in lines if line.startswith(("vCPUs used", "MiB"))] == [
        "vCPUs used        █  now 0.5, at most 0.5",
        "MiB requested     █  now 512, at most 512",
        "MiB used          █  now 100, at most 100",
    ]


def test_the_cost_an_hour_is_shown_where_jobs_had_prices():
    priced = replace(activity(bucket(0, 1.0, cost_per_hour=0.25), slots=1), currency="EUR")

    assert "EUR an hour      █  now 0.25, at most 0.25" in activity_lines(priced)


def test_large_numbers_are_written_out():
    (line, _) = load_lines(activity(bucket(0, 1204.4), slots=1))

    assert line.endswith("now 1,204, at most 1,204")


def test_a_new_server_has_recorded_nothing():
    assert activity_lines(activity(slots=288)) == ["the last 24 h: nothing is recorded yet"]
    assert load_lines(activity(slots=288)) == []


@pytest.fixture
def busy(native):
    queue = {
        "jobQueueName": "default",
        "state": "ENABLED",
        "status": "VALID",
        "priority": 1,
        "computeEnvironmentOrder": [],
    }
    native.responses["/v1/describejobqueues"] = {"jobQueues": [queue]}
    native.activity["buckets"] = [{"at": AT, "running": 1.0, "waiting": 2.0, "succeeded": 0, "failed": 0, "stopped": 0}]
    return native


async def test_queue_show_ends_with_the_activity_of_the_queue(busy, capsys):
    assert await batchq("queue", "show", "default") == 0

    assert "waiting          █  now 2, at most 2" in capsys.readouterr().out
    assert busy.requests[-1] == ("POST", "/v1/batchq/activity", {"jobQueue": "default"})


async def test_the_json_of_queue_show_is_the_response_of_aws_operation(busy, capsys):
    assert await batchq("queue", "show", "default", "-o", "json") == 0

    assert "activity" not in capsys.readouterr().out
    assert [path for _, path, _ in busy.requests] == ["/v1/describejobqueues"]


async def test_the_activity_is_requested_as_often_as_it_changes(busy, monkeypatch):
    time = [0.0]
    monkeypatch.setattr("batchq.cli.activity.elapsed", lambda: time[0])
    reader = ActivityReader(busy.url)
    for at in (0.0, 20.0, 31.0):
        time[0] = at
        await asyncio.to_thread(reader.read)

    assert [path for _, path, _ in busy.requests] == ["/v1/batchq/activity"] * 2
