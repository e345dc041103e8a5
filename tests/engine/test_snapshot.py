"""The next jobs of a queue, in the order of their starts, and since when each has its position."""

import asyncio
from datetime import timedelta
from itertools import count
from types import SimpleNamespace

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.engine.scheduling.queue_reader import Exclusions
from batchq.engine.scheduling.scheduler import SNAPSHOT_JOBS
from batchq.engine.scheduling.totals import RecentStarts
from batchq.ports.jobs import Changes, StatusChanged
from tests.domain.lives import after, at, cancel, exited, placed, runnable, running
from tests.engine.harness import ONE, SURVEYED, catalog_of, event_message, harness_with, request, submit
from tests.support.builders import NOON, environment, job, policy, queue


async def taken(harness, name="default"):
    return await harness.loop.scheduler.snapshot(name, harness.loop.state.active.values(), Exclusions())


async def ids(harness, name="default"):
    return [job_id for job_id, _ in (await taken(harness, name)).jobs]


async def since(harness):
    """Seconds after noon, by position."""
    return [(moment - NOON).total_seconds() for _, moment in (await taken(harness)).jobs]


def full():
    return running(millicpus=4000)


async def test_the_hundred_oldest_jobs_are_listed_by_age():
    jobs = [runnable() for _ in range(SNAPSHOT_JOBS + 1)]
    harness = await harness_with(*jobs[::-1])

    assert await ids(harness) == [other_job.id for other_job in jobs[:SNAPSHOT_JOBS]]


async def test_unschedulable_jobs_and_jobs_of_other_queues_are_not_listed():
    huge, other, runs = runnable(millicpus=9000), runnable(queue="other"), full()
    harness = await harness_with(huge, runs, other, catalog=catalog_of(queue(), queue("other")))
    await harness.process(SURVEYED)

    assert await ids(harness) == []


async def test_jobs_of_shares_are_listed_in_the_order_of_their_starts():
    jobs = [runnable(share_identifier=name, millicpus=1000) for name in ("red", "red", "red", "blue", "blue")]
    urgent = runnable(share_identifier="red", scheduling_priority=5)
    catalog = catalog_of(
        queue(policy="fair"), environments=[environment(max_millicpus=1000)], policies=[policy(reservation=0)]
    )
    harness = await harness_with(*jobs, urgent, catalog=catalog)
    uses = {ShareKey("default", "red"): ShareUse(active=4, used=3e5, as_of=NOON)}
    await harness.store.commit(Changes(shares=tuple(uses.items())))
    await harness.loop.load()
    result = await ids(harness)

    await harness.process(SURVEYED)
    for number in count():
        under_way = list(harness.loop.state.active.values())
        if not under_way:
            break
        assert [other_job.id for other_job in under_way] == [result[number]]
        await harness.process(event_message(under_way[0], exited(0)))

    assert number == len(result) == 6


async def test_a_new_last_job_has_its_position_since_its_submission():
    harness = await harness_with(full())
    await harness.process(SURVEYED)
    await asyncio.sleep(5)
    await harness.process(submit(ONE))

    assert await since(harness) == [5]


@pytest.mark.parametrize(
    ("leaves", "shares", "times"),
    [(0, False, [5, 5, 5]), (2, False, [0, 0, 5]), (2, True, [5, 5, 5])],
    ids=["the first job leaves", "the jobs before it keep their time", "in a fair-share queue all may move"],
)
async def test_jobs_move_up_when_another_leaves(leaves, shares, times):
    jobs = [runnable(share_identifier="red" if shares else None) for _ in range(4)]
    fair = catalog_of(queue(policy="fair"), policies=[policy()])
    harness = await harness_with(full(), *jobs, catalog=fair if shares else catalog_of())
    await harness.process(SURVEYED)
    await asyncio.sleep(5)

    await harness.process(request(jobs[leaves], cancel()))

    assert await since(harness) == times


async def test_jobs_behind_one_found_unschedulable_move_up():
    harness = await harness_with(full(), runnable(millicpus=9000), runnable())
    await asyncio.sleep(5)

    await harness.process(SURVEYED)

    assert await since(harness) == [5]


async def test_the_snapshot_has_the_vcpus_that_the_queue_holds():
    harness = await harness_with(running(millicpus=1500), running(millicpus=2000, queue="other"))

    result = await taken(harness)

    assert (result.millicpus, result.shares, result.active_shares) == (1500, (), 0)


async def test_the_snapshot_has_the_shares_that_hold_most():
    red, blue = (
        after(runnable(share_identifier=share, millicpus=size), placed()) for share, size in (("r", 1000), ("b", 2000))
    )
    catalog = catalog_of(queue(policy="fair"), policies=[policy()])
    harness = await harness_with(red, blue, runnable(share_identifier="w", millicpus=4000), catalog=catalog)
    uses = {"r": ShareUse(active=1, millicpus=1000, as_of=NOON), "b": ShareUse(active=1, millicpus=2000, as_of=NOON)}
    uses["w"] = ShareUse(active=1, as_of=NOON)
    await harness.store.commit(Changes(shares=tuple((ShareKey("default", key), use) for key, use in uses.items())))
    await harness.loop.load()

    result = await taken(harness)

    assert result.shares == (("b", 2000), ("r", 1000))
    assert (result.active_shares, result.millicpus, result.updated_at) == (3, 3000, at(0))


DEFAULT, NIGHT = QueueName("default"), QueueName("night")


def committed(minute, *queues, status=Status.STARTING):
    changed = [
        StatusChanged(before=Status.RUNNABLE, job=job(queue=other_queue, status=status)) for other_queue in queues
    ]
    return SimpleNamespace(transitions=changed, unit=SimpleNamespace(now=minute_at(minute)))


def minute_at(minute):
    return NOON + timedelta(minutes=minute)


def test_placements_are_counted_by_queue_for_an_hour():
    starts = RecentStarts(minute_at(0))
    starts.on_committed(committed(1, DEFAULT, NIGHT))
    starts.on_committed(committed(3, DEFAULT))
    starts.on_committed(committed(30, DEFAULT))
    starts.on_committed(committed(31, DEFAULT, status=Status.FAILED))

    assert starts.counts(minute_at(60)) == {DEFAULT: 3, NIGHT: 1}
    assert starts.counts(minute_at(62)) == {DEFAULT: 1}
    assert starts.counts(minute_at(91)) == {}


def test_the_period_is_no_longer_than_the_server_has_run():
    starts = RecentStarts(minute_at(0))

    assert starts.period(minute_at(10)) == timedelta(minutes=10)
    assert starts.period(minute_at(600)) == timedelta(hours=1)


def test_a_clock_that_is_set_back_loses_no_counts():
    starts = RecentStarts(minute_at(0))
    starts.on_committed(committed(30, DEFAULT))
    starts.on_committed(committed(10, DEFAULT))

    assert starts.counts(minute_at(10)) == {DEFAULT: 2}
