"""The usage of shares and consumable resources is saved with the unit of work that changes it."""

import asyncio

import pytest

from batchq.domain import events as on
from batchq.domain.catalog import ResourceKind
from batchq.domain.enums import Status
from batchq.domain.job import ConsumableRequirement
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.engine.mailbox import CatalogChanged, JobEvent, RuntimeLost
from batchq.engine.scheduling import totals
from tests.domain.lives import at, exited, runnable, running
from tests.engine.harness import (
    ONE,
    SURVEYED,
    TWO,
    LoopHarness,
    answer,
    catalog_of,
    event_message,
    harness_with,
    request,
    stored,
    submit,
)
from tests.support.builders import consumable, job_id, policy, queue

RED = ShareKey("default", "red")
FAIR = catalog_of(queue(policy="fair"), policies=[policy()])
USED_UP = ResourceKind.NON_REPLENISHABLE


def licences(total, kind=ResourceKind.REPLENISHABLE):
    return catalog_of(consumables=[consumable("licence", total=total, kind=kind)])


def need(quantity):
    return (ConsumableRequirement(resource="licence", quantity=quantity),)


async def share(harness):
    kept = (await harness.store.shares())[RED]
    return kept.active, kept.millicpus


def half(new, share_identifier):
    """A submission that needs half of the vCPUs."""
    return submit(new, share_identifier=share_identifier, millicpus=2000)


class HookedStore:
    """A store that calls `during_commit` in each commit."""

    def __init__(self, store, during_commit):
        self._store, self._during_commit = store, during_commit

    async def commit(self, changes):
        first_number = await self._store.commit(changes)
        self._during_commit()
        return first_number

    def __getattr__(self, name):
        return getattr(self._store, name)


async def test_a_share_gets_back_the_resources_of_an_ended_job():
    harness = await harness_with(catalog=FAIR)
    await harness.process(
        SURVEYED, submit(ONE, share_identifier="red"), submit(TWO, share_identifier="red", millicpus=4000)
    )
    (job,) = (await harness.store.jobs([ONE])).values()

    await harness.process(event_message(job, exited(0)))

    assert await share(harness) == (1, 4000)


async def test_placement_uses_the_share_usage_of_the_present_unit_of_work():
    blue, red = job_id(1), job_id(2)
    harness = await harness_with(catalog=FAIR)
    await harness.process(SURVEYED, half(ONE, "red"), half(TWO, "blue"))
    await harness.process(half(blue, "blue"), half(red, "red"))
    (job,) = (await harness.store.jobs([ONE])).values()

    await harness.process(event_message(job, exited(0)))

    found = await harness.store.jobs([blue, red])
    assert (found[blue].status, found[red].status) == (Status.RUNNABLE, Status.STARTING)


async def test_a_unit_of_work_that_is_not_saved_charges_no_share():
    harness = await harness_with(catalog=FAIR)
    await harness.process(SURVEYED)
    harness.store.failing = True
    lost = submit(ONE, share_identifier="red")
    await harness.process(lost)
    harness.store.failing = False

    await harness.process(submit(TWO, share_identifier="red"))

    assert lost.answer.exception() is not None
    assert await share(harness) == (1, 1000)


async def test_a_queue_without_a_policy_has_no_share_usage():
    harness = await harness_with()

    await harness.process(SURVEYED, submit(ONE))

    assert await harness.store.shares() == {}


async def known_shares(harness):
    return set(harness.loop.scheduler.share_usage.shares)


async def used_by_red(catalog):
    """A harness where a job of this share ran for an hour, and is over."""
    harness = await harness_with(catalog=catalog)
    await harness.process(SURVEYED, submit(ONE, share_identifier="red"))
    await asyncio.sleep(3600)
    (job,) = (await harness.store.jobs([ONE])).values()
    await harness.process(event_message(job, exited(0)))
    return harness


def fair(**changes):
    return catalog_of(queue(policy="fair", **changes), policies=[policy()])


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_new_queue_does_not_inherit_the_usage_of_a_deleted_queue(restarted):
    catalog = fair()
    harness = await used_by_red(catalog)
    assert await known_shares(harness) == {RED}

    catalog.queues.update(fair(created_at=at(3601)).queues)
    await asyncio.sleep(2)
    await harness.process(CatalogChanged(), RuntimeLost())
    if restarted:
        await harness.loop.load()
    await harness.process(submit(TWO, share_identifier="red"))

    assert (await harness.store.shares())[RED].used == 0


async def test_usage_survives_other_changes_of_the_catalog():
    harness = await used_by_red(fair())

    await harness.process(CatalogChanged())

    assert await known_shares(harness) == {RED}


async def test_decayed_shares_are_removed_from_memory(monkeypatch):
    monkeypatch.setattr(totals, "MIN_PRUNED", 3)
    harness = await used_by_red(fair())
    await asyncio.sleep(86_400)

    for number in range(8):
        new = job_id(3_000_000 + number)
        await harness.process(submit(new, share_identifier=f"s{number}", millicpus=9000))
        await harness.process(JobEvent(job_id=new, event=on.CancelRequested(reason="enough"), answer=answer()))

    assert len(await known_shares(harness)) <= 4
    assert len(await harness.store.shares()) == 9


async def test_units_are_released_between_two_attempts():
    runs, waits = running(needs=need(2), attempts=2), runnable(needs=need(1))
    harness = await harness_with(runs, waits, catalog=licences(2))
    await harness.process(SURVEYED)

    await harness.process(event_message(runs, exited(1)))

    assert (await harness.status(runs), await harness.status(waits)) == (Status.STARTING, Status.RUNNABLE)


async def test_used_up_units_make_no_job_schedulable():
    job, next_ = runnable(needs=need(2)), runnable(needs=need(2))
    harness = await harness_with(job, next_, catalog=licences(3, USED_UP))
    await harness.process(SURVEYED)

    await harness.process(CatalogChanged())

    assert (await harness.store.jobs([next_.id]))[next_.id].unschedulable


async def test_a_job_cancelled_before_placement_uses_no_units():
    runs, waits = running(millicpus=4000), runnable(needs=need(2))
    harness = await harness_with(runs, waits, catalog=licences(5, USED_UP))
    await harness.process(SURVEYED)

    await harness.process(request(waits, on.CancelRequested(reason="enough")))

    assert await harness.store.used_up() == {}


async def test_units_that_are_used_up_are_reported():
    harness = await harness_with(runnable(needs=need(2)), catalog=licences(5, USED_UP))
    await harness.process(SURVEYED)

    scheduler = harness.loop.scheduler

    assert (scheduler.used_up("licence"), scheduler.used_up("other")) == (2, 0)


async def test_usage_of_a_resource_deleted_during_the_commit_is_kept_as_saved():
    catalog = licences(5, USED_UP)
    store = HookedStore(await stored(runnable(needs=need(2))), catalog.consumables.clear)
    harness = LoopHarness(store, catalog)

    await harness.process(SURVEYED)

    assert await store.used_up() == {"licence": 2}
    assert harness.loop.scheduler.used_up("licence") == 2
