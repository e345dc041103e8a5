"""A unit of work reads only the queues in which a job may start or become the head."""

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.catalog import ResourceKind
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.job import ConsumableRequirement, Dependency
from batchq.engine.mailbox import CatalogChanged, SearchQueues
from batchq.engine.scheduling import placement_pass
from batchq.engine.scheduling.queue_reader import QueueSearchPosition, next_searches
from tests.domain.lives import cancel, exited, pending, runnable, running, started
from tests.engine.harness import ONE, SURVEYED, catalog_of, event_message, harness_with, request, submit
from tests.support import builders
from tests.support import world as worlds
from tests.support.builders import ADMIN, consumable, environment, policy, queue
from tests.support.scripts import Script

FULL = 4000
FOR_VCPUS = status_reasons.no_room("vCPUs of compute environment local")


def record_reads(cache):
    """Record the queues whose waiting jobs are read."""
    read, cache.queues_read = cache.runnable, []

    async def runnable(queue, *arguments, **options):
        cache.queues_read.append(queue)
        return await read(queue, *arguments, **options)

    cache.runnable = runnable


async def surveyed_harness(*jobs, catalog=None):
    """A harness over these jobs after its first unit of work. Its `queue_cache` records the queues read since."""
    harness = await harness_with(*jobs, catalog=catalog)
    harness.queue_cache = harness.loop.scheduler.queue_cache
    record_reads(harness.queue_cache)
    await harness.process(SURVEYED)
    harness.queue_cache.queues_read.clear()
    return harness


async def reason(harness, job):
    return (await harness.store.jobs([job.id]))[job.id].status_reason


RUNS, SMALL, BEHIND = running(millicpus=FULL), running(millicpus=3000), runnable(sequence=9_000_000)


@pytest.mark.parametrize(
    ("jobs", "message", "queues_read"),
    [
        ([RUNS, runnable()], lambda: submit(ONE), []),
        ([RUNS, runnable(), BEHIND], lambda: request(BEHIND, cancel()), []),
        ([SMALL, runnable(millicpus=FULL)], lambda: submit(ONE), ["default"]),
        ([SMALL, runnable(millicpus=FULL)], lambda: event_message(SMALL, started()), []),
        ([RUNS], lambda: event_message(RUNS, exited(0)), []),
    ],
    ids=[
        "a job submitted behind the head of a full queue",
        "a job cancelled behind the head",
        "a job submitted behind the head while capacity is free",
        "a job that begins to run",
        "capacity freed while all queues are empty",
    ],
)
async def test_a_unit_of_work_reads_a_queue_only_if_a_job_may_start(jobs, message, queues_read):
    harness = await surveyed_harness(*jobs, catalog=catalog_of(queue(), queue("other")))

    await harness.process(message())

    assert harness.queue_cache.queues_read == queues_read


async def test_a_job_that_was_not_examined_starts_when_capacity_is_free():
    runs, head = running(millicpus=FULL), runnable()
    harness = await surveyed_harness(runs, head)
    await harness.process(submit(ONE))

    await harness.process(event_message(runs, exited(0)))

    assert [await harness.status(job_id) for job_id in (head, (await harness.store.jobs([ONE]))[ONE])] == [
        Status.STARTING
    ] * 2


async def test_a_job_that_was_not_examined_starts_after_a_change_of_the_catalog():
    catalog = catalog_of()
    harness = await surveyed_harness(running(millicpus=FULL), runnable(), catalog=catalog)
    await harness.process(submit(ONE))
    catalog.environments["local"] = environment(max_millicpus=2 * FULL)

    await harness.process(CatalogChanged())

    assert (await harness.store.jobs([ONE]))[ONE].status is Status.STARTING


async def test_an_older_job_that_becomes_runnable_is_the_new_head():
    runs, last = running(millicpus=FULL), running(millicpus=FULL)
    older, head = pending(sequence=1, depends_on=(Dependency(job_id=last.id),)), runnable(sequence=2)
    harness = await surveyed_harness(runs, last, older, head)

    await harness.process(event_message(last, exited(0)))

    assert [await reason(harness, job_id) for job_id in (older, head)] == [FOR_VCPUS, None]


async def test_a_queue_whose_last_job_started_is_not_read_again():
    runs = running(millicpus=FULL)
    harness = await surveyed_harness(runs, runnable())
    await harness.process(event_message(runs, exited(0)))
    harness.queue_cache.queues_read.clear()

    await harness.process(submit(ONE))

    assert harness.queue_cache.queues_read == []
    assert (await harness.store.jobs([ONE]))[ONE].status is Status.STARTING


async def test_a_retried_job_waits_in_its_queue():
    again, other = running(attempts=2, millicpus=FULL), queue("other", priority=9)
    harness = await surveyed_harness(again, catalog=catalog_of(queue(), other))
    await harness.process(event_message(again, exited(1)), submit(ONE, queue="other", millicpus=FULL))

    await harness.process(event_message((await harness.store.jobs([ONE]))[ONE], exited(0)))

    assert await harness.status(again) is Status.STARTING


async def test_after_a_reload_every_queue_is_read():
    harness = await surveyed_harness(running(millicpus=FULL), runnable())

    await harness.loop.load()
    await harness.process(submit(ONE))

    assert harness.queue_cache.queues_read == ["default"]


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
    return [(await world.submissions.submit(submission, caller=ADMIN)).id for _ in range(count)]


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
@pytest.mark.parametrize("blocked", [66, pytest.param(200, marks=pytest.mark.exhaustive)])
async def test_jobs_behind_many_blocked_jobs_start_and_then_no_search_runs(blocked):
    async with worlds.simulated() as world:
        await held_licence(world)
        await waiting(world, blocked)

        free = await world.submit_many(5, Script(seconds=600), millicpus=1, memory_mib=4)

        for job_id in free:
            await world.wait_for(job_id, Status.RUNNING)
        await world.sleep(2)
        assert world.engine.loop.scheduler.searching is False


def licensed(**fields):
    return runnable(needs=(ConsumableRequirement(resource=LICENCE, quantity=1),), **fields)


@pytest.mark.parametrize("shares", [False, True], ids=["first in first out", "fair share"])
async def test_a_search_reads_a_bounded_number_of_jobs_and_the_next_continues_behind_them(monkeypatch, shares):
    monkeypatch.setattr(placement_pass, "MAX_READ", 4)
    monkeypatch.setattr(placement_pass, "MAX_SEARCHED", 10)
    monkeypatch.setattr(placement_pass, "SEARCH_PAGE", 5)
    share = {"share_identifier": "red", "scheduling_priority": 1} if shares else {}
    blocked, last = [licensed(millicpus=1, **share) for _ in range(40)], runnable(millicpus=1, **share)
    fair = {"policy": "fair"} if shares else {}
    there = catalog_of(
        queue(**fair),
        environments=[WIDE],
        policies=[policy("fair")],
        consumables=[consumable(LICENCE, total=1, kind=ResourceKind.REPLENISHABLE)],
    )
    harness = await harness_with(licensed(millicpus=1, **share), *blocked, last, catalog=there)
    await harness.process(SURVEYED)

    searches = 0
    while await harness.status(last) is Status.RUNNABLE:
        searches += 1
        await harness.process(SearchQueues())

    assert searches == 4


def test_a_search_continues_at_its_position_and_then_covers_the_jobs_before_it():
    at = {Q: QueueSearchPosition(after=500)}

    grown = next_searches(at, {Q: 64}, {}, capacity_freed=True)[Q]
    new_at_the_end = next_searches(at, {Q: 64}, {Q: 900}, capacity_freed=False)[Q]
    new_in_front = next_searches(at, {Q: 64}, {Q: 100}, capacity_freed=False)[Q]

    assert grown == new_in_front == QueueSearchPosition(after=500, wraps=500)
    assert grown.from_front() == QueueSearchPosition(until=500)
    assert grown.from_front().from_front() is None
    assert new_at_the_end == at[Q]


def test_after_a_complete_search_only_new_jobs_are_examined():
    assert next_searches({}, {Q: 64}, {Q: 900}, capacity_freed=False) == {Q: QueueSearchPosition(after=899)}
    assert next_searches({}, {Q: 64}, {}, capacity_freed=False) == {}
    assert next_searches({}, {Q: 64}, {Q: 900}, capacity_freed=True) == {Q: QueueSearchPosition(after=64)}


def test_a_queue_without_room_or_without_more_jobs_is_not_searched():
    assert next_searches({Q: QueueSearchPosition(after=500)}, {}, {Q: 900}, capacity_freed=True) == {}
