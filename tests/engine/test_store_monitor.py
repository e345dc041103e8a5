"""The store monitor reports a lost store, waits for a failing one, and finds damaged jobs."""

import asyncio

import pytest

from batchq.engine.mailbox import Mailbox, TimerFired
from batchq.engine.monitors import CHECK_INTERVAL, StoreMonitor
from batchq.errors import StoreFailed, StoreLost
from tests.support.builders import job_id
from tests.support.clock import VirtualClock


class Store:
    """`trouble` is what a check raises."""

    def __init__(self, trouble=None, damaged=()):
        self.trouble, self._damaged = trouble, damaged

    async def check(self):
        if self.trouble is not None:
            raise self.trouble

    async def damaged(self):
        return self._damaged


@pytest.fixture
async def watch():
    """Starts guards, and ends them."""
    begun = []

    def start(store):
        inbox = Mailbox()
        guard = StoreMonitor(store=store, clock=VirtualClock(), post=inbox.post)
        begun.append(asyncio.ensure_future(guard.run()))
        return guard, inbox

    yield start
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


@pytest.mark.fault("DB08")
async def test_a_lost_store_is_reported_within_ten_seconds(watch):
    store = Store()
    guard, _ = watch(store)
    await asyncio.sleep(1)
    store.trouble = StoreLost("it was removed")

    async with asyncio.timeout(10):
        why = await guard.lost()

    assert why == "it was removed"


async def test_a_store_that_does_not_answer_is_not_reported_as_lost(watch):
    guard, _ = watch(Store(StoreFailed("no space left on device")))

    lost = asyncio.ensure_future(guard.lost())
    done, _ = await asyncio.wait({lost}, timeout=10 * CHECK_INTERVAL)
    lost.cancel()

    assert done == set()


@pytest.mark.fault("LC06")
async def test_damaged_jobs_are_loaded_in_a_unit_of_work(watch):
    _, inbox = watch(Store(damaged=(job_id(1), job_id(2))))

    messages = await inbox.take(10)

    assert messages == [TimerFired(job_id=job_id(1)), TimerFired(job_id=job_id(2))]
