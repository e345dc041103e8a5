"""Failed loops are restarted, and are healthy again after a time without failures."""

import asyncio
from contextlib import suppress

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.engine.supervisor import FAILURE_WINDOW, MAX_PAUSE, Supervisor
from tests.support import world as worlds
from tests.support.clock import VirtualClock
from tests.support.scripts import Script


class FailingLoop:
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


async def test_a_loop_that_failed_for_hours_is_still_restarted(tasks):
    loop = FailingLoop(2000)

    tasks.supervise("scheduler", loop.run)
    await asyncio.sleep(2001 * MAX_PAUSE)

    assert loop.runs == 2001


async def test_a_failure_is_not_reported_after_a_time_without_failures(tasks):
    tasks.supervise("scheduler", FailingLoop(1).run)

    await asyncio.sleep(2 * FAILURE_WINDOW.total_seconds())

    assert tasks.health() == {"scheduler": "ok"}


async def test_a_loop_that_keeps_failing_is_reported_as_failing(tasks):
    tasks.supervise("scheduler", FailingLoop(2000).run)
    tasks.supervise("alarms", FailingLoop(1).run)

    await asyncio.sleep(4 * MAX_PAUSE)

    assert tasks.failing == ("scheduler",)
    assert tasks.health()["scheduler"].endswith("and keeps failing")
    assert tasks.health()["alarms"] == "restarted 1 times"


async def test_a_loop_that_recovered_is_not_reported_as_failing(tasks):
    tasks.supervise("scheduler", FailingLoop(4).run)

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
    """A cancelled future raises CancelledError in each task that awaits it."""
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
    tasks.supervise("scheduler", FailingLoop(2000).run)
    await asyncio.sleep(5)

    await tasks.cancel()
    await asyncio.sleep(MAX_PAUSE)

    assert tasks.names == []


async def test_a_loop_that_ignores_a_cancellation_is_cancelled_again(tasks):
    """Otherwise a server that stops would wait for that loop for ever."""
    tasks.supervise("old checkpoints", ignores_one_cancellation)
    await asyncio.sleep(0)

    await tasks.cancel()

    assert tasks.names == []


async def ignores_one_cancellation():
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


LOOPS = [
    "scheduler",
    "accounts",
    "alarms",
    "budgets",
    "checkpoints",
    "old checkpoints",
    "shares",
    "store",
    "survey",
    "time limits",
    "use",
    "watch",
]
A_WHILE = 5.0  # seconds, in which a loop that has failed once or twice is there again


class Bug(Exception):
    """An error that no code expects."""


@pytest.fixture
async def world():
    async with worlds.simulated() as living:
        yield living


def fail(name):
    """Let the future that the loop awaits fail."""
    (loop,) = [task for task in asyncio.all_tasks() if task.get_name() == name]
    loop._fut_waiter.set_exception(Bug())


async def fail_often(world, name):
    for _ in range(4):
        fail(name)
        await world.sleep(2 * A_WHILE)


@pytest.mark.fault("LC05")
async def test_every_background_loop_is_supervised(world):
    assert set(world.engine.health().loops) == set(LOOPS)


@pytest.mark.fault("LC05")
@pytest.mark.parametrize("name", LOOPS)
async def test_jobs_run_and_stop_although_a_loop_fails(world, name, caplog):
    runs = await world.submit(Script(seconds=10))
    overdue = await world.submit(Script(seconds=60, on_term=1), limit=8)
    await world.wait_for(runs, Status.RUNNING)
    await world.wait_for(overdue, Status.RUNNING)

    fail(name)
    await world.sleep(A_WHILE)
    fail(name)
    health = world.engine.health()
    later = await world.submit(Script(seconds=1))

    await world.wait_for(later, Status.SUCCEEDED)
    done = await world.wait_for(runs, Status.SUCCEEDED)
    await world.wait_for(overdue, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
    assert len(done.attempts) == 1
    assert health.loops[name] == "restarted 1 times"
    assert not health.healthy
    assert world.engine.health().loops[name] == "restarted 2 times"
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [Bug, Bug]


@pytest.mark.fault("LC05")
@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_that_failed_for_long_catches_up(world, name):
    job = await world.start(Script(seconds=20))

    await fail_often(world, name)

    await world.wait_for(job, Status.SUCCEEDED)
    assert len((await world.job(job)).attempts) == 1


@pytest.mark.fault("LC05")
async def test_a_job_that_raises_in_the_loop_affects_no_other_job(world, monkeypatch):
    """Each message about one job fails; the others are handled."""
    poison = await world.start(Script(seconds=5))
    handler = world.engine.loop._handler
    handle = handler.handle

    def stumbles(unit, message):
        if getattr(message, "job_id", None) == poison:
            raise Bug
        return handle(unit, message)

    monkeypatch.setattr(handler, "handle", stumbles)
    others = [await world.submit(Script(seconds=1)) for _ in range(3)]
    ends = [await world.wait_for(job_id, Status.SUCCEEDED) for job_id in others]
    await world.sleep(20)
    stuck = await world.job(poison)
    monkeypatch.undo()

    assert len(ends) == 3
    assert stuck.status is Status.RUNNING
    await world.wait_for(poison, Status.SUCCEEDED)
