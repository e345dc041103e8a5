"""The cost of a page, a read and a step of retention does not grow with finished jobs, in steps of SQLite's machine.

With fifty thousand jobs in `make test`, with a million by `make million`.
"""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.ports.jobs import Changes
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.store.many import filled, id_of
from tests.support.builders import NOON, job, log_stream

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(900)]

FEW = 1000
MANY = [50_000, pytest.param(1_000_000, marks=pytest.mark.million)]
EACH = 100  # instructions of SQLite's machine that are counted as one step
PRUNED_AT_ONCE = 50
STEPS_OF_PRUNING = 100
WAL = 16 * 2**20  # bytes
ADA = Owner(user="ada", account="lab")
SOON = NOON + timedelta(days=1)


QUEUE = JobSelection(queues=frozenset({"default"}))


class Counter:
    """Counts the steps of a connection."""

    def __init__(self):
        self.steps = 0

    def __call__(self):
        self.steps += 1

    async def cost(self, query):
        before = self.steps
        await query
        return self.steps - before


async def watched(store):
    counter = Counter()
    database = store._database
    readers = (database._reader, database._browser, database._searcher)
    for connection in (database._writer, *(reader.connection for reader in readers)):
        await connection.set_progress_handler(counter, EACH)
    return counter


async def costs_of_reads(data, count):
    """The costs of pages and other reads at the beginning, in the middle and at the end of the queue."""
    filled(data, count)
    store = await SqliteStore.open(data)
    counter = await watched(store)
    positions = [None, SearchPosition(0, count // 2), SearchPosition(0, 150)]
    succeeded = replace(QUEUE, statuses=frozenset({Status.SUCCEEDED}))
    pages = [PageQuery(selection=QUEUE, limit=100, before=position) for position in positions]
    done = [PageQuery(selection=succeeded, limit=100, before=position) for position in positions[::2]]
    costs = [await counter.cost(store.list(page)) for page in (*pages, *done)]
    costs += [await counter.cost(store.jobs([id_of(index) for index in range(1, count, count // 100)]))]
    costs += [await counter.cost(store.history(id_of(count - 1))), await counter.cost(store.newest_streams(limit=50))]
    costs += [await counter.cost(store.active()), await counter.cost(store.runnable(QueueName("default"), 100))]
    await store.close()
    return costs


async def costs_of_own_lists(data, count):
    """The costs of lists for a user with ten jobs and a log stream, and for the coordinator of the account."""
    filled(data, count)
    store = await SqliteStore.open(data)
    own = [job(number=count + number, status=Status.SUCCEEDED, owner=ADA) for number in range(10)]
    streams = (log_stream(job(status=Status.RUNNING), owner=ADA),)
    await store.commit(Changes(inserted=tuple(own), streams=streams))
    counter = await watched(store)
    named = replace(QUEUE, names=frozenset({"a*"}))
    of_status = [replace(QUEUE, statuses=frozenset({status})) for status in (Status.SUCCEEDED, Status.RUNNING)]
    reaches = [Visibility(user="ada"), Visibility(user="cora", accounts=frozenset({"lab", "team"}))]
    costs = [
        await counter.cost(store.list(PageQuery(selection=replace(selection, visibility=visibility), limit=100)))
        for selection in (QUEUE, named, *of_status)
        for visibility in reaches
    ]
    costs += [await counter.cost(store.streams(visibility=visibility)) for visibility in reaches]
    costs += [await counter.cost(store.newest_streams(visibility=visibility)) for visibility in reaches]
    costs += [
        await counter.cost(store.jobs([other_job.id for other_job in own], visibility=visibility))
        for visibility in reaches
    ]
    await store.close()
    return costs


async def costs_of_pruning(data, count):
    """The cost of each step of a deletion, and the size of the write-ahead log."""
    filled(data, count)
    store = await SqliteStore.open(data)
    counter = await watched(store)
    costs, log, gone, after = [], 0, 0, None
    for _ in range(min(count // PRUNED_AT_ONCE, STEPS_OF_PRUNING)):
        before = counter.steps
        pruned = await store.prune(SOON, keep=(), after=after, limit=PRUNED_AT_ONCE)
        costs.append(counter.steps - before)
        after, gone = pruned.after, gone + pruned.jobs
        log = max(log, (data / f"{NAME}-wal").stat().st_size)
    await store.close()
    return costs, log, gone


@pytest.mark.parametrize("count", MANY)
async def test_the_cost_of_an_owners_list_does_not_grow_with_jobs_of_others(tmp_path, count):
    few = await costs_of_own_lists(tmp_path / "few", FEW)
    many = await costs_of_own_lists(tmp_path / "many", count)

    assert [cost for cost, before in zip(many, few, strict=True) if cost > before * 1.5 + 5] == []


@pytest.mark.fault("DB17")
@pytest.mark.parametrize("count", MANY)
async def test_the_cost_of_a_page_does_not_grow_with_stored_jobs(tmp_path, count):
    few = await costs_of_reads(tmp_path / "few", FEW)
    many = await costs_of_reads(tmp_path / "many", count)

    assert [cost for cost, before in zip(many, few, strict=True) if cost > before * 1.5 + 5] == []


@pytest.mark.fault("DB17")
@pytest.mark.parametrize("count", MANY)
async def test_retention_deletes_in_small_steps_with_a_small_write_ahead_log(tmp_path, count):
    few, _, _ = await costs_of_pruning(tmp_path / "few", FEW)
    many, log, gone = await costs_of_pruning(tmp_path / "many", count)

    assert gone == PRUNED_AT_ONCE * STEPS_OF_PRUNING
    assert max(many) <= max(few) * 1.5
    assert log < WAL
