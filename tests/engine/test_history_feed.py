"""The history feed in memory: readers get every entry once, in order, from the ring or from the store."""

import asyncio
import itertools
from collections import Counter
from types import SimpleNamespace

import pytest

from batchq.domain.access.accounts import UserName, Visibility
from batchq.domain.enums import Status
from batchq.engine import history_feed
from batchq.engine.history_feed import FEW_READERS, MAX_PAUSE, MAX_SCANNED, MAX_WAKES, PAUSE, WOKEN_AT_ONCE, HistoryFeed
from batchq.ports.history import FeedFilter
from batchq.ports.jobs import Changes
from tests.engine.harness import harness_with, submit
from tests.support.builders import job, job_id, moment
from tests.support.inline import InlineStore

ALL = FeedFilter()
ANNA, BERT = UserName("anna"), UserName("bert")


@pytest.fixture
async def store():
    store = InlineStore()
    yield store
    await store.close()


@pytest.fixture
async def feed(store):
    feed = HistoryFeed(store)
    await feed.load()
    return feed


async def add(store, feed, *numbers):
    """Save a job for each number and publish its entries."""
    jobs = [job(number=number) for number in numbers]
    first = await store.commit(Changes(inserted=tuple(jobs), history=tuple(map(moment, jobs))))
    saved = (await store.feed(first - 1, ALL, limit=100, scan=100)).entries
    feed.on_committed(SimpleNamespace(history=saved))


async def numbers(feed, after=0, wanted=ALL, *, limit=100, wait=0.0):
    return [entry.number for entry in (await feed.page(after, wanted, limit=limit, wait=wait, reader=ANNA)).entries]


def forbid_reads(store):
    async def feed(*_, **__):
        raise AssertionError("the store was read")

    store.feed = feed


async def test_a_unit_of_work_publishes_its_entries_with_their_numbers(store):
    harness = await harness_with()
    await harness.process(submit(job_id(1), name="Align"), submit(job_id(2)))

    page = await harness.loop.history_feed.page(0, ALL, limit=100, wait=0, reader=ANNA)

    stored = await harness.store.feed(0, ALL, limit=100, scan=100)
    assert page == stored
    assert [entry.number for entry in page.entries] == list(range(1, len(page.entries) + 1))
    assert page.entries[0].job_name == "Align"


async def test_the_newest_entries_are_read_from_memory(store, feed):
    await add(store, feed, 1, 2, 3)
    forbid_reads(store)

    assert await numbers(feed) == [1, 2, 3]
    assert await numbers(feed, 1, limit=1) == [2]
    assert (await feed.page(1, ALL, limit=1, wait=0, reader=ANNA)).next == 2
    assert await numbers(feed, 0, FeedFilter(jobs=frozenset({job_id(3)}))) == [3]


async def test_a_reader_that_is_far_behind_reads_the_store(store, feed, monkeypatch):
    monkeypatch.setattr(feed, "_ring", type(feed._ring)(maxlen=2))
    await add(store, feed, 1, 2, 3, 4)

    assert await numbers(feed) == [1, 2, 3, 4]
    forbid_reads(store)
    assert await numbers(feed, 2) == [3, 4]


async def test_a_waiting_reader_is_woken_by_a_matching_entry(store, feed):
    reader = asyncio.create_task(numbers(feed, 0, FeedFilter(jobs=frozenset({job_id(2)})), wait=20))
    await asyncio.sleep(1)
    await add(store, feed, 1)
    await asyncio.sleep(1)
    assert not reader.done()

    await add(store, feed, 2)

    assert await reader == [2]


async def test_a_wait_ends_without_entries(store, feed):
    await add(store, feed, 1)
    began = asyncio.get_running_loop().time()

    page = await feed.page(1, ALL, limit=10, wait=20, reader=ANNA)

    assert (page.entries, page.next, page.gap) == ((), 1, False)
    assert 20 <= asyncio.get_running_loop().time() - began < 20 + 2 * PAUSE


def present():
    return asyncio.get_running_loop().time()


async def follow(feed, seen, wanted=ALL, *, reader=ANNA):
    """Read by long polls without an end; `seen` gets each page's time and numbers."""
    after = 0
    while True:
        page = await feed.page(after, wanted, limit=100, wait=20, reader=reader)
        seen.append((present(), [entry.number for entry in page.entries]))
        after = page.next


async def busy(store, feed, readers, seconds, between):
    """The pages of each reader while entries are added."""
    seen = [[] for _ in range(readers)]
    tasks = [asyncio.create_task(follow(feed, pages)) for pages in seen]
    await asyncio.sleep(1)
    for number in range(1, round(seconds / between) + 1):
        await add(store, feed, number)
        await asyncio.sleep(between)
    await asyncio.sleep(readers / MAX_WAKES + 1)
    for task in tasks:
        task.cancel()
    return seen


async def test_after_a_quiet_time_an_entry_is_read_at_once(store, feed):
    seen = await busy(store, feed, 1, seconds=4, between=2)

    assert seen == [[(1, [1]), (3, [2])]]


async def test_readers_of_a_busy_feed_get_every_entry_once_a_few_at_a_time(store, feed):
    (alone,) = await busy(store, feed, 1, seconds=2, between=0.01)

    assert [number for _, page in alone for number in page] == list(range(1, 201))
    assert len(alone) <= 2 / PAUSE + 2


async def test_many_readers_are_woken_a_bounded_number_of_times_in_a_second(store, feed):
    readers = 4 * int(MAX_WAKES * PAUSE)

    seen = await busy(store, feed, readers, seconds=2, between=0.01)

    assert all([number for _, page in pages for number in page] == list(range(1, 201)) for pages in seen)
    assert sum(map(len, seen)) <= 2 * MAX_WAKES + 2 * readers


async def test_many_readers_of_a_user_do_not_delay_another_user(store, feed):
    others = [asyncio.create_task(follow(feed, [], reader=BERT)) for _ in range(256)]

    (seen,) = await busy(store, feed, 1, seconds=5, between=0.05)

    for task in others:
        task.cancel()
    times = [at for at, _ in seen]
    assert max(later - at for at, later in itertools.pairwise(times)) <= PAUSE + 0.05 + 0.001


async def test_many_users_delay_a_user_with_few_readers_by_a_bounded_time(store, feed):
    others = [asyncio.create_task(follow(feed, [], reader=UserName(f"u{index}"))) for index in range(200)]

    (seen, *_) = await busy(store, feed, FEW_READERS, seconds=5, between=0.05)

    for task in others:
        task.cancel()
    times = [at for at, _ in seen]
    assert PAUSE < max(later - at for at, later in itertools.pairwise(times)) <= MAX_PAUSE + 0.05 + 0.001


async def test_a_cancelled_reader_does_not_delay_the_others_of_its_user(store, feed):
    cancelled = [asyncio.create_task(follow(feed, [])) for _ in range(256)]
    await asyncio.sleep(1)
    for task in cancelled:
        task.cancel()

    (seen,) = await busy(store, feed, 1, seconds=1, between=0.1)

    assert len(seen) == 10


async def test_users_whose_readers_are_gone_are_removed(store, feed):
    for number in range(5):
        await numbers(feed, wait=1) if number % 2 else await feed.page(0, ALL, limit=1, wait=1, reader=BERT)
        await asyncio.sleep(1)

    assert len(feed._users) == 1


async def test_readers_are_woken_a_few_at_a_time(store, feed):
    seen = await busy(store, feed, 20, seconds=1, between=1)

    assert max(Counter(at for at, _ in itertools.chain(*seen)).values()) == WOKEN_AT_ONCE


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

    page = await feed.page(99, ALL, limit=10, wait=20, reader=ANNA)

    assert (page.entries, page.next, page.gap) == ((), 1, True)


async def test_a_page_of_the_store_examines_a_bounded_number_of_entries(store, feed, monkeypatch):
    monkeypatch.setattr(history_feed, "MAX_SCANNED", 2)
    assert MAX_SCANNED > 2
    await add(store, feed, 1, 2, 3, 4, 5)
    feed._ring.clear()

    began = present()
    page = await feed.page(0, FeedFilter(statuses=frozenset({Status.FAILED})), limit=10, wait=20, reader=ANNA)

    assert (page.entries, page.next) == ((), 2)
    assert present() == began, "the reader continues at once: entries that match may follow"


async def test_hidden_entries_wake_no_reader(store, feed):
    reader = asyncio.create_task(numbers(feed, 0, FeedFilter(visibility=Visibility(user="eve")), wait=5))
    await add(store, feed, 1)

    assert await reader == []


async def test_a_closed_feed_ends_every_wait(feed):
    reader = asyncio.create_task(numbers(feed, wait=20))
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()

    feed.close()

    assert await reader == []
    assert asyncio.get_running_loop().time() == began
    assert await numbers(feed, wait=20) == []
