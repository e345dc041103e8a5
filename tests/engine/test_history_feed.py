"""The history feed in memory: readers get every entry once, in order, from the ring or from the store."""

import asyncio
from types import SimpleNamespace

import pytest

from batchq.domain.access.accounts import Visibility
from batchq.domain.job import Status
from batchq.engine import history_feed
from batchq.engine.history_feed import MAX_SCANNED, PAUSE, HistoryFeed
from batchq.ports.history import FeedFilter
from batchq.ports.jobs import Changes
from tests.engine.desk import desk_over, submit
from tests.support.builders import job, job_id, moment
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore

ALL = FeedFilter()


@pytest.fixture
async def store():
    store = InlineStore()
    yield store
    await store.close()


@pytest.fixture
async def feed(store):
    feed = HistoryFeed(store, VirtualClock())
    await feed.load()
    return feed


async def add(store, feed, *numbers):
    """Save a job for each number and publish its entries."""
    jobs = [job(number=it) for it in numbers]
    first = await store.commit(Changes(inserted=tuple(jobs), history=tuple(map(moment, jobs))))
    saved = (await store.feed(first - 1, ALL, limit=100, scan=100)).entries
    feed.on_committed(SimpleNamespace(history=saved))


async def numbers(feed, after=0, wanted=ALL, *, limit=100, wait=0.0):
    return [it.number for it in (await feed.page(after, wanted, limit=limit, wait=wait)).entries]


def forbid_reads(store):
    async def feed(*_, **__):
        raise AssertionError("the store was read")

    store.feed = feed


async def test_a_unit_of_work_publishes_its_entries_with_their_numbers(store):
    desk = await desk_over()
    await desk.process(submit(job_id(1), name="Align"), submit(job_id(2)))

    page = await desk.loop.history_feed.page(0, ALL, limit=100, wait=0)

    stored = await desk.store.feed(0, ALL, limit=100, scan=100)
    assert page == stored
    assert [it.number for it in page.entries] == list(range(1, len(page.entries) + 1))
    assert page.entries[0].job_name == "Align"


async def test_the_newest_entries_are_read_from_memory(store, feed):
    await add(store, feed, 1, 2, 3)
    forbid_reads(store)

    assert await numbers(feed) == [1, 2, 3]
    assert await numbers(feed, 1, limit=1) == [2]
    assert (await feed.page(1, ALL, limit=1, wait=0)).next == 2
    assert await numbers(feed, 0, FeedFilter(jobs=frozenset({job_id(3)}))) == [3]


async def test_a_reader_that_is_far_behind_reads_the_store(store, feed, monkeypatch):
    monkeypatch.setattr(feed, "_ring", type(feed._ring)(maxlen=2))
    await add(store, feed, 1, 2, 3, 4)

    assert await numbers(feed) == [1, 2, 3, 4]
    forbid_reads(store)
    assert await numbers(feed, 2) == [3, 4]


async def test_a_waiting_reader_is_woken_by_a_matching_entry(store, feed):
    reader = asyncio.create_task(numbers(feed, 0, FeedFilter(jobs=frozenset({job_id(2)})), wait=20))
    await feed._clock.sleep(1)
    await add(store, feed, 1)
    await feed._clock.sleep(1)
    assert not reader.done()

    await add(store, feed, 2)

    assert await reader == [2]


async def test_a_wait_ends_without_entries(store, feed):
    await add(store, feed, 1)
    began = asyncio.get_running_loop().time()

    page = await feed.page(1, ALL, limit=10, wait=20)

    assert (page.entries, page.next, page.gap) == ((), 1, False)
    assert 20 <= asyncio.get_running_loop().time() - began < 20 + 2 * PAUSE


async def test_entries_of_a_commit_without_a_reply_are_read_from_the_store(store, feed):
    await add(store, feed, 1)
    lost = job(number=2)
    await store.commit(Changes(inserted=(lost,), history=(moment(lost),)))
    await add(store, feed, 3)

    assert await numbers(feed) == [1, 2, 3]
    assert await numbers(feed, 1) == [2, 3]


async def test_a_reload_continues_after_the_stored_entries(store, feed):
    await add(store, feed, 1)
    lost = job(number=2)
    await store.commit(Changes(inserted=(lost,), history=(moment(lost),)))
    await feed.load()
    await add(store, feed, 3)

    assert feed.last == 3
    assert await numbers(feed, 1) == [2, 3]


async def test_a_number_of_another_history_is_a_gap(store, feed):
    await add(store, feed, 1)

    page = await feed.page(99, ALL, limit=10, wait=20)

    assert (page.entries, page.next, page.gap) == ((), 1, True)


async def test_a_page_of_the_store_examines_a_bounded_number_of_entries(store, feed, monkeypatch):
    monkeypatch.setattr(history_feed, "MAX_SCANNED", 2)
    assert MAX_SCANNED > 2
    await add(store, feed, 1, 2, 3, 4, 5)
    feed._ring.clear()

    page = await feed.page(0, FeedFilter(statuses=frozenset({Status.FAILED})), limit=10, wait=20)

    assert (page.entries, page.next) == ((), 2)


async def test_hidden_entries_wake_no_reader(store, feed):
    reader = asyncio.create_task(numbers(feed, 0, FeedFilter(visibility=Visibility(user="eve")), wait=5))
    await add(store, feed, 1)

    assert await reader == []


async def test_a_closed_feed_ends_every_wait(feed):
    reader = asyncio.create_task(numbers(feed, wait=20))
    await feed._clock.sleep(1)
    began = asyncio.get_running_loop().time()

    feed.close()

    assert await reader == []
    assert asyncio.get_running_loop().time() == began
    assert await numbers(feed, wait=20) == []
