"""Jobs that may not start yet are skipped, and the jobs behind them keep their places."""

import pytest

from batchq.domain.intervals import IntervalSet
from batchq.engine.scheduling import queue_reader
from batchq.engine.scheduling.queue_reader import Skip
from tests.domain.lives import runnable
from tests.engine.turns import filled, ground, placed_in, stored
from tests.support.builders import queue

TWO_QUEUES = ground(queue("urgent", priority=2), queue("low", priority=1))


async def placed_behind(skipped, skip):
    """Where a job behind those that are skipped is placed, and one of a lower queue, with room for one."""
    behind, low = runnable(queue="urgent", millicpus=4000), runnable(queue="low", millicpus=4000)
    unit = await filled(await stored(*skipped, behind, low), TWO_QUEUES, skip=skip)
    return placed_in(unit, behind, low)


@pytest.mark.fault("CO07")
async def test_behind_a_large_cancelled_array_the_higher_queue_is_still_first():
    children = [runnable(queue="urgent") for _ in range(queue_reader.MAX_SKIPPED + 100)]
    orders = [it.order for it in children]

    assert await placed_behind(children, Skip(children=IntervalSet([(min(orders), max(orders))]))) == ["local", None]


async def test_a_job_behind_many_small_cancelled_arrays_starts():
    jobs = [runnable(queue="urgent") for _ in range(60)]
    children = jobs[::2]

    skip = Skip(children=IntervalSet([(it.order, it.order) for it in children]))

    assert await placed_behind(children, skip) == ["local", None]


@pytest.mark.fault("CO07")
async def test_no_job_of_a_lower_queue_starts_before_a_queue_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr(queue_reader, "MAX_SKIPPED", 4)
    children = [runnable(queue="urgent") for _ in range(5)]

    assert await placed_behind(
        children, Skip(bulk_stop_targets=IntervalSet([(it.order, it.order) for it in children]))
    ) == [
        None,
        None,
    ]
