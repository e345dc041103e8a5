"""What shares and consumable resources are charged, saved with the unit of work that charges it."""

import asyncio

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import ResourceKind
from batchq.domain.job import ConsumableRequirement, Status
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.engine.mailbox import CatalogChanged, EngineLost, JobEvent
from batchq.engine.scheduling import share_usage
from tests.domain.lives import at, exited, runnable, running
from tests.engine.desk import LOOKED, ONE, TWO, Desk, answer, desk_over, news, request, submit
from tests.engine.turns import ground, stored
from tests.support.builders import consumable, job_id, policy, queue

RED = ShareKey("default", "red")
FAIR = ground(queue(policy="fair"), policies=[policy()])
USED_UP = ResourceKind.NON_REPLENISHABLE


def licences(total, kind=ResourceKind.REPLENISHABLE):
    return ground(consumables=[consumable("licence", total=total, kind=kind)])


def need(quantity):
    return (ConsumableRequirement(resource="licence", quantity=quantity),)


async def share(desk):
    kept = (await desk.store.shares())[RED]
    return kept.active, kept.millicpus


def caller_of(new, share_identifier):
    """Half of what there is."""
    return submit(new, share_identifier=share_identifier, millicpus=2000)


class Meanwhile:
    """A store during whose commit something else happens."""

    def __init__(self, store, happens):
        self._store, self._happens = store, happens

    async def commit(self, changes):
        first_number = await self._store.commit(changes)
        self._happens()
        return first_number

    def __getattr__(self, name):
        return getattr(self._store, name)


# --------------------------------------------------------------------------------------------------------------- shares


async def test_a_share_is_charged_when_its_job_is_placed():
    desk = await desk_over(on_ground=FAIR)

    await desk.process(LOOKED, submit(ONE, share_identifier="red", millicpus=3000))

    assert await share(desk) == (1, 3000)


async def test_a_share_gets_back_the_resources_of_an_ended_job():
    desk = await desk_over(on_ground=FAIR)
    await desk.process(LOOKED, submit(ONE, share_identifier="red"), submit(TWO, share_identifier="red", millicpus=4000))
    (job,) = (await desk.store.jobs([ONE])).values()

    await desk.process(news(job, exited(0)))

    assert await share(desk) == (1, 4000)


async def test_placement_uses_the_share_usage_of_the_present_unit_of_work():
    blue, red = job_id(1), job_id(2)
    desk = await desk_over(on_ground=FAIR)
    await desk.process(LOOKED, caller_of(ONE, "red"), caller_of(TWO, "blue"))
    await desk.process(caller_of(blue, "blue"), caller_of(red, "red"))
    (job,) = (await desk.store.jobs([ONE])).values()

    await desk.process(news(job, exited(0)))

    found = await desk.store.jobs([blue, red])
    assert (found[blue].status, found[red].status) == (Status.RUNNABLE, Status.STARTING)


async def test_a_unit_of_work_that_is_not_saved_charges_no_share():
    desk = await desk_over(on_ground=FAIR)
    await desk.process(LOOKED)
    desk.store.failing = True
    lost = submit(ONE, share_identifier="red")
    await desk.process(lost)
    desk.store.failing = False

    await desk.process(submit(TWO, share_identifier="red"))

    assert lost.answer.exception() is not None
    assert await share(desk) == (1, 1000)


async def test_a_restarted_engine_loads_the_stored_usage():
    desk = await desk_over(on_ground=FAIR)
    await desk.process(LOOKED, submit(ONE, share_identifier="red"))
    await desk.loop.load()

    await desk.process(submit(TWO, share_identifier="red"))

    assert await share(desk) == (2, 2000)


async def test_a_queue_without_a_policy_has_no_share_usage():
    desk = await desk_over()

    await desk.process(LOOKED, submit(ONE))

    assert await desk.store.shares() == {}


async def known_shares(desk):
    return set(desk.loop.scheduler._share_usage.shares)


async def used_by_red(on_ground):
    """A desk where a job of this share ran for an hour, and is over."""
    desk = await desk_over(on_ground=on_ground)
    await desk.process(LOOKED, submit(ONE, share_identifier="red"))
    await asyncio.sleep(3600)
    (job,) = (await desk.store.jobs([ONE])).values()
    await desk.process(news(job, exited(0)))
    return desk


def fair(**changes):
    return ground(queue(policy="fair", **changes), policies=[policy()])


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_new_queue_does_not_inherit_the_usage_of_a_deleted_queue(restarted):
    on_ground = fair()
    desk = await used_by_red(on_ground)
    assert await known_shares(desk) == {RED}

    on_ground.queues.update(fair(created_at=at(3601)).queues)
    await asyncio.sleep(2)
    await desk.process(CatalogChanged(), EngineLost())
    if restarted:
        await desk.loop.load()
    await desk.process(submit(TWO, share_identifier="red"))

    assert (await desk.store.shares())[RED].used == 0


async def test_usage_survives_other_changes_of_the_catalog():
    desk = await used_by_red(fair())

    await desk.process(CatalogChanged())

    assert await known_shares(desk) == {RED}


async def test_decayed_shares_are_removed_from_memory(monkeypatch):
    monkeypatch.setattr(share_usage, "MAX_SHARES", 3)
    desk = await used_by_red(fair())
    await asyncio.sleep(86_400)

    for number in range(8):
        new = job_id(3_000_000 + number)
        await desk.process(submit(new, share_identifier=f"s{number}", millicpus=9000))
        await desk.process(JobEvent(job_id=new, event=on.CancelRequested(reason="enough"), answer=answer()))

    assert len(await known_shares(desk)) <= 4
    assert len(await desk.store.shares()) == 9


# ------------------------------------------------------------------------------------------------- consumable resources


async def test_units_are_released_at_the_end_of_the_job():
    runs, waits = running(needs=need(2)), runnable(needs=need(2))
    desk = await desk_over(runs, waits, on_ground=licences(3))
    await desk.process(LOOKED)
    assert (await desk.store.jobs([waits.id]))[waits.id].status_reason == status_reasons.no_room(
        "consumable resource licence"
    )

    await desk.process(news(runs, exited(0)))

    assert await desk.status(waits) is Status.STARTING
    assert await desk.store.used_up() == {}


async def test_units_are_released_between_two_attempts():
    runs, waits = running(needs=need(2), attempts=2), runnable(needs=need(1))
    desk = await desk_over(runs, waits, on_ground=licences(2))
    await desk.process(LOOKED)

    await desk.process(news(runs, exited(1)))

    assert (await desk.status(runs), await desk.status(waits)) == (Status.STARTING, Status.RUNNABLE)


async def test_units_that_are_not_replenishable_are_used_up_at_placement():
    desk = await desk_over(runnable(needs=need(2)), on_ground=licences(5, USED_UP))

    await desk.process(LOOKED)

    assert await desk.store.used_up() == {"licence": 2}


async def test_units_are_used_up_once_in_each_attempt():
    job = runnable(needs=need(2), attempts=3)
    desk = await desk_over(job, on_ground=licences(4, USED_UP))
    await desk.process(LOOKED)
    await desk.process(news(job, on.ContainerStarted(attempt=1, started_at=job.created_at)))
    assert await desk.store.used_up() == {"licence": 2}

    await desk.process(news(job, exited(1)))

    assert await desk.store.used_up() == {"licence": 4}


async def test_a_job_is_unschedulable_when_all_units_are_used_up():
    first, next_, other = runnable(needs=need(2)), runnable(needs=need(2)), runnable()
    desk = await desk_over(first, next_, other, on_ground=licences(3, USED_UP))

    await desk.process(LOOKED)

    (stored,) = (await desk.store.jobs([next_.id])).values()
    assert (stored.unschedulable, stored.status_reason) == (True, status_reasons.too_many_units("licence", 2, 1))
    assert await desk.status(other) is Status.STARTING


async def test_the_job_becomes_schedulable_when_units_are_added():
    job = runnable(needs=need(2))
    on_ground = licences(1)
    desk = await desk_over(job, on_ground=on_ground)
    await desk.process(LOOKED)
    on_ground.consumables.update(licences(2).consumables)

    await desk.process(CatalogChanged())

    assert await desk.status(job) is Status.STARTING


async def test_used_up_units_make_no_job_schedulable():
    job, next_ = runnable(needs=need(2)), runnable(needs=need(2))
    desk = await desk_over(job, next_, on_ground=licences(3, USED_UP))
    await desk.process(LOOKED)

    await desk.process(CatalogChanged())

    assert (await desk.store.jobs([next_.id]))[next_.id].unschedulable


async def test_a_job_cancelled_before_placement_uses_no_units():
    runs, waits = running(millicpus=4000), runnable(needs=need(2))
    desk = await desk_over(runs, waits, on_ground=licences(5, USED_UP))
    await desk.process(LOOKED)

    await desk.process(request(waits, on.CancelRequested(reason="enough")))

    assert await desk.store.used_up() == {}


async def test_units_in_use_and_used_up_are_reported():
    desk = await desk_over(runnable(needs=need(2)), on_ground=licences(5, USED_UP))
    await desk.process(LOOKED)

    scheduler = desk.loop.scheduler

    assert (scheduler.in_use("licence", desk.loop.state.active.values()), scheduler.used_up("licence")) == (2, 2)
    assert (scheduler.in_use("other", desk.loop.state.active.values()), scheduler.used_up("other")) == (0, 0)


async def test_usage_of_a_resource_deleted_during_the_commit_is_kept_as_saved():
    on_ground = licences(5, USED_UP)
    store = Meanwhile(await stored(runnable(needs=need(2))), on_ground.consumables.clear)
    desk = Desk(store, on_ground)

    await desk.process(LOOKED)

    assert await store.used_up() == {"licence": 2}
    assert desk.loop.scheduler.used_up("licence") == 2
