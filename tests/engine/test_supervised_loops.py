"""Whichever loop fails, wherever it waits: it is restarted, health reports it, and no job is affected."""

import asyncio

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.support import world as worlds
from tests.support.scripts import Script

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
    "watch",
]
A_WHILE = 5.0  # seconds, in which a loop that has failed once or twice is there again

pytestmark = pytest.mark.fault("LC05")


class Bug(Exception):
    """What nobody foresaw."""


@pytest.fixture
async def world():
    async with worlds.simulated() as living:
        yield living


def fail(name):
    """In the midst of a loop: what it waits for comes to a bad end."""
    (loop,) = [task for task in asyncio.all_tasks() if task.get_name() == name]
    loop._fut_waiter.set_exception(Bug())


async def fail_often(world, name):
    for _ in range(4):
        fail(name)
        await world.sleep(2 * A_WHILE)


async def test_every_background_loop_is_supervised(world):
    assert set(world.engine.health().loops) == set(LOOPS)


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
    assert [it.exc_info[0] for it in caplog.records if it.exc_info] == [Bug, Bug]


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_that_failed_for_long_catches_up(world, name):
    job = await world.submit(Script(seconds=20))
    await world.wait_for(job, Status.RUNNING)

    await fail_often(world, name)

    await world.wait_for(job, Status.SUCCEEDED)
    assert len((await world.job(job)).attempts) == 1


async def test_a_job_that_raises_in_the_loop_affects_no_other_job(world, monkeypatch):
    """Each message about one job comes to a bad end; the others are read all the same."""
    poison = await world.submit(Script(seconds=5))
    await world.wait_for(poison, Status.RUNNING)
    handler = world.engine.loop._handler
    handle = handler.handle

    def stumbles(unit, message):
        if getattr(message, "job_id", None) == poison:
            raise Bug
        return handle(unit, message)

    monkeypatch.setattr(handler, "handle", stumbles)
    others = [await world.submit(Script(seconds=1)) for _ in range(3)]
    ends = [await world.wait_for(it, Status.SUCCEEDED) for it in others]
    await world.sleep(20)
    stuck = await world.job(poison)
    monkeypatch.undo()

    assert len(ends) == 3
    assert stuck.status is Status.RUNNING
    await world.wait_for(poison, Status.SUCCEEDED)
