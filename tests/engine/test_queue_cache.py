"""The cached front of each queue agrees with the store, which is read seldom."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import Owner
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.engine.mailbox import ContinueWork, JobEvent
from batchq.engine.scheduling.queue_cache import MAX_CANDIDATES, PAGE, READ_AHEAD, QueueCache
from batchq.engine.unit_of_work import Committed
from batchq.ports.jobs import Changes
from tests.domain.lives import after, cancel, placed, runnable, running
from tests.engine.harness import ONE, SURVEYED, LoopHarness, catalog_of, request, submit
from tests.support.builders import NO_ACCOUNTS, NOON, environment
from tests.support.examples import examples
from tests.support.inline import InlineStore

LAB, OTHER = (Owner(user="ada", account=name) for name in ("lab", "other"))


class CountingStore(InlineStore):
    """Counts the queries of waiting jobs, and the jobs read by id."""

    def __init__(self):
        super().__init__()
        self.queries, self.read = 0, 0

    async def runnable(self, *arguments, **options):
        self.queries += 1
        return await super().runnable(*arguments, **options)

    async def jobs(self, ids, *, visibility=None):
        self.read += len(ids)
        return await super().jobs(ids, visibility=visibility)


async def cache_of(*jobs):
    """A store with these jobs, and a cache that has read the first of them."""
    store = CountingStore()
    await store.commit(Changes(inserted=jobs))
    cache = QueueCache(store)
    await cache.runnable("default", 8)
    return store, cache


async def save(store, cache, *, new=(), placed_jobs=()):
    """Save new jobs, and the placement of others, and update the cache, as a unit of work does."""
    updated = [after(job, placed()) for job in placed_jobs]
    await store.commit(Changes(inserted=tuple(new), updated=tuple(updated)))
    saved = [*new, *(await InlineStore.jobs(store, [job.id for job in placed_jobs])).values()]
    cache.on_committed(Committed(unit=None, jobs=saved, changes=(), transitions=(), history=()))


async def agree(store, cache, *arguments, **options):
    return await cache.runnable(*arguments, **options) == await InlineStore.runnable(store, *arguments, **options)


async def test_a_cached_candidate_is_not_read_again():
    store, cache = await cache_of(*(runnable() for _ in range(5)))

    assert await agree(store, cache, "default", 8)
    assert store.queries == 1


async def test_the_front_follows_jobs_that_begin_and_cease_to_wait():
    first, last = runnable(sequence=1), runnable(sequence=9)
    store, cache = await cache_of(first, last)

    await save(store, cache, new=[runnable(sequence=5)], placed_jobs=[first])

    assert await agree(store, cache, "default", 8)
    assert store.queries == 1


async def test_jobs_behind_the_cached_front_are_not_cached():
    store, cache = await cache_of(*(runnable(sequence=index) for index in range(PAGE)))
    behind = runnable(sequence=2 * PAGE)

    await save(store, cache, new=[behind])

    assert behind.id not in cache.cached_jobs
    assert await agree(store, cache, "default", 8, PAGE - 3)


@pytest.mark.parametrize("first", [-1, 5, MAX_CANDIDATES - 3, MAX_CANDIDATES + 10])
async def test_a_queue_may_be_longer_than_its_cached_front(first):
    store, cache = await cache_of(runnable(sequence=0))
    await save(store, cache, new=[runnable(sequence=index) for index in range(1, 2 * MAX_CANDIDATES)])

    assert await agree(store, cache, "default", 2 * MAX_CANDIDATES, first)
    assert len(cache.fronts["default"]) <= MAX_CANDIDATES


async def test_excluded_accounts_are_left_out_of_cached_and_stored_jobs():
    owners = [*[LAB] * PAGE, OTHER, LAB, OTHER]
    store, cache = await cache_of(*(runnable(sequence=number, owner=owner) for number, owner in enumerate(owners)))

    assert await agree(store, cache, "default", 8, excluding=frozenset({"lab"}))
    assert store.queries == 2


async def test_a_read_of_a_job_also_reads_the_jobs_behind_it():
    line = [runnable() for _ in range(2 * READ_AHEAD)]
    store, cache = await cache_of(*line)
    await cache.jobs([line[0].id])

    found = await cache.jobs([line[READ_AHEAD - 1].id, line[3].id])

    assert found == {line[READ_AHEAD - 1].id: line[READ_AHEAD - 1], line[3].id: line[3]}
    assert store.read == READ_AHEAD


async def test_the_array_of_children_is_not_read_for_each_event_of_a_child():
    harness = LoopHarness(CountingStore(), catalog_of())
    await harness.loop.load()
    await harness.process(SURVEYED, submit(ONE, array_size=2))
    while harness.loop.arrays.unfinished:
        await harness.process(ContinueWork())
    for index in range(2):
        created = on.ContainerCreated(attempt=1, container_id="c")
        await harness.process(JobEvent(job_id=child_id(ONE, index), event=created))
        started = on.ContainerStarted(attempt=1, started_at=NOON)
        await harness.process(JobEvent(job_id=child_id(ONE, index), event=started))

    assert harness.store.read == 0
    assert (Status.RUNNING, 2) in (await harness.store.jobs([ONE]))[ONE].array_state.counts


async def test_a_cached_job_is_the_saved_job():
    old, new = runnable(), runnable()
    store, cache = await cache_of(old)
    await cache.jobs([old.id])

    await save(store, cache, new=[new], placed_jobs=[old])

    assert cache.cached_jobs == {new.id: new}
    assert (await cache.jobs([old.id]))[old.id].version == 1


async def test_a_job_with_a_damaged_record_is_not_cached():
    bad = runnable(status_reason=status_reasons.UNREADABLE)
    _, cache = await cache_of(bad)

    assert await cache.jobs([bad.id]) == {bad.id: bad}
    assert cache.cached_jobs == {}


async def test_a_cleared_cache_reads_the_store():
    store, cache = await cache_of(runnable())

    cache.clear()

    assert await agree(store, cache, "default", 8)
    assert store.queries == 2


async def test_an_invalidated_job_is_read_again():
    job = runnable()
    store, cache = await cache_of(job)
    await cache.jobs([job.id])

    cache.invalidate(job.id)

    assert await cache.jobs([job.id]) == {job.id: job}
    assert store.read == 2


async def test_a_stop_order_for_a_cached_job_reads_nothing():
    line = [running(millicpus=environment().max_millicpus), *(runnable() for _ in range(3))]
    harness = LoopHarness(CountingStore(), catalog_of(), NO_ACCOUNTS)
    await harness.store.commit(Changes(inserted=line))
    await harness.loop.load()
    await harness.process(SURVEYED)
    before = harness.store.read

    await harness.process(request(line[1], cancel()), request(line[2], cancel()))

    assert harness.store.read == before
    assert await harness.status(line[2]) is Status.FAILED


async def test_a_pass_does_not_examine_jobs_that_left_behind_a_head_that_left():
    runs, *line = running(millicpus=environment().max_millicpus), *(runnable() for _ in range(6 * PAGE))
    harness = LoopHarness(CountingStore(), catalog_of(), NO_ACCOUNTS)
    await harness.store.commit(Changes(inserted=(runs, *line)))
    await harness.loop.load()
    await harness.process(SURVEYED)
    before = harness.store.queries

    await harness.process(*(request(job_id, cancel()) for job_id in line[: 5 * PAGE]))

    assert harness.store.queries == before + 1
    assert (await harness.store.jobs([line[5 * PAGE].id]))[line[5 * PAGE].id].status_reason is not None


ORDERS = st.sets(st.integers(0, 600), max_size=150)
MOVES = st.lists(st.tuples(ORDERS, st.integers(1, 80), st.integers(-1, 600)), max_size=12)


@given(MOVES)
@settings(max_examples=examples(20))
async def test_the_cache_agrees_with_the_store_after_random_changes(moves):
    store, cache = await cache_of()

    agreed = [await _agree_after(store, cache, *move) for move in moves]

    assert all(agreed)


async def _agree_after(store, cache, orders, limit, first):
    """Place the waiting jobs of these orders, submit the others, then compare the cache with the store."""
    known = {job.sequence: job for job in store.all_jobs().values()}
    standing = {order: known[order] for order in orders & known.keys() if is_queued_for_placement(known[order])}
    await save(
        store, cache, new=[runnable(sequence=order) for order in orders - known.keys()], placed_jobs=standing.values()
    )
    line = await InlineStore.runnable(store, "default", limit, first)
    jobs = await InlineStore.jobs(store, [job.job_id for job in line])
    return await cache.runnable("default", limit, first) == line and await cache.jobs(list(jobs)) == jobs
