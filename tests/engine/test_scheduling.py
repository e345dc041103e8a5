"""Placement from the store's index and from the changes of the unit of work itself."""

import pytest

from batchq.domain import events as on
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import ConsumableRequirement, Status
from batchq.engine.scheduling import queue_reader
from batchq.engine.scheduling.placement_pass import MAX_DECISIONS
from batchq.engine.scheduling.queue_reader import FIRST_PAGE, PAGE, Skip
from tests.domain.lives import after, cancel, exited, placed, runnable, running, submitted
from tests.engine.harness import after_placement, catalog_of, environments_of, new_unit, run_placement, statuses, stored
from tests.support.builders import consumable, environment, queue

# ---------------------------------------------------------------------------------------------------------------- order


async def test_the_order_is_kept_across_pages():
    many = 2 * FIRST_PAGE + 2 * PAGE
    jobs = [runnable(millicpus=1) for _ in range(many)]
    store = await stored(*jobs[::-1])

    unit = await after_placement(store, catalog_of(environments=[environment(max_millicpus=many - 5)]))

    assert [it.after.id for it in unit.job_changes() if it.after.status is Status.STARTING] == [
        job.id for job in jobs[: many - 5]
    ]
    assert environments_of(unit, *jobs[many - 5 :]) == [None] * 5


async def test_a_unit_of_work_places_a_bounded_number_and_reports_that_more_remain():
    jobs = [runnable(millicpus=1, memory_mib=1) for _ in range(MAX_DECISIONS + 1)]
    store = await stored(*jobs)
    unit = new_unit()

    result = await run_placement(unit, store, catalog_of())

    assert not result.finished
    assert statuses(unit, *jobs[:-1]) == [Status.STARTING] * MAX_DECISIONS
    assert not unit.has_loaded(jobs[-1].id)


async def test_a_unit_of_work_reports_that_nothing_remains():
    store = await stored(runnable(millicpus=4000), runnable(millicpus=4000))

    assert (await run_placement(new_unit(), store, catalog_of())).finished


async def test_jobs_of_queues_of_lower_priority_do_not_pass_a_waiting_head():
    runs = running(millicpus=2000)
    head = runnable(millicpus=3000, queue="high")
    small = runnable(millicpus=1000, queue="low")
    store = await stored(runs, head, small)

    unit = await after_placement(store, catalog_of(queue("low", priority=1), queue("high", priority=9)))

    assert environments_of(unit, head, small) == [None, None]


async def test_queues_of_lower_priority_use_other_environments():
    runs = running(millicpus=2000)
    head = runnable(millicpus=3000, queue="high")
    small = runnable(millicpus=1000, queue="low")
    store = await stored(runs, head, small)
    queues = queue("high", priority=9), queue("low", priority=1, environments=("other",))

    unit = await after_placement(store, catalog_of(*queues, environments=[environment("local"), environment("other")]))

    assert environments_of(unit, head, small) == [None, "other"]


async def test_queues_of_equal_priority_are_merged_by_age():
    first = runnable(millicpus=1500, queue="b")
    second = runnable(millicpus=1500, queue="a")
    third = runnable(millicpus=1500, queue="b")
    store = await stored(first, second, third)

    unit = await after_placement(store, catalog_of(queue("a"), queue("b")))

    assert environments_of(unit, first, second, third) == ["local", "local", None]


async def test_at_equal_priority_the_older_job_starts_first_whatever_its_queue_is_named():
    old, young = runnable(millicpus=3000, queue="b"), runnable(millicpus=3000, queue="a")
    store = await stored(old, young)

    unit = await after_placement(store, catalog_of(queue("a"), queue("b")))

    assert environments_of(unit, old, young) == ["local", None]


async def test_a_waiting_head_does_not_block_a_queue_of_equal_priority_on_another_environment():
    waits = [runnable(millicpus=3000, queue="a") for _ in range(2)]
    goes = runnable(queue="b")
    store = await stored(*waits, goes)
    queues = queue("a"), queue("b", environments=("other",))

    unit = await after_placement(store, catalog_of(*queues, environments=[environment("local"), environment("other")]))

    assert environments_of(unit, *waits, goes) == ["local", None, "other"]


# ------------------------------------------------------------------------------------------- what this unit has changed


async def test_a_job_that_became_runnable_in_this_unit_of_work_is_placed_in_it():
    job, store = submitted(), await stored()
    unit = new_unit()
    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())

    await after_placement(store, catalog_of(), unit)

    assert environments_of(unit, job) == ["local"]


async def test_a_new_job_is_placed_after_older_jobs():
    old, new = runnable(millicpus=3000), submitted(millicpus=3000)
    store = await stored(old)
    unit = new_unit()
    unit.insert(new, None)
    unit.step(new.id, on.DependenciesMet())

    await after_placement(store, catalog_of(), unit)

    assert environments_of(unit, old, new) == ["local", None]


async def test_a_job_cancelled_in_this_unit_of_work_is_not_placed():
    job, other = runnable(millicpus=3000), runnable(millicpus=3000)
    store = await stored(job, other)
    unit = new_unit()
    unit.load([job])
    unit.step(job.id, cancel())

    await after_placement(store, catalog_of(), unit)

    assert statuses(unit, job, other) == [Status.FAILED, Status.STARTING]


async def test_a_job_changed_in_this_unit_of_work_is_placed_once():
    job = runnable()
    store = await stored(job)
    unit = new_unit()
    unit.load([job])
    unit.update(job, after(after(job, on.FoundUnschedulable(reason="x")), on.FoundSchedulable()))

    await after_placement(store, catalog_of(), unit)

    assert environments_of(unit, job) == ["local"]
    assert len(unit.effects) == 1


async def test_capacity_released_in_this_unit_of_work_is_used_in_it():
    runs, waits = running(millicpus=4000), runnable(millicpus=4000)
    store = await stored(runs, waits)
    unit = new_unit(runs)
    unit.step(runs.id, exited(0))

    await after_placement(store, catalog_of(), unit)

    assert environments_of(unit, waits) == ["local"]


async def test_capacity_used_in_this_unit_of_work_is_not_free():
    waits, other = runnable(millicpus=4000), runnable(millicpus=4000)
    store = await stored(waits, other)
    unit = new_unit()
    unit.load([waits])
    unit.step(waits.id, placed())

    await after_placement(store, catalog_of(), unit)

    assert statuses(unit, waits) == [Status.STARTING]
    assert environments_of(unit, other) == [None]


# ------------------------------------------------------------------------------------------- less than what jobs hold


@pytest.mark.fault("TM06")
async def test_an_environment_reduced_below_its_usage_gets_no_job_until_capacity_is_free():
    runs, small = running(millicpus=3000), runnable(millicpus=500)
    store = await stored(runs, small)
    shrunk = catalog_of(environments=[environment(max_millicpus=1000)])

    unit = await after_placement(store, shrunk, new_unit(runs))
    assert (environments_of(unit, small), unit.get(runs.id)) == ([None], runs)
    unit.step(runs.id, exited(0))
    await run_placement(unit, store, shrunk)

    assert environments_of(unit, small) == ["local"]


async def test_units_held_of_a_deleted_resource_count_against_its_successor():
    runs = running(needs=(ConsumableRequirement(resource="licences", quantity=3),))
    one, two = (runnable(needs=(ConsumableRequirement(resource="licences", quantity=2),)) for _ in range(2))
    store = await stored(runs, one, two)

    unit = await after_placement(store, catalog_of(consumables=[consumable(total=6)]), new_unit(runs))

    assert environments_of(unit, one, two) == ["local", None]


async def test_a_total_reduced_below_its_usage_takes_no_units_from_jobs():
    runs = running(needs=(ConsumableRequirement(resource="licences", quantity=3),))
    waits, other = runnable(needs=(ConsumableRequirement(resource="licences", quantity=1),)), runnable()
    store = await stored(runs, waits, other)

    unit = await after_placement(store, catalog_of(consumables=[consumable(total=1)]), new_unit(runs))

    assert (unit.get(runs.id), environments_of(unit, waits, other)) == (runs, [None, "local"])


TWO_QUEUES = catalog_of(queue("urgent", priority=2), queue("low", priority=1))


async def placed_behind(skipped, skip):
    """The environments of a job behind skipped jobs and of a job in a lower queue, with capacity for one job."""
    behind, low = runnable(queue="urgent", millicpus=4000), runnable(queue="low", millicpus=4000)
    unit = await after_placement(await stored(*skipped, behind, low), TWO_QUEUES, skip=skip)
    return environments_of(unit, behind, low)


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
