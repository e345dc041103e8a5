"""The server is killed at any moment, and continues after a restart. design.md "Restart"; faults.md 6.1, 6.2."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from tests.support.builders import task
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script, contained, lasting
from tests.support.world import GRACE


async def test_a_running_job_continues_and_uses_no_attempt(world):
    job = await world.start(attempts=2)

    await world.restart()
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert await world.engine_calls(job) == ["create", "start", "remove"]


async def test_a_job_that_ended_without_a_server_keeps_its_exit_code_and_times(world):
    job = await world.start(lasting(9))
    await world.crash()
    await world.finish(job)
    await world.sleep(1)
    back = world.clock.now()

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED, exit_codes=[9])
    assert done.stopped_at < back


async def test_a_job_whose_container_was_removed_is_lost(world):
    job = await world.submit(Script(seconds=60), attempts=1)
    tag = (await world.wait_for(job, Status.RUNNING)).tag
    await world.crash()
    await world.runtime.remove(tag)

    await world.boot()

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)


@pytest.mark.parametrize("call", ["create", "start"])
async def test_a_server_killed_before_a_call_of_the_start_makes_it_afterwards(world, call):
    world.runtime.hold(call)
    job = await world.submit(Script(seconds=0))
    await world.wait_for_call(job, call)
    await world.crash()
    world.runtime.release(call)

    await world.boot()

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


async def test_a_server_killed_after_the_start_does_not_start_the_container_again(world):
    job = await world.submit_until("start", LASTING)
    await world.crash_after("start")

    await world.boot()
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert (await world.engine_calls(job)).count("start") == 1


async def test_a_container_removed_before_its_creation_was_saved_is_created_again(world):
    world.runtime.hold("create")
    job = await world.submit(Script(seconds=0))
    tag = (await world.wait_for(job, Status.STARTING)).tag
    await world.wait_for_call(job, "create")
    await world.crash_after("create")
    await world.runtime.remove(tag)

    await world.boot()

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert (await world.engine_calls(job)).count("start") == 1


async def test_a_container_removed_before_its_start_was_saved_is_lost(world):
    world.runtime.hold("start")
    job = await world.submit(Script(seconds=60), attempts=1)
    tag = (await world.wait_for(job, Status.STARTING)).tag
    await world.wait_for_call(job, "start")
    await world.crash_after("start")
    await world.runtime.remove(tag)

    await world.boot()

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED, exit_codes=[None])
    assert (await world.engine_calls(job)).count("start") == 1


async def test_a_container_of_a_task_removed_before_its_start_was_saved_is_not_started_again(world):
    world.runtime.hold("start")
    pair = task(contained("app", Script(seconds=60)), contained("aside", Script(seconds=60), essential=False))
    job = await world.submit(task=pair)
    tag = replace((await world.wait_for(job, Status.STARTING)).tag, container_key="0/app")
    await world.wait_for_call(job, "start", container_key="0/app")
    await world.crash_after("start")
    await world.runtime.remove(tag)

    await world.boot()

    await world.wait_for(job, Status.FAILED)
    assert (await world.engine_calls(job, container_key="0/app")).count("start") == 1


@pytest.mark.fault("SP04")
async def test_a_server_killed_in_the_grace_period_keeps_the_deadline(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.terminate(job, "stop it")
    await world.wait_until_idle()
    await world.crash()
    await world.sleep(1)

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert done.stopped_at - done.stop.ordered_at < GRACE + world.slack
    assert (await world.engine_calls(job)).count("stop") == 1


async def test_a_job_terminated_while_starting_never_runs_after_a_kill_of_the_server(world):
    job = await world.submit_until("create", Script(seconds=60))
    await world.terminate(job, "stop it")

    await world.restart(dropping="create")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=())


async def test_a_remembered_cancel_survives_a_restart(world):
    job = await world.start(lasting(1), attempts=3)
    await world.cancel(job, "no more tries")

    await world.restart()
    await world.finish(job)

    done = await world.wait_for(job, Status.FAILED, status_reason="no more tries")
    assert len(done.attempts) == 1


async def test_queued_jobs_keep_their_order(world):
    holder = await world.submit(LASTING, millicpus=4000)
    first = await world.submit(Script(seconds=0), millicpus=4000)
    second = await world.submit(Script(seconds=0), millicpus=4000)
    await world.wait_for(holder, Status.RUNNING)

    await world.restart()
    await world.finish(holder)

    second_done = await world.wait_for(second, Status.SUCCEEDED)
    assert (await world.job(first)).stopped_at <= second_done.started_at


async def test_the_container_of_a_finished_job_is_removed(world):
    world.runtime.hold("remove")
    job = await world.run(Script(seconds=0, output=("kept",)))

    await world.restart(dropping="remove")

    await world.wait_until_containers_are_gone()
    assert await world.output(job) == ["kept"]
    assert (await world.job(job)).status is Status.SUCCEEDED


@pytest.mark.fault("ST14")
async def test_the_container_of_an_attempt_is_removed_before_the_next_is_created(world):
    world.runtime.hold("remove")
    job = await world.submit(Script(seconds=0, exit_code=1), attempts=2)
    second = Tag(job_id=job, attempt=2)
    await world.wait_until(job, lambda job: len(job.attempts) == 1 and job.attempt is not None)
    await world.sleep(1)
    assert world.runtime.calls(second) == []
    await world.crash()

    await world.boot()
    await world.sleep(1)

    assert world.runtime.calls(second) == []
    world.runtime.release("remove")
    await world.wait_for(job, Status.FAILED, exit_codes=[1, 1])


async def test_a_server_that_shuts_down_starts_no_job(world):
    """Its end waits for a call that is held, and meanwhile the first job makes room."""
    held = await world.submit(HANDLES_SIGTERM)
    first = await world.submit(LASTING, millicpus=3500)
    waiting = await world.submit(Script(seconds=0), millicpus=3500)
    await world.wait_for_output(held, "ready")
    await world.wait_for(first, Status.RUNNING)
    world.runtime.hold("stop")
    await world.terminate(held)

    await asyncio.gather(world.engine.stop(), world.finish(first))

    assert (await world.job(waiting)).status is Status.RUNNABLE
    world.runtime.release("stop")
    await world.boot()
    await world.wait_for(first, Status.SUCCEEDED)
    await world.wait_for(waiting, Status.SUCCEEDED)
