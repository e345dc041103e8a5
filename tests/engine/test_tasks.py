"""Loops that fail are started again, and what they did is forgiven in time."""

import asyncio

import pytest

from batchq.engine.tasks import LONGEST_PAUSE, PEACE, Tasks
from tests.support.clock import VirtualClock


class Ailing:
    """A loop that fails at once, `times` times, and then goes on for ever."""

    def __init__(self, times):
        self.times, self.runs = times, 0

    async def run(self):
        self.runs += 1
        if self.runs <= self.times:
            raise ZeroDivisionError
        await asyncio.Event().wait()


@pytest.fixture
async def tasks():
    under_test = Tasks(VirtualClock())
    yield under_test
    await under_test.cancel()


async def test_a_loop_that_failed_runs_again_and_health_says_so(tasks):
    ailing = Ailing(2)

    tasks.supervise("scheduler", ailing.run)
    await asyncio.sleep(10)

    assert ailing.runs == 3
    assert tasks.health() == {"scheduler": "restarted 2 times"}


async def test_a_loop_that_fails_all_night_runs_in_the_morning(tasks):
    ailing = Ailing(2000)

    tasks.supervise("scheduler", ailing.run)
    await asyncio.sleep(2001 * LONGEST_PAUSE)

    assert ailing.runs == 2001


async def test_a_failure_is_forgiven_after_a_time_of_peace(tasks):
    tasks.supervise("scheduler", Ailing(1).run)

    await asyncio.sleep(2 * PEACE.total_seconds())

    assert tasks.health() == {"scheduler": "ok"}
