"""The server is started on another container engine than its jobs run on. Decision 0037."""

import asyncio

import pytest

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.machines import one_machine
from batchq.errors import Invalid
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script
from tests.support.world import HOST

pytestmark = pytest.mark.fault("CO03")


@pytest.fixture
def world(simulated):
    return simulated


def exchange_engine(world, engine=None, *, engine_id="another"):
    """Let another engine answer from now on, a new one by default. Returns the engine that the jobs run on."""
    before = world.machine
    world.machine = engine or SimulatedRuntime(clock=world.clock, machines=one_machine(HOST), engine_id=engine_id)
    world.runtime.runtime = world.machine
    return before


async def restart_on(world, engine=None, *, engine_id="another"):
    await world.crash()
    before = exchange_engine(world, engine, engine_id=engine_id)
    await world.boot()
    return before


async def test_on_another_engine_no_job_is_lost_started_or_killed(world, caplog):
    once, twice = await world.start(), await world.start(attempts=2, limit=3600)

    theirs = await restart_on(world)
    waits = await world.submit(Script(seconds=1))
    await world.terminate(once)
    await world.sleep(4000)

    assert await world.runtime.survey() == ()
    reason = "not the container engine that 2 jobs run on (this id another, known id simulated)"
    assert reason in world.engine.health().engine
    assert sum("not the container engine" in message for message in caplog.messages) == 1
    assert {(await world.job(job_id)).status for job_id in (once, twice)} == {Status.RUNNING}
    assert (await world.job(waits)).status is Status.RUNNABLE

    await restart_on(world, theirs)

    assert world.engine.health().engine is None
    await world.wait_for(once, Status.FAILED, status_reason="stop it")
    await world.wait_for(twice, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
    await world.wait_for(waits, Status.SUCCEEDED)


async def test_an_operator_may_accept_another_engine(world):
    job = await world.start(Script(seconds=30), attempts=2)
    theirs = await restart_on(world)
    with pytest.raises(Invalid, match="--new-engine"):
        await world.leave_safe_mode(purge=False)

    await world.engine.leave_safe_mode(purge=False, new_engine=True, caller=ADMIN)

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert len(done.attempts) == 2
    await theirs.close()


async def test_accepting_another_engine_cannot_be_combined_with_purge(world):
    job = await world.start(Script(seconds=30), attempts=2)
    theirs = await restart_on(world)

    with pytest.raises(Invalid, match="--purge and --new-engine cannot be combined"):
        await world.engine.leave_safe_mode(purge=True, new_engine=True, caller=ADMIN)

    await world.engine.leave_safe_mode(purge=False, new_engine=True, caller=ADMIN)
    await world.wait_for(job, Status.SUCCEEDED)
    await theirs.close()


async def test_no_other_engine_is_accepted_while_the_known_one_answers(world):
    job = await world.start(Script(seconds=30))

    with pytest.raises(Invalid, match="There is no new container engine to accept"):
        await world.engine.leave_safe_mode(purge=False, new_engine=True, caller=ADMIN)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_another_engine_is_accepted_in_the_unit_of_work_of_its_survey(world):
    job = await world.start()
    theirs = await restart_on(world)
    await world.terminate(job)

    async with world.engine.loop.unit_lock:
        accepted = asyncio.ensure_future(world.engine.leave_safe_mode(purge=False, new_engine=True, caller=ADMIN))
        await asyncio.sleep(0)
        await world.engine._watcher._survey_once()
    await accepted

    await world.wait_for(job, Status.FAILED, status_reason="stop it")
    await theirs.close()


async def test_a_stop_order_on_an_exchanged_engine_is_carried_out_on_the_right_one(world):
    world.engine._watcher._survey_interval = 3600.0
    job = await world.start(Script(seconds=10_000))
    await world.sleep(20)  # the next survey is far away
    theirs = exchange_engine(world)

    await world.terminate(job)
    await world.sleep(600)

    assert (await world.job(job)).status is Status.RUNNING
    exchange_engine(world, theirs)
    world.engine._watcher.survey_now()  # as when the stream of deaths is opened again
    await world.wait_for(job, Status.FAILED, status_reason="stop it")


async def test_an_engine_with_a_container_of_the_jobs_is_their_engine_whatever_its_id(world):
    job = await world.start()
    await world.crash()
    world.machine._identity = "another"

    await world.boot()

    assert world.engine.health().engine is None
    await world.finish(job, Status.SUCCEEDED)


async def test_an_engine_without_an_id_is_accepted(world):
    job = await world.start()

    theirs = await restart_on(world, engine_id=None)

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)
    await theirs.close()


async def test_without_active_jobs_any_engine_is_accepted(world):
    await world.run(Script(seconds=1))
    await world.wait_until_containers_are_gone()

    theirs = await restart_on(world)

    await world.run(Script(seconds=1))
    await theirs.close()


async def test_the_id_of_the_engine_is_saved_with_the_first_job_placed_on_it(world):
    await world.crash()
    theirs = exchange_engine(world)
    world.store.failing = True
    await world.boot()
    await world.sleep(0.1)  # the unit of work of the survey fails
    world.store.failing = False

    job = await world.submit(LASTING)

    assert (await world.job(job)).status is Status.STARTING
    assert await world.store.engine_id() == "another"
    await theirs.close()


async def test_an_engine_exchanged_while_the_server_runs_proves_no_loss(world):
    job = await world.submit(LASTING)
    tag = (await world.wait_for(job, Status.RUNNING)).tag
    theirs = exchange_engine(world)

    world.engine._watcher._on_death(tag)  # a late report of its death, before the next survey
    await world.sleep(60)

    assert (await world.job(job)).status is Status.RUNNING
    exchange_engine(world, theirs)
    await world.finish(job, Status.SUCCEEDED)
