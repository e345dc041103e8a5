"""Which jobs may start behind the head of a queue, and how far a unit of work searches."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.catalog import ResourceKind
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import ArrayChild, ConsumableRequirement
from batchq.engine.mailbox import CatalogChanged
from batchq.engine.scheduling.placement_pass import MAX_TRIED
from batchq.engine.scheduling.queue_reader import Exclusions
from tests.domain.lives import at, pending, runnable, running, starting, terminate
from tests.engine.harness import (
    HOST,
    ONE,
    SURVEYED,
    LoopHarness,
    after_placement,
    catalog_of,
    environments_of,
    harness_with,
    new_unit,
    request,
    run_placement,
    stored,
    submit,
)
from tests.support.builders import consumable, environment, queue
from tests.support.clock import VirtualClock

HOUR = timedelta(hours=1)


WIDE = environment(max_millicpus=64_000)


async def test_a_job_that_fits_beside_the_head_starts():
    runs, head = running(millicpus=1000, gpus=1), runnable(millicpus=1000, gpus=1)
    stays, goes = runnable(millicpus=3000), runnable(millicpus=2000)
    store = await stored(runs, head, stays, goes)

    unit = await after_placement(store, catalog_of(), host=replace(HOST, gpus=1))

    assert environments_of(unit, head, stays, goes) == [None, None, "local"]


async def test_a_short_job_takes_no_consumed_resource_of_the_head():
    tokens = consumable("tokens", total=5, kind=ResourceKind.NON_REPLENISHABLE)
    runs = running(millicpus=3000, timeout=HOUR)
    head = runnable(millicpus=4000, needs=(ConsumableRequirement(resource=tokens.name, quantity=5),))
    short = runnable(millicpus=500, timeout=HOUR / 2, needs=(ConsumableRequirement(resource=tokens.name, quantity=1),))
    other = runnable(millicpus=500, timeout=HOUR / 2)

    unit = await after_placement(await stored(runs, head, short, other), catalog_of(consumables=[tokens]))

    assert environments_of(unit, head, short, other) == [None, None, "local"]


async def test_jobs_of_a_queue_of_lower_priority_are_backfilled_too():
    runs = running(millicpus=1000, timeout=HOUR)
    head = runnable(millicpus=4000, queue="high")
    short = runnable(millicpus=1000, timeout=HOUR / 2, queue="low")
    store = await stored(runs, head, short)

    unit = await after_placement(store, catalog_of(queue("high", priority=2), queue("low", priority=1)))

    assert environments_of(unit, head, short) == [None, "local"]


async def test_an_unschedulable_job_behind_the_head_is_found():
    runs, head, huge = running(timeout=HOUR), runnable(millicpus=4000), runnable(millicpus=9000)
    store = await stored(runs, head, huge)

    unit = await after_placement(store, catalog_of())

    assert unit.get(huge.id).unschedulable


async def test_a_unit_of_work_tries_a_limited_number_of_jobs_behind_the_head():
    runs, head = running(millicpus=1000, timeout=HOUR), runnable(millicpus=64_000)
    long = [runnable(millicpus=1 + number) for number in range(MAX_TRIED - 1)]
    last, beyond = (runnable(millicpus=1, timeout=HOUR / 2) for _ in range(2))
    store = await stored(runs, head, *long, last, beyond)

    unit = await after_placement(store, catalog_of(environments=[WIDE]))

    assert environments_of(unit, last, beyond) == ["local", None]


async def test_60_different_jobs_that_do_not_fit_do_not_hide_the_jobs_behind_them():
    runs, head = running(millicpus=1000, timeout=HOUR), runnable(millicpus=64_000)
    long, short = [runnable(millicpus=1 + number) for number in range(60)], runnable(millicpus=1, timeout=HOUR / 2)
    store = await stored(runs, head, *long, short)

    unit = await after_placement(store, catalog_of(environments=[WIDE]))

    assert environments_of(unit, short) == ["local"]


async def test_the_result_names_the_head_and_its_reason():
    runs, head = running(millicpus=1000), runnable(millicpus=4000)
    store = await stored(runs, head, runnable())
    unit = new_unit(runs)

    result = await run_placement(unit, store, catalog_of())

    assert result.heads["default"].job_id == head.id
    assert result.heads["default"].reason.endswith("waits for vCPUs of compute environment local.")


async def test_there_is_no_head_when_all_jobs_are_placed():
    store = await stored(runnable())

    assert (await run_placement(new_unit(), store, catalog_of())).heads == {}


async def test_the_children_of_an_array_under_order_do_not_start():
    parent = pending(array_size=4, number=7_000_000)
    index = {"child": ArrayChild(parent=parent.id, index=3), "sequence": parent.sequence + 4}
    child, other = runnable(id=child_id(parent.id, 3), **index), runnable()
    store = await stored(parent, child, other)

    unit = await after_placement(
        store, catalog_of(), skip=Exclusions(children=IntervalSet([(parent.sequence + 1, parent.sequence + 4)]))
    )

    assert environments_of(unit, child, other) == [None, "local"]


PROMISE = at(63 * 60)  # a minute to start, the hour, two minutes to stop


async def harness_with_a_head():
    """A head that is promised its start when the job that has no container yet is over; 50 minutes have gone by."""
    head = runnable(millicpus=4000)
    harness = await harness_with(starting(millicpus=1000, timeout=HOUR), head)
    await harness.process(SURVEYED)
    await VirtualClock().sleep(50 * 60)
    return harness, head


async def promised(harness, job):
    return (await harness.store.jobs([job.id]))[job.id].promised_start


def short_job():
    """The job would end before the start that is estimated now, and after the start that was promised."""
    return submit(ONE, millicpus=1000, timeout=HOUR / 2)


async def test_a_later_estimate_does_not_postpone_the_promised_start():
    harness, head = await harness_with_a_head()

    await harness.process(short_job())

    assert (await harness.store.jobs([ONE]))[ONE].status is Status.RUNNABLE
    assert await promised(harness, head) == PROMISE


@pytest.mark.fault("CO09")
async def test_a_restart_does_not_postpone_the_promised_start():
    before, head = await harness_with_a_head()
    harness = LoopHarness(before.store, catalog_of())
    await harness.loop.load()

    await harness.process(SURVEYED, short_job())

    assert (await harness.store.jobs([ONE]))[ONE].status is Status.RUNNABLE
    assert await promised(harness, head) == PROMISE


async def test_an_earlier_promised_start_is_stored():
    late, head = starting(millicpus=1000, timeout=HOUR), runnable(millicpus=4000)
    harness = await harness_with(late, head)
    await harness.process(SURVEYED)
    assert await promised(harness, head) == PROMISE

    await harness.process(request(late, terminate("stop it")), CatalogChanged())

    assert await promised(harness, head) <= at(120)
