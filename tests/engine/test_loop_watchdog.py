"""A blocked event loop is noticed, with the call that blocks it. The tests move the clock."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from batchq.engine.monitors import DELAY_SHOWN_FOR, INTERVAL, MAX_DELAY, MAX_WAKE_DELAY, LoopWatchdog
from tests.support.builders import NOON


class Clock:
    """A time of day that a test moves; who sleeps by it sleeps the loop's time, which costs nothing."""

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
def pulse(clock):
    return LoopWatchdog(clock)


@asynccontextmanager
async def beating(pulse):
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(1)
    try:
        yield
        await asyncio.sleep(1)
    finally:
        task.cancel()
        await asyncio.wait([task])


def block(clock, pulse):
    """Hold the loop up until that is seen."""
    clock.passed += 2 * MAX_DELAY
    while pulse._cause is None:
        time.sleep(0.01)


@pytest.mark.fault("LC10")
async def test_the_call_that_blocks_the_loop_is_named(clock, pulse, caplog):
    async with beating(pulse):
        block(clock, pulse)

    assert pulse.health() == "blocked 1 times recently, for at most 1.8 s"
    (line,) = [it.message for it in caplog.records if "was blocked" in it.message]
    assert "block (" in line
    assert __file__ in line


class Overslept:
    """A wait that is over too late, and then no other; all the while the process works, or is stopped."""

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
def test_no_call_is_named_when_the_whole_process_was_suspended(clock, pulse):
    clock.passed = INTERVAL + MAX_DELAY

    pulse._find_cause(threading.get_ident(), Overslept(clock, works=False))

    assert pulse._cause is None


@pytest.mark.fault("LC10")
def test_a_call_that_holds_the_interpreter_lock_is_named(clock, pulse):
    clock.passed = INTERVAL + MAX_DELAY

    pulse._find_cause(threading.get_ident(), Overslept(clock, works=True))

    assert pulse._cause is not None


@pytest.mark.fault("LC10")
async def test_a_loop_that_responds_in_time_is_healthy(clock, pulse, caplog):
    async with beating(pulse):
        clock.passed += INTERVAL + MAX_DELAY

    assert pulse.health() == "ok"
    assert caplog.records == []


async def test_an_old_blockage_is_no_longer_reported(clock, pulse):
    clock.passed = 2 * MAX_DELAY
    pulse._record_delay(clock.now())
    before = pulse.health()

    clock.passed += DELAY_SHOWN_FOR

    assert (before, pulse.health()) == ("blocked 1 times recently, for at most 1.8 s", "ok")
