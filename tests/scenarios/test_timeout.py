"""attemptDurationSeconds: stopped, killed after the grace period, FAILED, not retried. aws-batch.md 6.2."""

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from tests.support.scripts import Script
from tests.support.world import GRACE

IN_TIME = 8  # seconds, of which what ends in time needs next to none


async def test_an_attempt_longer_than_the_timeout_is_stopped_and_not_retried(world):
    job = await world.submit(Script(seconds=60, on_term=143), limit=2, attempts=3)

    done = await world.wait_for(
        job, Status.FAILED, status_reason=status_reasons.TIMED_OUT, is_terminated=False, exit_codes=[143]
    )

    assert done.attempts[0].status_reason == status_reasons.TIMED_OUT
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]


async def test_a_timed_out_job_that_ignores_sigterm_is_killed(world):
    job = await world.submit(Script(seconds=60, on_term=None), limit=1)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT, exit_codes=[137])

    assert (done.stopped_at - done.started_at) >= GRACE


async def test_the_timeout_counts_from_the_start_of_each_attempt(world):
    job = await world.submit(Script(seconds=1, exit_code=1), limit=IN_TIME, attempts=IN_TIME + 1)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)

    assert len(done.attempts) == IN_TIME + 1


async def test_a_terminate_after_the_timeout_does_not_change_its_reason(world):
    job = await world.submit(Script(seconds=60, on_term=None), limit=1)
    await world.wait_until(job, lambda job: job.stop is not None)

    await world.terminate(job, "late")

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT, is_terminated=False)
    assert (await world.engine_calls(job)).count("stop") == 1


async def test_a_job_that_ended_in_time_without_a_server_has_not_timed_out(world):
    job = await world.start(limit=IN_TIME)
    await world.crash()
    await world.finish(job)
    await world.sleep(IN_TIME)

    await world.boot()

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.stop is None


async def test_a_job_that_ended_in_time_while_the_engine_was_away_has_not_timed_out(world):
    job = await world.start(limit=IN_TIME)
    world.runtime.unreachable = world.runtime.drops_death_reports = True
    await world.finish(job)
    await world.sleep(IN_TIME + 1)

    world.runtime.unreachable = False

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.stop is None


async def test_a_timeout_that_passed_while_the_engine_was_away_is_applied(world):
    world.runtime.hold("stop")  # else it might be over before the engine is away
    job = await world.start(Script(seconds=60, on_term=143), limit=1)
    world.runtime.unreachable = True
    world.runtime.release("stop")
    await world.sleep(3)

    world.runtime.unreachable = False

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
