"""CancelJob: effective before STARTING, remembered after. aws-batch.md 5.1 to 5.3, a scenario a cell.

TerminateJob does the same to queued jobs. A running job that is cancelled and fails: test_stop_orders.
"""

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status, StopKind
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script, lasting

each_order = pytest.mark.parametrize("order", ["cancel", "terminate"])


@each_order
@pytest.mark.fault("SP14")
async def test_a_job_stopped_while_submitted_never_runs(world, order):
    job = await world.submit_and(lambda value: getattr(world, order)(value, "changed my mind"))

    await world.wait_for(
        job,
        Status.FAILED,
        status_reason="changed my mind",
        attempts=(),
        started_at=None,
        is_cancelled=order == "cancel",
        is_terminated=order == "terminate",
    )
    assert await world.statuses(job) == ["SUBMITTED", "FAILED"]
    assert await world.engine_calls(job) == []


@each_order
@pytest.mark.fault("SP14")
async def test_a_job_stopped_while_runnable_gets_no_container(world, order):
    holder, job = await world.submit_behind()

    await getattr(world, order)(job, "not needed")

    flags = {"is_cancelled": order == "cancel", "is_terminated": order == "terminate"}
    await world.wait_for(job, Status.FAILED, status_reason="not needed", attempts=(), **flags)
    await world.finish(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job) == []


@pytest.mark.fault("SP16")
async def test_a_job_cancelled_while_running_finishes_normally(world):
    job = await world.start(attempts=3)

    await world.cancel(job, "too late")
    await world.finish(job)

    done = await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED, is_cancelled=False)
    assert [(order.kind, order.reason) for order in done.stop_orders] == [(StopKind.CANCEL, "too late")]
    assert await world.engine_calls(job) == ["create", "start", "remove"]


@pytest.mark.fault("SP16", "SP15")
async def test_a_job_cancelled_while_starting_continues_its_attempt(world):
    job = await world.submit_until("create", Script(seconds=0), attempts=2)

    await world.cancel(job, "too late")
    world.runtime.release("create")

    await world.wait_for(job, Status.SUCCEEDED, is_cancelled=False)


@pytest.mark.fault("SP16")
async def test_a_job_cancelled_while_starting_is_not_retried(world):
    job = await world.submit_until("create", Script(seconds=0, exit_code=3), attempts=2)

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
    await world.finish(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job, attempt=2) == []


@pytest.mark.fault("SP18")
async def test_a_finished_job_is_unchanged(world):
    job = await world.submit(Script(seconds=0))
    before = await world.wait_for(job, Status.SUCCEEDED)

    await world.cancel(job, "late")

    assert await world.job(job) == before


@each_order
async def test_an_unknown_job_is_no_error(world, order):
    await getattr(world, order)("no-such-job", "whatever")

    assert await world.jobs.describe(["no-such-job"], caller=ADMIN) == ()


async def test_the_first_reason_stands(world):
    await world.submit(LASTING, millicpus=4000)
    job = await world.submit(millicpus=4000)

    await world.cancel(job, "first")
    await world.cancel(job, "second")

    await world.wait_for(job, Status.FAILED, status_reason="first")
