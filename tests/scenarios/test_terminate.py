"""TerminateJob: every unfinished job ends FAILED with the caller's reason. aws-batch.md 5.1, 5.2, 5.4, 5.8."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.support.builders import ADMIN
from tests.support.scripts import FOR_EVER, HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script
from tests.support.world import GRACE


@pytest.mark.fault("SP14")
async def test_a_job_terminated_while_submitted_never_runs(world):
    job = await world.submit_and(lambda it: world.terminate(it, "changed my mind"))

    await world.wait_for(
        job, Status.FAILED, status_reason="changed my mind", attempts=(), is_terminated=True, is_cancelled=False
    )

    assert await world.statuses(job) == ["SUBMITTED", "FAILED"]
    assert await world.engine_calls(job) == []


@pytest.mark.fault("SP14")
async def test_a_job_terminated_while_pending_ends_at_once(world):
    before = await world.submit(HANDLES_SIGTERM)
    job = await world.submit(after=[before])
    await world.wait_for(job, Status.PENDING)

    await world.terminate(job, "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=(), is_terminated=True)


@pytest.mark.fault("SP14")
async def test_a_job_terminated_while_runnable_gets_no_container(world):
    holder = await world.submit(LASTING, millicpus=4000)
    job = await world.submit(millicpus=4000)
    await world.wait_for(job, Status.RUNNABLE)

    await world.terminate(job, "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=(), is_terminated=True)
    await world.finish(holder)
    await world.wait_for(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job) == []


@pytest.mark.fault("SP20")
async def test_a_terminated_job_is_failed_although_it_exits_0(world):
    job = await world.start(HANDLES_SIGTERM, attempts=5)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
    assert [(it.exit_code, it.status_reason) for it in done.attempts] == [(0, "stop it")]
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]


async def test_a_job_that_dies_of_sigterm_has_exit_code_143(world):
    job = await world.start(Script(seconds=60, on_term=143, output=("ready",)))

    await world.terminate(job, "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[143])


@pytest.mark.fault("SP19")
async def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_period(world):
    job = await world.start(IGNORES_SIGTERM)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert GRACE <= done.stopped_at - done.stop.ordered_at <= GRACE + world.slack
    assert await world.engine_calls(job) == ["create", "start", "stop", "kill", "remove"]


async def test_a_terminated_job_is_running_until_its_container_has_exited(world):
    job = await world.start(IGNORES_SIGTERM)

    world.runtime.hold("kill")
    await world.terminate(job, "stop it")

    running = await world.job(job)
    assert running.status is Status.RUNNING
    assert running.is_terminated
    world.runtime.release("kill")
    await world.wait_for(job, Status.FAILED)


@pytest.mark.fault("SP13")
async def test_a_terminated_job_is_not_retried(world):
    job = await world.start(Script(seconds=60, on_term=1, output=("ready",)), attempts=10)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert len(done.attempts) == 1
    assert await world.engine_calls(job, attempt=2) == []


@pytest.mark.fault("SP12")
async def test_a_second_terminate_changes_neither_reason_nor_deadline(world):
    job = await world.start(Script(seconds=None, on_term=0, term_delay=FOR_EVER, output=("ready",)))
    await world.terminate(job, "first")
    stopping = await world.wait_until(job, lambda it: it.stop.next_step_at is not None)

    await world.terminate(job, "second")

    assert (await world.job(job)).stop == stopping.stop
    await world.machine.kill(stopping.tag)
    await world.wait_for(job, Status.FAILED, status_reason="first")
    assert (await world.engine_calls(job)).count("stop") == 1


async def test_a_cancel_after_a_terminate_changes_nothing(world):
    job = await world.start(HANDLES_SIGTERM)
    await world.terminate(job, "stop it")

    await world.cancel(job, "late")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", is_cancelled=False)


async def test_a_terminate_after_a_cancel_stops_the_job(world):
    job = await world.start(HANDLES_SIGTERM)
    await world.cancel(job, "no more tries")

    await world.terminate(job, "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True, is_cancelled=False)


@pytest.mark.fault("SP07", "SP18")
async def test_a_finished_job_is_unchanged(world):
    job = await world.submit(Script(seconds=0))
    before = await world.wait_for(job, Status.SUCCEEDED)

    await world.terminate(job, "late")

    assert await world.job(job) == before


async def test_an_unknown_job_is_no_error(world):
    await world.terminate("no-such-job", "whatever")

    assert await world.jobs.describe(["no-such-job"], caller=ADMIN) == ()


@pytest.mark.fault("SP10")
async def test_a_job_terminated_before_its_start_is_never_started(world):
    world.runtime.hold("create")
    job = await world.submit(Script(seconds=60))
    await world.wait_for(job, Status.STARTING)

    await world.terminate(job, "stop it")
    world.runtime.release("create")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=(), is_terminated=True)
    assert await world.engine_calls(job) == ["create", "remove"]
    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "FAILED"]


@pytest.mark.fault("SP11")
async def test_a_job_terminated_during_its_start_is_signalled_once_it_runs(world):
    world.runtime.hold("start")
    job = await world.submit(HANDLES_SIGTERM)
    await world.wait_for_call(job, "start")

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
    assert [(it.exit_code, it.status_reason) for it in done.attempts] == [(0, "stop it")]


@pytest.mark.fault("SP26")
async def test_a_timeout_after_a_terminate_changes_neither_reason_nor_deadline(world):
    world.runtime.hold("start")
    job = await world.submit(IGNORES_SIGTERM, limit=1)
    await world.wait_for_call(job, "start")

    await world.terminate(job, "stop it")
    world.runtime.release("start")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
    assert await world.engine_calls(job) == ["create", "start", "stop", "kill", "remove"]


async def test_dependents_fail_when_the_job_has_ended(world):
    job = await world.submit(HANDLES_SIGTERM)
    child = await world.submit(after=[job])
    await world.wait_for_output(job, "ready")

    await world.terminate(job, "stop it")

    await world.wait_for(child, Status.FAILED, status_reason=status_reasons.dependency_failed(job))


async def test_its_resources_are_free_only_when_the_container_has_exited(world):
    job = await world.start(IGNORES_SIGTERM, millicpus=4000)
    waiting = await world.submit(millicpus=4000)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED)
    next_done = await world.wait_for(waiting, Status.SUCCEEDED)
    assert next_done.started_at >= done.stopped_at
