"""Retries of failed attempts. aws-batch.md 6.1."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import FINISHED, Status
from tests.support.scripts import LASTING, Script


async def test_each_attempt_has_its_own_container(world):
    job = await world.submit(Script(seconds=0, exit_code=7), attempts=3)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)

    assert [(it.number, it.exit_code) for it in done.attempts] == [(1, 7), (2, 7), (3, 7)]
    assert [await world.engine_calls(job, attempt=it) for it in (1, 2, 3)] == [["create", "start", "remove"]] * 3
    assert (await world.statuses(job)).count("RUNNABLE") == 3


async def test_each_attempt_gets_its_number(world):
    script = Script(seconds=0, exit_code=1, prints_environment=("AWS_BATCH_JOB_ATTEMPT",))
    job = await world.submit(script, attempts=2)

    await world.wait_for(job, Status.FAILED)

    assert [await world.output(job, attempt=it) for it in (1, 2)] == [["1"], ["2"]]


@pytest.mark.fault("EN13")
async def test_a_container_killed_externally_is_retried(world):
    job = await world.submit(LASTING, attempts=2)
    running = await world.wait_for(job, Status.RUNNING)

    await world.runtime.kill(running.tag)

    await world.wait_until(job, lambda it: it.attempt is not None and it.attempt.number == 2)
    await world.finish(job)
    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[137, 0])


@pytest.mark.fault("EN12")
async def test_a_container_removed_externally_uses_up_the_attempt(world):
    job = await world.submit(LASTING, attempts=2)
    running = await world.wait_for(job, Status.RUNNING)

    await world.runtime.remove(running.tag)

    await world.wait_until(job, lambda it: it.attempt is not None and it.attempt.number == 2)
    await world.finish(job)
    done = await world.wait_for(job, Status.SUCCEEDED)
    assert [(it.exit_code, it.status_reason) for it in done.attempts] == [
        (None, status_reasons.DISAPPEARED),
        (0, status_reasons.EXITED),
    ]


@pytest.mark.fault("EN20")
async def test_a_missing_command_fails_the_attempt_with_127(world):
    job = await world.submit(Script(refuse="exec: no such file"), attempts=2)

    done = await world.wait_for(
        job, Status.FAILED, status_reason=status_reasons.NOT_STARTED, started_at=None, exit_codes=[127, 127]
    )

    assert done.attempts[0].reason.startswith("CannotStartContainerError: ")


STORM, WAITING = 20, 1000
ATTEMPTS = 10


@pytest.mark.fault("TM04")
async def test_a_job_that_fails_at_once_has_its_attempts_one_after_another(simulated):
    job = await simulated.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS)

    await simulated.wait_for(job, Status.FAILED, exit_codes=[1] * ATTEMPTS)

    calls = [what for tag, what in simulated.runtime.all_calls if tag.job_id == job]
    assert calls == ["create", "start", "remove"] * ATTEMPTS


@pytest.mark.exhaustive
@pytest.mark.fault("TM04", "TM07")
async def test_many_retries_keep_the_order_of_a_long_queue(simulated):
    failing = [await simulated.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS) for _ in range(STORM)]
    waiting = await simulated.submit_many(WAITING, Script(seconds=1))

    ends = [await simulated.wait_until(job, lambda it: it.status in FINISHED) for job in (*failing, *waiting)]

    begun = [tag.job_id for tag, what in simulated.runtime.all_calls if what == "start" and tag.attempt == 1]
    assert begun == [*failing, *waiting]
    assert [it.status for it in ends] == [Status.FAILED] * STORM + [Status.SUCCEEDED] * WAITING
    assert {len(it.attempts) for it in ends[:STORM]} == {ATTEMPTS}
