"""A loop that is held up is noticed, and by what. This is about real time, which the tests around it do without."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from batchq.clock import SystemClock
from batchq.engine.pulse import OF_LATE, TOO_LATE, Pulse
from tests.support.builders import NOON

HELD_UP = 1.6  # seconds


class Later(SystemClock):
    """The time of day after a while, on demand."""

    def __init__(self):
        super().__init__()
        self.passed = NOON - NOON

    def now(self):
        return super().now() + self.passed


@asynccontextmanager
async def beating(pulse):
    asyncio.get_running_loop().live_really()
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(0.1)
    try:
        yield
        await asyncio.sleep(0.5)
    finally:
        task.cancel()
        await asyncio.wait([task])


def block():
    time.sleep(HELD_UP)


@pytest.mark.fault("LC10")
async def test_work_that_blocks_the_loop_is_named(caplog):
    pulse = Pulse(SystemClock())

    async with beating(pulse):
        block()

    assert pulse.health().startswith("held up 1 times of late")
    (line,) = [it.message for it in caplog.records if "held up" in it.message]
    assert "block (" in line
    assert __file__ in line


@pytest.mark.fault("LC10")
async def test_a_loop_that_comes_back_in_time_is_well(caplog):
    pulse = Pulse(SystemClock())

    async with beating(pulse):
        await asyncio.sleep(0.3)

    assert pulse.health() == "ok"
    assert caplog.records == []


async def test_what_held_it_up_is_forgotten_in_time():
    clock = Later()
    pulse = Pulse(clock)
    pulse._beat = clock.now()
    pulse._feel(clock.now() + 2 * TOO_LATE)
    before = pulse.health()

    clock.passed = OF_LATE + 2 * TOO_LATE

    assert (before, pulse.health()) == ("held up 1 times of late, for 1.8 s at most", "ok")
