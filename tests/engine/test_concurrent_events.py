"""Of two events of one job in one unit of work, the first decides."""

from datetime import timedelta

import pytest

from batchq.domain import effects as do
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.engine.messages import TimerFired
from tests.domain.lives import exited, running, terminate
from tests.engine.desk import LOOKED, desk_over, news, request

AT_ONCE = timedelta(0)


def rings(job):
    """Its timeout, when its container is seen alive."""
    return TimerFired(job_id=job.id, running_container=job.tag)


@pytest.mark.fault("SP26")
async def test_a_terminate_before_the_timeout_is_the_only_stop_order():
    job = running(timeout=AT_ONCE)
    desk = await desk_over(job)

    await desk.process(LOOKED, request(job, terminate("enough")), rings(job))

    assert desk.loop.state.active[job.id].status_reason == "enough"
    assert desk.asked.count(do.StopContainer(tag=job.tag)) == 1


@pytest.mark.fault("SP26")
async def test_a_timeout_before_the_terminate_is_the_only_stop_order():
    job = running(timeout=AT_ONCE)
    desk = await desk_over(job)

    await desk.process(LOOKED, rings(job), request(job, terminate("enough")))

    assert desk.loop.state.active[job.id].status_reason == status_reasons.TIMED_OUT
    assert desk.asked.count(do.StopContainer(tag=job.tag)) == 1


@pytest.mark.fault("TM03")
async def test_an_exit_before_the_timeout_decides():
    job = running(timeout=AT_ONCE)
    desk = await desk_over(job)

    await desk.process(LOOKED, news(job, exited(0)), rings(job))

    assert await desk.status(job) is Status.SUCCEEDED


@pytest.mark.fault("TM03")
@pytest.mark.parametrize("code", [0, 1])
async def test_an_exit_after_the_timeout_fails_the_job_without_a_retry(code):
    job = running(timeout=AT_ONCE, attempts=3)
    desk = await desk_over(job)

    await desk.process(LOOKED, rings(job), news(job, exited(code)))

    done = (await desk.store.jobs([job.id]))[job.id]
    assert (done.status, done.status_reason) == (Status.FAILED, status_reasons.TIMED_OUT)
    assert [it.exit_code for it in done.attempts] == [code]
    assert do.StartContainer(tag=job.tag) not in desk.asked


@pytest.mark.fault("SP13")
async def test_a_failure_after_terminate_is_not_retried():
    job = running(attempts=3)
    desk = await desk_over(job)

    await desk.process(LOOKED, request(job, terminate("enough")), news(job, exited(1)))

    done = (await desk.store.jobs([job.id]))[job.id]
    assert (done.status, done.status_reason, len(done.attempts)) == (Status.FAILED, "enough", 1)
