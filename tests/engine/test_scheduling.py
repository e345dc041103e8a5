"""Filling free room, out of the store's index and what the unit of work itself has changed."""

import pytest

from batchq.domain import events as on
from batchq.domain.catalog import State
from batchq.domain.job import ConsumableRequirement, Status
from batchq.engine.scheduling.placement_pass import MAX_DECISIONS
from batchq.engine.scheduling.queue_reader import FIRST_PAGE, PAGE
from tests.domain.lives import after, cancel, exited, placed, runnable, running, submitted
from tests.engine.turns import fill, filled, ground, placed_in, statuses, stored, turn_over
from tests.support.builders import consumable, environment, queue, resources

# ---------------------------------------------------------------------------------------------------------------- order


async def test_the_oldest_start_first():
    old, young = runnable(millicpus=3000), runnable(millicpus=3000)
    store = await stored(young, old)

    unit = await filled(store, ground())

    assert placed_in(unit, old, young) == ["local", None]


async def test_order_is_kept_over_many_pages():
    many = 2 * FIRST_PAGE + 2 * PAGE
    jobs = [runnable(millicpus=1) for _ in range(many)]
    store = await stored(*jobs[::-1])

    unit = await filled(store, ground(environments=[environment(max_millicpus=many - 5)]))

    assert [it.after.id for it in unit.job_changes() if it.after.status is Status.STARTING] == [
        job.id for job in jobs[: many - 5]
    ]
    assert placed_in(unit, *jobs[many - 5 :]) == [None] * 5


async def test_one_unit_of_work_places_so_many_and_says_that_there_are_more():
    jobs = [runnable(millicpus=1, memory_mib=1) for _ in range(MAX_DECISIONS + 1)]
    store = await stored(*jobs)
    unit = turn_over()

    told = await fill(unit, store, ground())

    assert not told.finished
    assert statuses(unit, *jobs[:-1]) == [Status.STARTING] * MAX_DECISIONS
    assert not unit.has_loaded(jobs[-1].id)


async def test_it_says_when_there_is_nothing_more():
    store = await stored(runnable(millicpus=4000), runnable(millicpus=4000))

    assert (await fill(turn_over(), store, ground())).finished


async def test_a_head_that_waits_is_not_passed_by_a_smaller_one():
    runs = running(millicpus=2000)
    head, small = runnable(millicpus=3000), runnable(millicpus=1000)
    store = await stored(runs, head, small)

    unit = await filled(store, ground())

    assert placed_in(unit, head, small) == [None, None]


async def test_a_head_that_waits_is_not_passed_by_queues_of_lower_priority():
    runs = running(millicpus=2000)
    head = runnable(millicpus=3000, queue="high")
    small = runnable(millicpus=1000, queue="low")
    store = await stored(runs, head, small)

    unit = await filled(store, ground(queue("low", priority=1), queue("high", priority=9)))

    assert placed_in(unit, head, small) == [None, None]


async def test_elsewhere_queues_of_lower_priority_go_on():
    runs = running(millicpus=2000)
    head = runnable(millicpus=3000, queue="high")
    small = runnable(millicpus=1000, queue="low")
    store = await stored(runs, head, small)
    queues = queue("high", priority=9), queue("low", priority=1, environments=("other",))

    unit = await filled(store, ground(*queues, environments=[environment("local"), environment("other")]))

    assert placed_in(unit, head, small) == [None, "other"]


async def test_the_queue_of_higher_priority_comes_first_though_its_jobs_are_younger():
    old = runnable(millicpus=4000, queue="low")
    young = runnable(millicpus=4000, queue="high")
    store = await stored(old, young)

    unit = await filled(store, ground(queue("low", priority=1), queue("high", priority=2)))

    assert placed_in(unit, old, young) == [None, "local"]


async def test_queues_of_equal_priority_are_merged_by_age():
    first = runnable(millicpus=1500, queue="b")
    second = runnable(millicpus=1500, queue="a")
    third = runnable(millicpus=1500, queue="b")
    store = await stored(first, second, third)

    unit = await filled(store, ground(queue("a"), queue("b")))

    assert placed_in(unit, first, second, third) == ["local", "local", None]


async def test_of_equal_priority_the_older_job_goes_first_whatever_its_queue_is_called():
    old, young = runnable(millicpus=3000, queue="b"), runnable(millicpus=3000, queue="a")
    store = await stored(old, young)

    unit = await filled(store, ground(queue("a"), queue("b")))

    assert placed_in(unit, old, young) == ["local", None]


async def test_a_queue_whose_head_waits_does_not_stop_one_of_equal_priority_elsewhere():
    waits = [runnable(millicpus=3000, queue="a") for _ in range(2)]
    goes = runnable(queue="b")
    store = await stored(*waits, goes)
    queues = queue("a"), queue("b", environments=("other",))

    unit = await filled(store, ground(*queues, environments=[environment("local"), environment("other")]))

    assert placed_in(unit, *waits, goes) == ["local", None, "other"]


@pytest.mark.fault("SP27")
async def test_jobs_of_a_disabled_queue_are_placed_too():
    job = runnable()
    store = await stored(job)

    unit = await filled(store, ground(queue(state=State.DISABLED)))

    assert placed_in(unit, job) == ["local"]


# ------------------------------------------------------------------------------------------- what this unit has changed


async def test_a_job_that_became_runnable_in_this_unit_of_work_is_placed_in_it():
    job, store = submitted(), await stored()
    unit = turn_over()
    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())

    await filled(store, ground(), unit)

    assert placed_in(unit, job) == ["local"]


async def test_a_new_job_stands_behind_the_older_ones():
    old, new = runnable(millicpus=3000), submitted(millicpus=3000)
    store = await stored(old)
    unit = turn_over()
    unit.insert(new, None)
    unit.step(new.id, on.DependenciesMet())

    await filled(store, ground(), unit)

    assert placed_in(unit, old, new) == ["local", None]


@pytest.mark.fault("TM07")
async def test_a_retried_job_stands_where_it_stood():
    again, waited = running(attempts=2, millicpus=3000), runnable(millicpus=3000)
    store = await stored(again, waited)
    unit = turn_over(again)
    unit.step(again.id, exited(1))

    await filled(store, ground(), unit)

    assert placed_in(unit, again, waited) == ["local", None]
    assert unit.get(again.id).attempt.number == 2


async def test_a_job_that_was_cancelled_in_this_unit_of_work_is_not_placed():
    job, other = runnable(millicpus=3000), runnable(millicpus=3000)
    store = await stored(job, other)
    unit = turn_over()
    unit.load([job])
    unit.step(job.id, cancel())

    await filled(store, ground(), unit)

    assert statuses(unit, job, other) == [Status.FAILED, Status.STARTING]


async def test_a_job_that_was_amended_in_this_unit_of_work_is_placed_once():
    job = runnable()
    store = await stored(job)
    unit = turn_over()
    unit.load([job])
    unit.update(job, after(after(job, on.FoundUnschedulable(reason="x")), on.FoundSchedulable()))

    await filled(store, ground(), unit)

    assert placed_in(unit, job) == ["local"]
    assert len(unit.effects) == 1


async def test_room_that_this_unit_of_work_made_is_filled_in_it():
    runs, waits = running(millicpus=4000), runnable(millicpus=4000)
    store = await stored(runs, waits)
    unit = turn_over(runs)
    unit.step(runs.id, exited(0))

    await filled(store, ground(), unit)

    assert placed_in(unit, waits) == ["local"]


async def test_room_that_this_unit_of_work_filled_is_full():
    waits, other = runnable(millicpus=4000), runnable(millicpus=4000)
    store = await stored(waits, other)
    unit = turn_over()
    unit.load([waits])
    unit.step(waits.id, placed())

    await filled(store, ground(), unit)

    assert statuses(unit, waits) == [Status.STARTING]
    assert placed_in(unit, other) == [None]


async def test_vcpus_are_the_environments_and_memory_is_the_hosts():
    jobs = [runnable(millicpus=1000, memory_mib=128) for _ in range(2)]
    store = await stored(*jobs)

    unit = await filled(store, ground(), host=resources(millicpus=1, memory_mib=255))

    assert placed_in(unit, *jobs) == ["local", None]


# ------------------------------------------------------------------------------------------- less than what jobs hold


@pytest.mark.fault("TM06")
async def test_an_environment_that_shrank_below_what_runs_takes_nobody_until_there_is_room_again():
    runs, small = running(millicpus=3000), runnable(millicpus=500)
    store = await stored(runs, small)
    shrunk = ground(environments=[environment(max_millicpus=1000)])

    unit = await filled(store, shrunk, turn_over(runs))
    assert (placed_in(unit, small), unit.get(runs.id)) == ([None], runs)
    unit.step(runs.id, exited(0))
    await fill(unit, store, shrunk)

    assert placed_in(unit, small) == ["local"]


async def test_a_resource_that_was_made_anew_while_a_job_holds_of_the_old_one_gives_only_the_rest():
    runs = running(needs=(ConsumableRequirement(resource="licences", quantity=3),))
    one, two = (runnable(needs=(ConsumableRequirement(resource="licences", quantity=2),)) for _ in range(2))
    store = await stored(runs, one, two)

    unit = await filled(store, ground(consumables=[consumable(total=6)]), turn_over(runs))

    assert placed_in(unit, one, two) == ["local", None]


async def test_a_total_below_what_is_in_use_takes_nothing_from_those_who_hold_it():
    runs = running(needs=(ConsumableRequirement(resource="licences", quantity=3),))
    waits, other = runnable(needs=(ConsumableRequirement(resource="licences", quantity=1),)), runnable()
    store = await stored(runs, waits, other)

    unit = await filled(store, ground(consumables=[consumable(total=1)]), turn_over(runs))

    assert (unit.get(runs.id), placed_in(unit, waits, other)) == (runs, [None, "local"])
