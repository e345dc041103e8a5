"""Jobs that no environment of their queue could hold are excluded from placement until the catalog changes."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.scheduling.capacity import FreeCapacity
from batchq.domain.scheduling.resources import Usage
from batchq.engine.mailbox import CatalogChanged, ContinueWork, RuntimeLost
from batchq.engine.scheduling import placement_pass
from batchq.engine.scheduling.placement_pass import recheck_unschedulable as free_misfits_of
from tests.domain.lives import after, cancel, runnable, running
from tests.engine.harness import (
    SURVEYED,
    after_placement,
    catalog_of,
    environments_of,
    harness_with,
    new_unit,
    site,
    statuses,
    stored,
)
from tests.support.builders import environment


def misfit(**fields):
    return after(runnable(**fields), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS))


WIDER = catalog_of(environments=[environment(max_millicpus=9000)])


async def free_misfits(unit, store, catalog):
    await free_misfits_of(
        unit,
        store,
        catalog,
        capacity=FreeCapacity(cluster=site(catalog), usage=Usage().after(()), now=unit.now),
        after=-1,
    )


async def test_a_marked_unschedulable_job_is_not_written_again():
    huge = misfit(millicpus=9000)
    store = await stored(huge)

    unit = await after_placement(store, catalog_of())

    assert not unit.has_loaded(huge.id)


async def test_unschedulable_jobs_become_schedulable_when_the_catalog_can_hold_them():
    huge, still = misfit(millicpus=9000), misfit(millicpus=10_000)
    store = await stored(huge, still)
    unit = new_unit()

    await free_misfits(unit, store, WIDER)

    assert (unit.get(huge.id).unschedulable, unit.get(huge.id).status_reason) == (False, None)
    assert unit.get(still.id) == still


async def test_a_job_that_became_schedulable_is_placed_in_the_same_unit_of_work_in_order():
    huge, small = misfit(millicpus=9000), runnable(millicpus=1000)
    store = await stored(huge, small)
    unit = new_unit()
    await free_misfits(unit, store, WIDER)

    await after_placement(store, WIDER, unit)

    assert environments_of(unit, huge, small) == ["local", None]


async def misfits_of(harness, jobs):
    stored = await harness.store.jobs([job.id for job in jobs])
    return [job.unschedulable for job in stored.values()].count(True)


@pytest.fixture
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(placement_pass, "UNSCHEDULABLE_PAGE", 2)


async def test_unschedulable_jobs_are_rechecked_a_page_a_unit_of_work(few_at_a_time):
    jobs = [misfit(millicpus=9000) for _ in range(5)]
    harness = await harness_with(*jobs, catalog=WIDER)

    left = []
    await harness.process(SURVEYED)
    while not harness.mailbox.is_empty:
        left.append(await misfits_of(harness, jobs))
        await harness.process(*await harness.mailbox.take(10))

    assert left == [3, 1]
    assert await misfits_of(harness, jobs) == 0


async def test_a_page_that_was_not_saved_is_examined_again(few_at_a_time):
    jobs = [misfit(millicpus=9000) for _ in range(5)]
    harness = await harness_with(*jobs, catalog=WIDER)
    await harness.process(SURVEYED)
    harness.store.failing = True
    await harness.process(ContinueWork())
    harness.store.failing = False

    await harness.process(ContinueWork())
    await harness.process(ContinueWork())

    assert await misfits_of(harness, jobs) == 0
    await harness.tasks.cancel()


async def test_a_second_change_of_the_catalog_restarts_the_recheck(few_at_a_time):
    jobs = [misfit(millicpus=number) for number in (10_000, 9000, 9000)]
    catalog = catalog_of(environments=[environment(max_millicpus=9000)])
    harness = await harness_with(*jobs, catalog=catalog)
    await harness.process(SURVEYED)
    catalog.environments.update({"local": environment(max_millicpus=10_000)})

    await harness.process(CatalogChanged())
    await harness.process(ContinueWork())

    assert await misfits_of(harness, jobs) == 0


async def test_the_recheck_waits_while_the_engine_is_away(few_at_a_time):
    jobs = [misfit(millicpus=9000) for _ in range(5)]
    harness = await harness_with(*jobs, catalog=WIDER)
    await harness.process(SURVEYED)

    await harness.process(*await harness.mailbox.take(10), RuntimeLost())
    await harness.process(SURVEYED)
    while not harness.mailbox.is_empty:
        await harness.process(*await harness.mailbox.take(10))

    assert await misfits_of(harness, jobs) == 0


async def test_running_jobs_make_no_job_unschedulable():
    runs, huge = running(millicpus=9000), misfit(millicpus=9000)
    store = await stored(runs, huge)
    unit = new_unit(runs)

    await free_misfits(unit, store, WIDER)

    assert not unit.get(huge.id).unschedulable


async def test_an_unschedulable_job_cancelled_in_this_unit_of_work_stays_cancelled():
    huge = misfit(millicpus=9000)
    store = await stored(huge)
    unit = new_unit()
    unit.load([huge])
    unit.step(huge.id, cancel())

    await free_misfits(unit, store, WIDER)

    assert statuses(unit, huge) == [Status.FAILED]


async def test_an_unschedulable_job_tagged_in_this_unit_of_work_becomes_schedulable():
    huge = misfit(millicpus=9000)
    store = await stored(huge)
    unit = new_unit()
    unit.load([huge])
    unit.update(huge, replace(huge, tags=(("team", "blue"),)))

    await free_misfits(unit, store, WIDER)

    assert (unit.get(huge.id).unschedulable, unit.get(huge.id).tags) == (False, (("team", "blue"),))


async def test_an_unschedulable_job_of_a_deleted_queue_does_not_stop_the_recheck():
    orphan, huge = misfit(millicpus=9000, queue="gone"), misfit(millicpus=9000)
    store = await stored(orphan, huge)
    unit = new_unit()

    await free_misfits(unit, store, WIDER)

    assert not unit.get(huge.id).unschedulable
