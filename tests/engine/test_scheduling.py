"""Placement from the store's index and from the changes of the unit of work itself."""

import pytest

from batchq.domain import events as on
from batchq.domain.enums import Status
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import ConsumableRequirement
from batchq.engine.scheduling import queue_reader
from batchq.engine.scheduling.placement_pass import MAX_DECISIONS
from batchq.engine.scheduling.queue_reader import FIRST_PAGE, PAGE, Exclusions
from tests.domain.lives import after, cancel, exited, placed, runnable, running, submitted
from tests.engine.harness import after_placement, catalog_of, environments_of, new_unit, run_placement, statuses, stored
from tests.support.builders import consumable, environment, queue


async def test_the_order_is_kept_across_pages():
    many = 2 * FIRST_PAGE + 2 * PAGE
    jobs = [runnable(millicpus=1) for _ in range(many)]
    store = await stored(*jobs[::-1])

    unit = await after_placement(store, catalog_of(environments=[environment(max_millicpus=many - 5)]))

    assert [change.after.id for change in unit.job_changes if change.after.status is Status.STARTING] == [
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


HIGH_AND_LOW = queue("low", priority=1), queue("high", priority=9)
ON_ANOTHER = queue("high", priority=9), queue("low", priority=1, environments=("other",))
EQUAL = queue("a"), queue("b")
EQUAL_ON_ANOTHER = queue("a"), queue("b", environments=("other",))


@pytest.mark.parametrize(
    ("held", "queues", "jobs", "placed"),
    [
        (2000, HIGH_AND_LOW, [("high", 3000), ("low", 1000)], [None, None]),
        (2000, ON_ANOTHER, [("high", 3000), ("low", 1000)], [None, "other"]),
        (0, EQUAL, [("b", 1500), ("a", 1500), ("b", 1500)], ["local", "local", None]),
        (0, EQUAL, [("b", 3000), ("a", 3000)], ["local", None]),
        (0, EQUAL_ON_ANOTHER, [("a", 3000), ("a", 3000), ("b", 1000)], ["local", None, "other"]),
    ],
    ids=[
        "a job of a queue of lower priority does not pass a waiting head",
        "a queue of lower priority uses another environment",
        "queues of equal priority are merged by age",
        "the older job is first whatever its queue is named",
        "a waiting head does not block a queue of equal priority on another environment",
    ],
)
async def test_the_order_of_queues(held, queues, jobs, placed):
    runs, jobs = running(millicpus=held), [runnable(queue=name, millicpus=size) for name, size in jobs]
    store = await stored(*([runs] if held else []), *jobs)

    unit = await after_placement(store, catalog_of(*queues, environments=[environment("local"), environment("other")]))

    assert environments_of(unit, *jobs) == placed


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


async def test_capacity_used_in_this_unit_of_work_is_not_free():
    waits, other = runnable(millicpus=4000), runnable(millicpus=4000)
    store = await stored(waits, other)
    unit = new_unit()
    unit.load([waits])
    unit.step(waits.id, placed())

    await after_placement(store, catalog_of(), unit)

    assert statuses(unit, waits) == [Status.STARTING]
    assert environments_of(unit, other) == [None]


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
    orders = [child.sequence for child in children]

    assert await placed_behind(children, Exclusions(children=IntervalSet([(min(orders), max(orders))]))) == [
        "local",
        None,
    ]


async def test_a_job_behind_many_small_cancelled_arrays_starts():
    jobs = [runnable(queue="urgent") for _ in range(60)]
    children = jobs[::2]

    skip = Exclusions(children=IntervalSet([(child.sequence, child.sequence) for child in children]))

    assert await placed_behind(children, skip) == ["local", None]


@pytest.mark.fault("CO07")
async def test_no_job_of_a_lower_queue_starts_before_a_queue_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr(queue_reader, "MAX_SKIPPED", 4)
    children = [runnable(queue="urgent") for _ in range(5)]

    assert await placed_behind(
        children, Exclusions(bulk_stop_targets=IntervalSet([(child.sequence, child.sequence) for child in children]))
    ) == [None, None]
