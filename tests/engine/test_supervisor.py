"""Failed loops are restarted, and are healthy again after a time without failures."""

import asyncio

import pytest

from batchq.engine.supervisor import FAILURE_WINDOW, MAX_PAUSE, Supervisor
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
    under_test = Supervisor(VirtualClock())
    yield under_test
    await under_test.cancel()


async def test_a_failed_loop_is_restarted_and_reported(tasks):
    ailing = Ailing(2)

    tasks.supervise("scheduler", ailing.run)
    await asyncio.sleep(10)

    assert ailing.runs == 3
    assert tasks.health() == {"scheduler": "restarted 2 times"}


async def test_a_loop_that_failed_for_hours_is_still_restarted(tasks):
    ailing = Ailing(2000)

    tasks.supervise("scheduler", ailing.run)
    await asyncio.sleep(2001 * MAX_PAUSE)

    assert ailing.runs == 2001


async def test_a_failure_is_not_reported_after_a_time_without_failures(tasks):
    tasks.supervise("scheduler", Ailing(1).run)

    await asyncio.sleep(2 * FAILURE_WINDOW.total_seconds())

    assert tasks.health() == {"scheduler": "ok"}


async def test_a_loop_that_keeps_failing_is_reported_as_failing(tasks):
    tasks.supervise("scheduler", Ailing(2000).run)
    tasks.supervise("alarms", Ailing(1).run)

    await asyncio.sleep(4 * MAX_PAUSE)

    assert tasks.failing == ("scheduler",)
    assert tasks.health()["scheduler"].endswith("and keeps failing")
    assert tasks.health()["alarms"] == "restarted 1 times"


async def test_a_loop_that_recovered_is_not_reported_as_failing(tasks):
    tasks.supervise("scheduler", Ailing(4).run)

    await asyncio.sleep(20)
    before = tasks.failing
    await asyncio.sleep(60)

    assert (before, tasks.failing) == (("scheduler",), ())


async def test_a_loop_that_returns_is_restarted(tasks):
    runs = []

    async def ends():
        runs.append(True)

    tasks.supervise("survey", ends)
    await asyncio.sleep(5)

    assert len(runs) == 3


async def test_a_loop_survives_the_cancellation_of_an_awaited_task(tasks):
    """A future that somebody else cancels ends whoever waits for it as if he were cancelled himself."""
    given_up = asyncio.get_running_loop().create_future()
    tasks.supervise("watch", lambda: waits_for(given_up))
    await asyncio.sleep(0)

    given_up.cancel()
    await asyncio.sleep(0.5)

    assert tasks.health() == {"watch": "restarted 1 times"}
    assert tasks.names == ["watch"]


async def waits_for(future):
    await future


async def test_no_loop_is_restarted_after_the_shutdown(tasks):
    tasks.supervise("scheduler", Ailing(2000).run)
    await asyncio.sleep(5)

    await tasks.cancel()
    await asyncio.sleep(MAX_PAUSE)

    assert tasks.names == []
