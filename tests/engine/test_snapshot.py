"""The next jobs of a queue, in the order of their starts, and since when each has its position."""

import asyncio
from itertools import count

from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.engine.scheduling.queue_reader import Skip
from batchq.engine.scheduling.snapshot import MAX_JOBS
from batchq.ports.jobs import Changes
from tests.domain.lives import after, at, cancel, exited, placed, runnable, running
from tests.engine.desk import LOOKED, ONE, desk_over, news, request, submit
from tests.engine.turns import ground
from tests.support.builders import NOON, environment, policy, queue


async def taken(desk, name="default"):
    return await desk.loop.scheduler.snapshot(name, desk.loop.state.active.values(), Skip())


async def ids(desk, name="default"):
    return [job_id for job_id, _ in (await taken(desk, name)).jobs]


async def since(desk):
    """Seconds after noon, by position."""
    return [(it - NOON).total_seconds() for _, it in (await taken(desk)).jobs]


def full():
    return running(millicpus=4000)


# ---------------------------------------------------------------------------------------------------------------- order


async def test_jobs_are_listed_by_age():
    jobs = [runnable() for _ in range(3)]
    desk = await desk_over(*jobs[::-1])

    assert await ids(desk) == [it.id for it in jobs]


async def test_only_the_first_hundred_jobs_are_listed():
    jobs = [runnable() for _ in range(MAX_JOBS + 1)]
    desk = await desk_over(*jobs)

    assert await ids(desk) == [it.id for it in jobs[:MAX_JOBS]]


async def test_unschedulable_jobs_and_jobs_of_other_queues_are_not_listed():
    huge, other, runs = runnable(millicpus=9000), runnable(queue="other"), full()
    desk = await desk_over(huge, runs, other, on_ground=ground(queue(), queue("other")))
    await desk.process(LOOKED)

    assert await ids(desk) == []


async def test_jobs_of_shares_are_listed_in_the_order_of_their_starts():
    jobs = [runnable(share_identifier=it, millicpus=1000) for it in ("red", "red", "red", "blue", "blue")]
    urgent = runnable(share_identifier="red", scheduling_priority=5)
    on_ground = ground(
        queue(policy="fair"), environments=[environment(max_millicpus=1000)], policies=[policy(reservation=0)]
    )
    desk = await desk_over(*jobs, urgent, on_ground=on_ground)
    uses = {ShareKey("default", "red"): ShareUse(active=4, used=3e5, as_of=NOON)}
    await desk.store.commit(Changes(shares=tuple(uses.items())))
    await desk.loop.load()
    told = await ids(desk)

    await desk.process(LOOKED)
    for number in count():
        under_way = list(desk.loop.state.active.values())
        if not under_way:
            break
        assert [it.id for it in under_way] == [told[number]]
        await desk.process(news(under_way[0], exited(0)))

    assert number == len(told) == 6


# ---------------------------------------------------------------------------------------------------------------- since


async def test_a_new_last_job_has_its_position_since_its_submission():
    desk = await desk_over(full())
    await desk.process(LOOKED)
    await asyncio.sleep(5)
    await desk.process(submit(ONE))

    assert await since(desk) == [5]


async def test_all_jobs_move_up_when_the_first_leaves():
    first = runnable()
    desk = await desk_over(full(), first, runnable(), runnable())
    await desk.process(LOOKED)
    await asyncio.sleep(5)

    await desk.process(request(first, cancel()))

    assert await since(desk) == [5, 5]


async def test_jobs_behind_one_found_unschedulable_move_up():
    desk = await desk_over(full(), runnable(millicpus=9000), runnable())
    await asyncio.sleep(5)

    await desk.process(LOOKED)

    assert await since(desk) == [5]


async def test_jobs_before_one_that_leaves_keep_their_time():
    one, two, four = runnable(number=8_000_001), runnable(number=8_000_002), runnable(number=8_000_004)
    third = runnable(number=8_000_003)
    desk = await desk_over(full(), one, two, third, four)
    await desk.process(LOOKED)
    await asyncio.sleep(5)

    await desk.process(request(third, cancel()))

    assert await since(desk) == [0, 0, 5]


async def test_in_a_fair_share_queue_all_jobs_may_move_when_one_leaves():
    jobs = [runnable(share_identifier=it) for it in ("red", "blue")]
    desk = await desk_over(full(), *jobs, on_ground=ground(queue(policy="fair"), policies=[policy()]))
    await desk.process(LOOKED)
    await asyncio.sleep(5)

    await desk.process(request(jobs[1], cancel()))

    assert await since(desk) == [5]


# ---------------------------------------------------------------------------------------------------------- utilisation


async def test_the_snapshot_has_the_vcpus_that_the_queue_holds():
    desk = await desk_over(running(millicpus=1500), running(millicpus=2000, queue="other"))

    told = await taken(desk)

    assert (told.millicpus, told.shares, told.active_shares) == (1500, (), 0)


async def test_the_snapshot_has_the_shares_that_hold_most():
    red, blue = (
        after(runnable(share_identifier=it, millicpus=size), placed()) for it, size in (("r", 1000), ("b", 2000))
    )
    on_ground = ground(queue(policy="fair"), policies=[policy()])
    desk = await desk_over(red, blue, runnable(share_identifier="w", millicpus=4000), on_ground=on_ground)
    uses = {"r": ShareUse(active=1, millicpus=1000, as_of=NOON), "b": ShareUse(active=1, millicpus=2000, as_of=NOON)}
    uses["w"] = ShareUse(active=1, as_of=NOON)
    await desk.store.commit(Changes(shares=tuple((ShareKey("default", it), use) for it, use in uses.items())))
    await desk.loop.load()

    told = await taken(desk)

    assert told.shares == (("b", 2000), ("r", 1000))
    assert (told.active_shares, told.millicpus, told.updated_at) == (3, 3000, at(0))
