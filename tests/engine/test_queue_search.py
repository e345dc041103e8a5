"""Behind a blocked head every job is examined once it may fit, whatever else happens."""

import pytest
from msgspec.structs import replace

from batchq.domain.catalog import ResourceKind
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.job import ConsumableRequirement, Status
from batchq.engine.mailbox import SearchQueues
from batchq.engine.scheduling import placement_pass
from batchq.engine.scheduling.queue_reader import SearchPosition, next_searches
from tests.domain.lives import runnable
from tests.engine.desk import LOOKED, desk_over
from tests.engine.turns import ground
from tests.support import builders
from tests.support import world as worlds
from tests.support.builders import ADMIN, consumable, environment, policy, queue
from tests.support.scripts import Script

LICENCE = ConsumableName("licence")
Q = QueueName("q")
WIDE = environment(max_millicpus=64_000)


async def held_licence(world):
    """The one licence is held by a job, and another waits for it."""
    await world.catalog.consumable_resources.create(builders.consumable(LICENCE, total=1), caller=ADMIN)
    holder = await waiting(world, 1, Script(seconds=3600))
    await world.wait_for(holder[0], Status.RUNNING)


async def waiting(world, count, script=None):
    submission = replace(
        await world.submission(script, millicpus=1, memory_mib=4),
        needs=(ConsumableRequirement(resource=LICENCE, quantity=1),),
    )
    return [(await world.jobs.submit(submission, caller=ADMIN)).id for _ in range(count)]


@pytest.mark.fault("CO05")
async def test_an_array_behind_a_blocked_head_uses_the_free_capacity():
    async with worlds.simulated() as world:
        await held_licence(world)
        await waiting(world, 1)

        array = await world.submit(Script(seconds=600), array_size=200, millicpus=1, memory_mib=4)
        await world.sleep(5)

        counts = dict((await world.job(array)).array_state.counts)
        assert counts == {Status.RUNNING: 200}


@pytest.mark.fault("CO05")
@pytest.mark.parametrize("blocked", [66, 200])
async def test_jobs_behind_many_blocked_jobs_start_and_then_no_search_runs(blocked):
    async with worlds.simulated() as world:
        await held_licence(world)
        await waiting(world, blocked)

        free = await world.submit_many(5, Script(seconds=600), millicpus=1, memory_mib=4)

        for it in free:
            await world.wait_for(it, Status.RUNNING)
        await world.sleep(2)
        assert world.engine.loop.scheduler.searching is False


def licensed(**asked):
    return runnable(needs=(ConsumableRequirement(resource=LICENCE, quantity=1),), **asked)


@pytest.mark.parametrize("shares", [False, True], ids=["first in first out", "fair share"])
async def test_a_search_reads_a_bounded_number_of_jobs_and_the_next_continues_behind_them(monkeypatch, shares):
    monkeypatch.setattr(placement_pass, "MAX_READ", 4)
    monkeypatch.setattr(placement_pass, "MAX_SEARCHED", 10)
    monkeypatch.setattr(placement_pass, "SEARCH_PAGE", 5)
    share = {"share_identifier": "red", "scheduling_priority": 1} if shares else {}
    blocked, last = [licensed(millicpus=1, **share) for _ in range(40)], runnable(millicpus=1, **share)
    fair = {"policy": "fair"} if shares else {}
    there = ground(
        queue(**fair),
        environments=[WIDE],
        policies=[policy("fair")],
        consumables=[consumable(LICENCE, total=1, kind=ResourceKind.REPLENISHABLE)],
    )
    desk = await desk_over(licensed(millicpus=1, **share), *blocked, last, on_ground=there)
    await desk.process(LOOKED)

    searches = 0
    while await desk.status(last) is Status.RUNNABLE:
        searches += 1
        await desk.process(SearchQueues())

    assert searches == 4


def test_a_search_continues_at_its_position_and_then_covers_the_jobs_before_it():
    at = {Q: SearchPosition(after=500)}

    grown = next_searches(at, {Q: 64}, {}, capacity_freed=True)[Q]
    new_at_the_end = next_searches(at, {Q: 64}, {Q: 900}, capacity_freed=False)[Q]
    new_in_front = next_searches(at, {Q: 64}, {Q: 100}, capacity_freed=False)[Q]

    assert grown == new_in_front == SearchPosition(after=500, wraps=500)
    assert grown.from_front() == SearchPosition(until=500)
    assert grown.from_front().from_front() is None
    assert new_at_the_end == at[Q]


def test_after_a_complete_search_only_new_jobs_are_examined():
    assert next_searches({}, {Q: 64}, {Q: 900}, capacity_freed=False) == {Q: SearchPosition(after=899)}
    assert next_searches({}, {Q: 64}, {}, capacity_freed=False) == {}
    assert next_searches({}, {Q: 64}, {Q: 900}, capacity_freed=True) == {Q: SearchPosition(after=64)}


def test_a_queue_without_room_or_without_more_jobs_is_not_searched():
    assert next_searches({Q: SearchPosition(after=500)}, {}, {Q: 900}, capacity_freed=True) == {}
