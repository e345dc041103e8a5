"""The start promised to a head is not postponed: not by time, by other jobs, nor by a restart."""

from datetime import timedelta

import pytest

from batchq.domain.job import Status
from batchq.engine.messages import CatalogChanged
from tests.domain.lives import at, runnable, starting, terminate
from tests.engine.desk import LOOKED, ONE, Desk, desk_over, request, submit
from tests.engine.turns import ground
from tests.support.clock import VirtualClock

HOUR = timedelta(hours=1)
PROMISE = at(63 * 60)  # a minute to start, the hour, two minutes to stop


async def desk_with_a_head():
    """A head that is promised its start when the job that has no container yet is over; 50 minutes have gone by."""
    head = runnable(millicpus=4000)
    desk = await desk_over(starting(millicpus=1000, timeout=HOUR), head)
    await desk.process(LOOKED)
    await VirtualClock().sleep(50 * 60)
    return desk, head


async def promised(desk, job):
    return (await desk.store.jobs([job.id]))[job.id].promised_start


def short_job():
    """It would be over before the start that is estimated now, and after the one that was promised."""
    return submit(ONE, millicpus=1000, timeout=HOUR / 2)


async def test_a_later_estimate_does_not_postpone_the_promised_start():
    desk, head = await desk_with_a_head()

    await desk.process(short_job())

    assert (await desk.store.jobs([ONE]))[ONE].status is Status.RUNNABLE
    assert await promised(desk, head) == PROMISE


@pytest.mark.fault("CO09")
async def test_a_restart_does_not_postpone_the_promised_start():
    before, head = await desk_with_a_head()
    desk = Desk(before.store, ground())
    await desk.loop.load()

    await desk.process(LOOKED, short_job())

    assert (await desk.store.jobs([ONE]))[ONE].status is Status.RUNNABLE
    assert await promised(desk, head) == PROMISE


async def test_an_earlier_promised_start_is_stored():
    late, head = starting(millicpus=1000, timeout=HOUR), runnable(millicpus=4000)
    desk = await desk_over(late, head)
    await desk.process(LOOKED)
    assert await promised(desk, head) == PROMISE

    await desk.process(request(late, terminate("stop it")), CatalogChanged())

    assert await promised(desk, head) <= at(120)
