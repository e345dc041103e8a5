"""TerminateJob: every unfinished job ends FAILED with the caller's reason. aws-batch.md 5.1, 5.2, 5.4, 5.8.

Queued jobs: test_cancel. Repeated orders, checkpoints and force: test_stop_ladder.
"""

import pytest

from batchq.domain.enums import Status
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, Script, lasting
from tests.support.world import GRACE


@pytest.mark.fault("SP13", "SP20")
@pytest.mark.parametrize("exit_code", [0, 1, 143])
async def test_a_terminated_job_is_failed_and_not_retried_whatever_its_exit_code(world, exit_code):
    job = await world.start(lasting(exit_code, output=("ready",)), attempts=5)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True, exit_codes=[exit_code])
    assert done.attempts[0].status_reason == "stop it"
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]


@pytest.mark.fault("SP19")
async def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_period(world):
    job = await world.start(IGNORES_SIGTERM)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert GRACE <= done.stopped_at - done.stop.ordered_at <= GRACE + world.slack
    assert await world.engine_calls(job) == ["create", "start", "stop", "kill", "remove"]


async def test_a_cancel_after_a_terminate_changes_nothing(world):
    job = await world.start(HANDLES_SIGTERM)
    await world.terminate(job, "stop it")

    await world.cancel(job, "late")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", is_cancelled=False)


@pytest.mark.fault("SP10")
async def test_a_job_terminated_before_its_start_is_never_started(world):
    job = await world.submit_until("create", Script(seconds=60))

    await world.terminate(job, "stop it")
    world.runtime.release("create")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=(), is_terminated=True)
    assert await world.engine_calls(job) == ["create", "remove"]
    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "FAILED"]


@pytest.mark.fault("SP11")
async def test_a_job_terminated_during_its_start_is_signalled_once_it_runs(world):
    job = await world.submit_until("start", HANDLES_SIGTERM)

    await world.terminate(job, "stop it")
    world.runtime.release("start")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[0])
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]


@pytest.mark.fault("SP11")
async def test_a_job_terminated_at_any_moment_of_its_start_is_never_left_running(world):
    jobs = [await world.submit(HANDLES_SIGTERM, millicpus=100, grace=GRACE) for _ in range(20)]

    for number, job in enumerate(jobs):
        await world.sleep(0.01 * (number % 5))
        await world.terminate(job, "stop it")

    for job in jobs:
        done = await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
        assert len(done.attempts) <= 1
    await world.wait_until_idle()


@pytest.mark.fault("SP06")
async def test_a_job_that_exits_0_before_the_signal_is_failed(world):
    world.runtime.hold("stop")
    job = await world.start(attempts=3)

    await world.terminate(job, "stop it")
    await world.finish(job)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert [(attempt.exit_code, attempt.status_reason) for attempt in done.attempts] == [(0, "stop it")]


@pytest.mark.fault("SP26")
async def test_a_timeout_after_a_terminate_changes_neither_reason_nor_deadline(world):
    job = await world.submit_until("start", IGNORES_SIGTERM, limit=1)

    await world.terminate(job, "stop it")
    world.runtime.release("start")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
    assert await world.engine_calls(job) == ["create", "start", "stop", "kill", "remove"]


async def test_its_resources_are_free_only_when_the_container_has_exited(world):
    job = await world.start(IGNORES_SIGTERM, millicpus=4000)
    waiting = await world.submit(millicpus=4000)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED)
    next_done = await world.wait_for(waiting, Status.SUCCEEDED)
    assert next_done.started_at >= done.stopped_at
