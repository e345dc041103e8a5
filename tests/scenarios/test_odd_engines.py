"""Engines with unreliable events, slow answers, or containers of unknown jobs.

In the simulated world alone: what these do takes a minute, or a seed, on a real one.
"""

import pytest

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.job import Status
from tests.support import world as worlds
from tests.support.containers import launch
from tests.support.scripts import Script

EACH_CALL = 5.0  # seconds


class Slow:
    """A runtime each of whose calls takes long, before it is carried out and after."""

    def __init__(self, runtime, clock):
        self._runtime = runtime
        self._clock = clock

    def __getattr__(self, name):
        call = getattr(self._runtime, name)
        if name in {"deaths", "logs"}:
            return call

        async def slowly(*given):
            await self._clock.sleep(EACH_CALL / 2)
            answer = await call(*given)
            await self._clock.sleep(EACH_CALL / 2)
            return answer

        return slowly


@pytest.fixture
def world(simulated):
    return simulated


@pytest.fixture
async def orphan(world):
    """Containers of ours that no job knows, and that run when a server starts."""

    async def left_behind(number):
        await world.crash()
        launches = [launch(Script(seconds=None, on_term=None)) for _ in range(number)]
        for it in launches:
            await world.machine.create(it)
            await world.machine.start(it.tag)
        await world.boot()
        return {it.tag for it in launches}

    return left_behind


async def there(world):
    return {it.tag for it in await world.machine.survey()}


@pytest.mark.fault("EN11")
@pytest.mark.parametrize("death_delays", [(), (0, 0), (0, 0.5, 40), (3,)], ids=["never", "twice", "thrice", "late"])
@pytest.mark.parametrize("inspected", [True, False], ids=["inspected", "not inspected"])
async def test_each_attempt_ends_once_as_inspected_whatever_the_events(world, death_delays, inspected):
    world.machine.faults.death_delays, world.machine.faults.inspects_deaths = death_delays, inspected
    jobs = [await world.submit(Script(seconds=seconds, exit_code=7), attempts=2) for seconds in (0, 1, 5)]

    done = [await world.wait_for(job, Status.FAILED) for job in jobs]
    await world.sleep(60)

    assert [[it.exit_code for it in job.attempts] for job in done] == [[7, 7]] * 3
    assert [await world.job(job) for job in jobs] == done


@pytest.mark.fault("EN17")
async def test_a_few_orphaned_containers_are_removed_after_a_minute(world, orphan):
    orphans = await orphan(3)

    await world.sleep(50)
    assert await there(world) == orphans
    await world.sleep(30)

    assert await there(world) == set()


@pytest.mark.fault("EN17")
async def test_many_orphaned_containers_are_kept_and_reported(world, orphan, caplog):
    orphans = await orphan(4)

    await world.sleep(200)

    assert await there(world) == orphans
    assert "have no known job" in caplog.text
    for tag in orphans:
        await world.machine.remove(tag)


@pytest.mark.fault("EN29")
async def test_a_slow_engine_does_nothing_twice_and_delays_no_request():
    async with worlds.simulated() as world:
        machine = world.machine
        assert isinstance(machine, SimulatedRuntime)
        world.runtime.runtime = Slow(machine, world.clock)
        began = world.clock.now()
        jobs = [await world.submit(Script(seconds=1), attempts=2) for _ in range(20)]
        stopped = await world.start(Script(seconds=None))
        before = world.clock.now()
        await world.terminate(stopped)
        answered_after = world.clock.now() - before

        done = [await world.wait_for(job, Status.SUCCEEDED) for job in jobs]

        assert answered_after.total_seconds() < 0.1
        assert {len(job.attempts) for job in done} == {1}
        assert [(await world.engine_calls(job)).count("start") for job in jobs] == [1] * 20
        assert (world.clock.now() - began).total_seconds() > 4 * EACH_CALL
