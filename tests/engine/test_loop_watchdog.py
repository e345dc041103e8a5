"""A blocked event loop is noticed, with the call that blocks it. The tests move the clock."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from batchq.engine.loop_watchdog import DELAY_SHOWN_FOR, INTERVAL, MAX_DELAY, MAX_WAKE_DELAY, LoopWatchdog
from batchq.engine.mailbox import Mailbox, TimerFired
from batchq.engine.store_monitor import CHECK_INTERVAL, StoreMonitor
from batchq.errors import StoreFailed, StoreLost
from tests.support.builders import NOON, job_id
from tests.support.clock import VirtualClock


class Clock:
    """A time of day that a test moves; its sleep takes virtual time of the event loop."""

    def __init__(self):
        self.passed = timedelta()

    def now(self):
        return NOON + self.passed

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watchdog(clock):
    return LoopWatchdog(clock)


@asynccontextmanager
async def watched(watchdog):
    task = asyncio.create_task(watchdog.run())
    await asyncio.sleep(1)
    try:
        yield
        await asyncio.sleep(1)
    finally:
        task.cancel()
        await asyncio.wait([task])


def block(clock, watchdog):
    """Block the event loop until the watchdog has found the cause."""
    clock.passed += 2 * MAX_DELAY
    while watchdog._cause is None:
        time.sleep(0.01)


@pytest.mark.fault("LC10")
async def test_the_call_that_blocks_the_loop_is_named(clock, watchdog, caplog):
    async with watched(watchdog):
        block(clock, watchdog)

    assert watchdog.health() == "blocked 1 times recently, for at most 1.8 s"
    (line,) = [record.message for record in caplog.records if "was blocked" in record.message]
    assert "block (" in line
    assert __file__ in line


class Overslept:
    """One wait that ends too late, while the process works or is stopped."""

    def __init__(self, clock, *, works):
        self._clock = clock
        self._works = works
        self._left = 1

    def wait(self, seconds):
        asleep = self._left * (seconds + 2 * MAX_WAKE_DELAY)
        self._clock.passed += timedelta(seconds=asleep)
        end = time.process_time() + asleep * self._works
        while time.process_time() < end:
            pass
        self._left -= 1
        return self._left < 0


@pytest.mark.fault("LC10")
def test_no_call_is_named_when_the_whole_process_was_suspended(clock, watchdog):
    clock.passed = INTERVAL + MAX_DELAY

    watchdog._find_cause(threading.get_ident(), Overslept(clock, works=False))

    assert watchdog._cause is None


@pytest.mark.fault("LC10")
def test_a_call_that_holds_the_interpreter_lock_is_named(clock, watchdog):
    clock.passed = INTERVAL + MAX_DELAY

    watchdog._find_cause(threading.get_ident(), Overslept(clock, works=True))

    assert watchdog._cause is not None


@pytest.mark.fault("LC10")
async def test_a_loop_that_responds_in_time_is_healthy(clock, watchdog, caplog):
    async with watched(watchdog):
        clock.passed += INTERVAL + MAX_DELAY

    assert watchdog.health() == "ok"
    assert [record for record in caplog.records if record.name.startswith("batchq")] == []


async def test_an_old_blockage_is_no_longer_reported(clock, watchdog):
    clock.passed = 2 * MAX_DELAY
    watchdog._record_delay(clock.now())
    before = watchdog.health()

    clock.passed += DELAY_SHOWN_FOR

    assert (before, watchdog.health()) == ("blocked 1 times recently, for at most 1.8 s", "ok")


class Store:
    """`failure` is what a check raises."""

    def __init__(self, failure=None, damaged=()):
        self.failure, self._damaged = failure, damaged

    async def check(self):
        if self.failure is not None:
            raise self.failure

    async def damaged(self):
        return self._damaged


@pytest.fixture
async def watch():
    """Starts store monitors, and ends them."""
    tasks = []

    def start(store):
        mailbox = Mailbox()
        monitor = StoreMonitor(store=store, clock=VirtualClock(), post=mailbox.post)
        tasks.append(asyncio.ensure_future(monitor.run()))
        return monitor, mailbox

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.fault("DB08")
async def test_a_lost_store_is_reported_within_ten_seconds(watch):
    store = Store()
    monitor, _ = watch(store)
    await asyncio.sleep(1)
    store.failure = StoreLost("it was removed")

    async with asyncio.timeout(10):
        why = await monitor.lost()

    assert why == "it was removed"


async def test_a_store_that_does_not_answer_is_not_reported_as_lost(watch):
    monitor, _ = watch(Store(StoreFailed("no space left on device")))

    lost = asyncio.ensure_future(monitor.lost())
    done, _ = await asyncio.wait({lost}, timeout=10 * CHECK_INTERVAL)
    lost.cancel()

    assert done == set()


@pytest.mark.fault("LC06")
async def test_damaged_jobs_are_loaded_in_a_unit_of_work(watch):
    _, mailbox = watch(Store(damaged=(job_id(1), job_id(2))))

    messages = await mailbox.take(10)

    assert messages == [TimerFired(job_id=job_id(1)), TimerFired(job_id=job_id(2))]
