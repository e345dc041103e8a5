"""CancelJob: effective before STARTING, remembered after. aws-batch.md 5.1 to 5.3, a scenario a cell."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script, lasting


async def test_a_job_cancelled_while_submitted_never_runs(world):
    job = await world.submit_and(lambda it: world.cancel(it, "changed my mind"))

    await world.wait_for(
        job, Status.FAILED, status_reason="changed my mind", attempts=(), started_at=None, is_cancelled=True
    )

    assert await world.statuses(job) == ["SUBMITTED", "FAILED"]
    assert await world.engine_calls(job) == []


async def test_a_job_cancelled_while_pending_ends_at_once(world):
    before = await world.submit(LASTING)
    job = await world.submit(after=[before])
    await world.wait_for(job, Status.PENDING)

    await world.cancel(job, "not needed")

    await world.wait_for(
        job, Status.FAILED, status_reason="not needed", attempts=(), is_cancelled=True, is_terminated=False
    )
    assert (await world.job(before)).status is not Status.FAILED


async def test_a_job_cancelled_while_runnable_gets_no_container(world):
    holder = await world.submit(LASTING, millicpus=4000)
    job = await world.submit(Script(seconds=0), millicpus=4000)
    await world.wait_for(job, Status.RUNNABLE)

    await world.cancel(job, "not needed")

    await world.wait_for(job, Status.FAILED, status_reason="not needed", attempts=(), is_cancelled=True)
    await world.finish(holder)
    await world.wait_for(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job) == []


@pytest.mark.fault("SP16")
async def test_a_job_cancelled_while_running_finishes_normally(world):
    job = await world.start(attempts=3)

    await world.cancel(job, "too late")
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED, is_cancelled=False)
    assert await world.engine_calls(job) == ["create", "start", "remove"]


@pytest.mark.fault("SP16")
async def test_a_job_cancelled_while_running_is_not_retried(world):
    job = await world.start(lasting(1), attempts=3)

    await world.cancel(job, "no more tries")
    await world.finish(job)

    done = await world.wait_for(job, Status.FAILED, status_reason="no more tries", is_cancelled=True, exit_codes=[1])
    assert done.attempts[0].status_reason == status_reasons.EXITED


@pytest.mark.fault("SP16", "SP15")
async def test_a_job_cancelled_while_starting_continues_its_attempt(world):
    world.runtime.hold("create")
    job = await world.submit(Script(seconds=0), attempts=2)
    await world.wait_for(job, Status.STARTING)

    await world.cancel(job, "too late")
    world.runtime.release("create")

    await world.wait_for(job, Status.SUCCEEDED, is_cancelled=False)


@pytest.mark.fault("SP16")
async def test_a_job_cancelled_while_starting_is_not_retried(world):
    world.runtime.hold("create")
    job = await world.submit(Script(seconds=0, exit_code=3), attempts=2)
    await world.wait_for(job, Status.STARTING)

    await world.cancel(job, "no more tries")
    world.runtime.release("create")

    done = await world.wait_for(job, Status.FAILED, status_reason="no more tries", is_cancelled=True)
    assert len(done.attempts) == 1


@pytest.mark.fault("SP17")
async def test_a_job_cancelled_between_attempts_keeps_its_earlier_attempts(world):
    await world.queue("urgent", priority=10)
    job = await world.start(lasting(1), attempts=2, millicpus=4000)
    holder = await world.submit(LASTING, millicpus=4000, queue="urgent")
    await world.finish(job)
    await world.wait_for(holder, Status.RUNNING)
    await world.wait_for(job, Status.RUNNABLE)

    await world.cancel(job, "enough")

    await world.wait_for(job, Status.FAILED, status_reason="enough", is_cancelled=True, exit_codes=[1])
    await world.finish(holder)
    await world.wait_for(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job, attempt=2) == []


@pytest.mark.fault("SP18")
async def test_a_finished_job_is_unchanged(world):
    job = await world.submit(Script(seconds=0))
    before = await world.wait_for(job, Status.SUCCEEDED)

    await world.cancel(job, "late")

    assert await world.job(job) == before


async def test_an_unknown_job_is_no_error(world):
    await world.cancel("no-such-job", "whatever")

    assert await world.jobs.describe(["no-such-job"], caller=ADMIN) == ()


async def test_the_first_reason_stands(world):
    await world.submit(LASTING, millicpus=4000)
    job = await world.submit(millicpus=4000)

    await world.cancel(job, "first")
    await world.cancel(job, "second")

    await world.wait_for(job, Status.FAILED, status_reason="first")


async def test_all_dependents_of_the_job_fail(world):
    await world.submit(LASTING, millicpus=4000)
    job = await world.submit(millicpus=4000)
    child = await world.submit(after=[job])
    grandchild = await world.submit(after=[child])

    await world.cancel(job, "not needed")

    await world.wait_for(child, Status.FAILED, status_reason=status_reasons.dependency_failed(job), attempts=())
    await world.wait_for(grandchild, Status.FAILED, status_reason=status_reasons.dependency_failed(child), attempts=())
