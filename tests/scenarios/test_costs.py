"""The cost of jobs: the resources that they hold while their containers run."""

import os
from datetime import timedelta
from decimal import Decimal

import pytest

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import CostGroup, Status
from batchq.domain.prices import Prices
from batchq.errors import Invalid, NotFound
from tests.support.builders import ADMIN
from tests.support.scripts import IGNORES_SIGTERM, LASTING, Script, lasting

#: A job of 0.25 vCPUs costs 1 EUR a second, its GiB of memory nothing; a GiB of checkpoints 1 EUR a second.
PRICES = Prices(currency="EUR", vcpu_hour=Decimal(4 * 3600), checkpoint_gib_month=Decimal(730 * 3600))


@pytest.fixture
def priced(world):
    world.prices = PRICES
    return world


async def cost(world, job_id, caller=ADMIN):
    return await world.server.costs.of_job(job_id, caller=caller)


async def report(world, by=CostGroup.ACCOUNT, caller=ADMIN, **days):
    found = await world.server.costs.report(by, since=days.get("since"), until=days.get("until"), caller=caller)
    return {row.name: row for row in found.rows}


def seconds(world, least, amount):
    """Whether the amount is that of so many seconds.

    On Docker they last longer, or shorter, because the engine records the start after the program has begun (measured:
    1.99 s for `sleep 2`; more on a slow machine).
    """
    shortest = Decimal(least) if world.virtual else Decimal(least) / 2
    return shortest <= amount <= least + world.slack.total_seconds()


def survey_seldom(world):
    """List the containers once an hour: a day has 8,640 lists otherwise."""
    world.engine._watcher._survey_interval = 3600.0


async def test_a_job_without_prices_has_no_cost(world):
    job = await world.run()

    assert await cost(world, job) is None
    assert await report(world) == {}


async def test_a_job_costs_what_it_holds_from_its_start_to_its_end(priced):
    job = await priced.submit(Script(seconds=4))
    done = await priced.wait_for(job, Status.SUCCEEDED)
    ran = (done.stopped_at - done.started_at) / timedelta(seconds=1)

    await priced.sleep(3)

    found = await cost(priced, job)
    assert seconds(priced, 4, found.total)
    assert float(found.total) == pytest.approx(ran)
    assert (found.currency, found.gpu, found.storage, found.estimated_savings) == ("EUR", 0, 0, None)


async def test_the_queue_is_free(priced):
    first = await priced.submit(LASTING)
    waits = await priced.submit(LASTING, after=[first])
    await priced.sleep(2)

    assert (await cost(priced, waits)).total == 0


async def test_the_grace_period_is_included(priced):
    job = await priced.start(IGNORES_SIGTERM)
    await priced.terminate(job)
    done = await priced.wait_for(job, Status.FAILED)

    ran = (done.stopped_at - done.started_at) / timedelta(seconds=1)
    assert done.stop_orders[-1].killed_at is not None
    assert float((await cost(priced, job)).total) == pytest.approx(ran)


async def test_all_attempts_are_included(priced):
    job = await priced.run(Script(seconds=2, exit_code=1), Status.FAILED, attempts=3)

    assert seconds(priced, 6, (await cost(priced, job)).total)


async def test_a_pause_is_free(priced):
    job = await priced.start(lasting(143))
    await priced.sleep(2)
    await priced.pause(job)
    await priced.wait_until(job, lambda job: job.status is Status.RUNNABLE)
    paused = (await cost(priced, job)).total
    await priced.sleep(5)
    assert (await cost(priced, job)).total == paused
    assert seconds(priced, 2, paused)

    await priced.resume(job)
    await priced.wait_for(job, Status.RUNNING)
    await priced.sleep(3)

    assert seconds(priced, 3, (await cost(priced, job)).total - paused)


async def test_a_later_change_of_prices_does_not_change_the_cost(priced):
    job = await priced.run(Script(seconds=2))
    before = await cost(priced, job)

    priced.prices = Prices(currency="USD", vcpu_hour=Decimal(1))
    await priced.restart()

    assert await cost(priced, job) == before


async def test_kept_checkpoints_cost_storage_after_the_end(priced):
    job = await priced.start(tags={"batchq:checkpoints": "true"})
    checkpoint = await priced.checkpoints.directory(job) / "epoch-1.pt"
    checkpoint.write_bytes(b"x" * 1024**2)
    os.utime(checkpoint, times=(priced.clock.now().timestamp(),) * 2)  # the simulated world takes the time from this
    await priced.finish(job, Status.SUCCEEDED)
    first = (await cost(priced, job)).storage

    await priced.sleep(4)

    grown = (await cost(priced, job)).storage - first
    assert seconds(priced, 3.9, grown * 1024)


async def test_savings_follow_from_the_progress(priced):
    plan = {"batchq:total-epochs": "10"}
    job = await priced.start(lasting(output=("epoch 2", "ready")), tags=plan)
    await priced.sleep(1)
    await priced.terminate(job)
    await priced.wait_for(job, Status.FAILED)

    found = await cost(priced, job)
    assert float(found.estimated_savings) == pytest.approx(float(found.total) * 4)


async def test_the_cost_of_an_array_is_that_of_its_children(priced):
    job = await priced.run(Script(seconds=2), array_size=3)

    assert seconds(priced, 6, (await cost(priced, job)).total)


async def test_a_report_adds_up_ended_and_running_jobs(priced):
    await priced.run(Script(seconds=2))
    await priced.start()
    await priced.sleep(3)

    for by, name in ((CostGroup.ACCOUNT, "root"), (CostGroup.USER, "tester"), (CostGroup.QUEUE, "default")):
        row = (await report(priced, by))[name]
        assert seconds(priced, 5, row.amounts.total)
        assert seconds(priced, 3, row.active)
        assert row.active < row.amounts.total
    assert len(await report(priced, CostGroup.DEFINITION)) == 2


async def test_a_report_of_other_days_is_empty(priced):
    await priced.run(Script(seconds=2))
    now = priced.clock.now()

    assert await report(priced, since=now - timedelta(days=9), until=now - timedelta(days=2)) == {}
    with pytest.raises(Invalid):
        await report(priced, since=now, until=now - timedelta(days=2))


@pytest.mark.usefixtures("slow_loops")
async def test_a_report_until_midnight_ends_with_the_day_before(simulated):
    simulated.prices = PRICES
    midnight = (simulated.clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    await simulated.run(Script(seconds=2))
    survey_seldom(simulated)
    await simulated.sleep((midnight - simulated.clock.now()).total_seconds() + 1)
    await simulated.run(Script(seconds=3))
    await simulated.start()
    await simulated.sleep(20)

    row = (await report(simulated, until=midnight))["root"]

    assert row.amounts.total == 2


@pytest.mark.usefixtures("slow_loops")
async def test_each_day_has_its_part_of_the_cost_also_that_of_running_jobs(simulated):
    simulated.prices = PRICES
    midnight = (simulated.clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    await simulated.run(Script(seconds=2))
    survey_seldom(simulated)
    await simulated.sleep((midnight - simulated.clock.now()).total_seconds() - 5)
    await simulated.start()
    await simulated.sleep(20)

    found = await simulated.server.costs.by_day(CostGroup.QUEUE, days=3, caller=ADMIN)

    yesterday, today = found
    assert (yesterday.day, today.day) == ((midnight - timedelta(days=1)).date(), midnight.date())
    assert (yesterday.name, yesterday.currency) == ("default", PRICES.currency)
    assert yesterday.total < 2 + 5 + 1
    whole = (await report(simulated, CostGroup.QUEUE, since=midnight - timedelta(days=2)))["default"].amounts.total
    assert yesterday.total + today.total == whole
    assert (
        await simulated.server.costs.by_day(CostGroup.QUEUE, days=3, caller=Caller(user="eve", account="other")) == ()
    )


async def test_costs_of_another_user_are_not_found(priced):
    job = await priced.run(Script(seconds=2))
    eve = Caller(user="eve", account="other")

    with pytest.raises(NotFound):
        await cost(priced, job, caller=eve)
    assert await report(priced, caller=eve) == {}
