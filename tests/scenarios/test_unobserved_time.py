"""Costs and budgets across the time in which a server does not run, or the container engine does not answer."""

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Account, Caller, User
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope, month_of, next_month
from batchq.domain.catalog import Network
from batchq.domain.enums import BudgetPeriod, Status
from batchq.domain.prices import Prices
from tests.support.builders import ADMIN
from tests.support.clock import SetClock
from tests.support.scripts import LASTING, Script

NETWORK = Network.BRIDGE
#: A job of 0.25 vCPUs costs 1 EUR a second.
PRICES = Prices(currency="EUR", vcpu_hour=Decimal(4 * 3600))
LAB = BudgetKey(BudgetScope.ACCOUNT, "lab")
SHORT = Script(seconds=1)
LIMIT = Decimal(8)
ABSENCE = 12.0  # seconds; a job that ran all the time would cost more than LIMIT


@pytest.fixture
async def lab(world):
    """Submits jobs with prices as Ada of the lab, whose budget has the hard limit LIMIT."""
    world.people = replace(
        world.people,
        users=world.people.users | {"ada": User(name="ada", account="lab")},
        accounts={"lab": Account(name="lab")},
    )
    world.prices = PRICES
    world.caller = Caller(user="ada", account="lab")
    await set_limit(world, LIMIT)
    return world


async def set_limit(world, hard, period=BudgetPeriod.WHOLE):
    await world.engine.set_budget(LAB, Budget(key=LAB, currency="EUR", hard=hard, period=period), caller=ADMIN)


def status(world):
    return next(other_status for other_status in world.engine.budget_statuses() if other_status.budget.key == LAB)


async def cost(world, job_id):
    return (await world.server.costs.of_job(job_id, caller=ADMIN)).total


async def surveyed(world):
    """Wait for the next survey that was handled."""
    handled = world.engine.loop.state.sightings.surveyed_at
    world.engine._watcher.survey_now()

    async def holds():
        return world.engine.loop.state.sightings.surveyed_at not in {None, handled}

    await world.until(holds, "no survey was handled")


async def ended(world, tag):
    """Wait until the container has ended, without the server."""

    async def holds():
        found = await world.machine.inspect(tag)
        return found is not None and found.exit_code is not None

    await world.until(holds, f"{tag} never ended")


async def tag_of(world, job_id):
    return (await world.wait_for(job_id, Status.RUNNING)).tag


async def no_limit_was_crossed(world, *jobs):
    """The jobs end as SUCCEEDED, and the budget has charged their containers' time only."""
    for job in jobs:
        await world.wait_for(job, Status.SUCCEEDED)
    await world.sleep(11)  # a check of the budgets
    assert status(world).budget.crossings == ()
    assert status(world).spent < LIMIT
    assert status(world).spent == sum([await cost(world, job) for job in jobs])


@pytest.mark.fault("BU07")
async def test_the_time_in_which_no_server_runs_is_not_charged(lab):
    job = await lab.submit(Script(seconds=2), millicpus=250)
    waits = await lab.submit(SHORT, after=[job])
    tag = await tag_of(lab, job)
    await lab.crash()
    await ended(lab, tag)
    await lab.sleep(ABSENCE)

    await lab.boot()

    await no_limit_was_crossed(lab, job, waits)


@pytest.mark.fault("BU07")
async def test_the_time_in_which_the_engine_is_away_is_not_charged(lab):
    job = await lab.submit(Script(seconds=2))
    waits = await lab.submit(SHORT, after=[job])
    tag = await tag_of(lab, job)
    lab.runtime.unreachable = True
    await lab.wait_for_engine(up=False)
    await ended(lab, tag)
    await lab.sleep(ABSENCE)
    assert await cost(lab, job) < LIMIT

    lab.runtime.unreachable = False

    await no_limit_was_crossed(lab, job, waits)


async def test_the_time_after_an_exit_that_no_event_reported_is_not_charged(lab):
    job = await lab.submit(Script(seconds=2))
    tag = await tag_of(lab, job)
    lab.runtime.hold("inspect")
    lab.runtime.hold("survey")
    await ended(lab, tag)
    await lab.sleep(ABSENCE)
    lab.runtime.release("survey")
    await surveyed(lab)
    assert await cost(lab, job) < LIMIT
    lab.runtime.release("inspect")

    await no_limit_was_crossed(lab, job)


async def test_a_container_that_vanished_while_no_server_ran_is_charged_to_the_last_survey(lab):
    job = await lab.start()
    tag = (await lab.job(job)).tag
    await lab.sleep(3)
    await surveyed(lab)
    await lab.crash()
    await lab.machine.remove(tag)
    await lab.sleep(ABSENCE)

    await lab.boot()

    await lab.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)
    assert await cost(lab, job) == status(lab).spent < LIMIT
    assert status(lab).spent >= 3 or not lab.virtual  # Docker is surveyed each second, and its first survey was stored
    assert status(lab).budget.crossings == ()


async def test_a_container_that_ended_before_the_last_survey_is_not_charged_to_the_survey_that_saw_others_run(lab):
    await set_limit(lab, Decimal(1000))
    lab.runtime.hold("survey")
    job, other = await lab.submit(Script(seconds=2)), await lab.start()
    tag = await tag_of(lab, job)
    lab.runtime.hold("inspect")
    await ended(lab, tag)
    await lab.sleep(ABSENCE)
    lab.runtime.release("survey")
    await surveyed(lab)
    await lab.crash()
    await lab.machine.remove(tag)
    lab.runtime.release("inspect")

    await lab.boot()

    await lab.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)
    assert await cost(lab, job) <= 2
    await lab.finish(other)


async def test_a_container_that_two_servers_could_not_inspect_is_charged_until_the_first_one_saw_it_run(simulated):
    lab = simulated
    lab.prices = PRICES
    job, other = await lab.submit(Script(seconds=30)), await lab.start()
    tag = await tag_of(lab, job)
    lab.runtime.hold("inspect")
    await ended(lab, tag)
    await lab.sleep(70)  # longer than the interval between two stored surveys
    await surveyed(lab)
    await lab.restart()
    await lab.sleep(70)
    await surveyed(lab)
    await lab.crash()
    await lab.machine.remove(tag)
    lab.runtime.release("inspect")
    await lab.boot()

    await lab.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)

    assert 20 <= await cost(lab, job) <= 30
    await lab.finish(other)


async def test_no_limit_is_applied_before_the_first_survey(lab):
    job = await lab.start()
    await lab.crash()
    lab.runtime.unreachable = True
    await lab.boot()

    await set_limit(lab, Decimal(0))
    await lab.sleep(ABSENCE)

    assert status(lab).budget.crossings == ()
    lab.runtime.unreachable = False
    await lab.wait_for(job, Status.FAILED, is_terminated=True)


async def test_a_limit_is_applied_after_a_survey_that_the_check_of_the_budgets_requests(simulated):
    lab = simulated
    lab.prices = PRICES
    lab.engine._watcher._survey_interval = 3600.0
    key = BudgetKey(BudgetScope.QUEUE, "default")
    await lab.engine.set_budget(key, Budget(key=key, currency="EUR", hard=Decimal(25)), caller=ADMIN)
    job = await lab.start()
    await lab.sleep(20)

    ended = await lab.wait_for(job, Status.FAILED, is_terminated=True)

    (crossing,) = lab.engine.budget_statuses()[0].crossings
    assert crossing.spent >= 25
    assert crossing.at - ended.started_at < timedelta(seconds=36)  # 25, a check of the budgets, and a survey


async def test_a_container_that_vanished_with_the_engine_away_is_charged_to_the_last_survey(lab):
    await set_limit(lab, Decimal(1000))
    job = await lab.start()
    tag = (await lab.job(job)).tag
    await lab.sleep(3)
    await surveyed(lab)
    seen = lab.engine.loop.state.sightings.surveyed_at
    lab.runtime.unreachable = True
    await lab.wait_for_engine(up=False)
    await lab.machine.remove(tag)
    await lab.sleep(ABSENCE)
    lab.runtime.unreachable = False

    lost = await lab.wait_for(job, Status.FAILED, status_reason=status_reasons.DISAPPEARED)

    until = lost.attempts[0].charged_until
    assert seen <= until < lost.stopped_at - timedelta(seconds=ABSENCE)
    charged = Decimal((until - lost.started_at) // timedelta(microseconds=1)) / 10**6
    assert await cost(lab, job) == status(lab).spent == charged


async def test_a_job_that_is_given_up_with_the_engine_away_is_charged_to_the_last_survey(lab):
    job = await lab.start()
    await surveyed(lab)
    await lab.terminate(job)
    lab.runtime.unreachable = True
    await lab.wait_for_engine(up=False)
    await lab.sleep(ABSENCE)
    lab.caller = ADMIN

    await lab.force_fail(job)

    assert await cost(lab, job) == status(lab).spent < LIMIT
    lab.runtime.unreachable = False


async def test_a_running_job_that_reaches_the_limit_in_a_downtime_is_terminated_at_once(lab):
    job = await lab.start()
    await lab.crash()
    await lab.sleep(ABSENCE)

    await lab.boot()

    await lab.wait_for(job, Status.FAILED, is_terminated=True)
    (crossing,) = status(lab).budget.crossings
    assert crossing.spent >= LIMIT


async def test_an_attempt_that_a_backup_believes_to_run_is_charged_to_the_last_survey_before_the_backup(simulated):
    lab = simulated
    lab.prices = PRICES
    job = await lab.start(attempts=2)
    tag = (await lab.job(job)).tag
    await surveyed(lab)
    backup = lab.backup()
    await lab.machine.remove(tag)
    await lab.sleep(ABSENCE)
    await lab.restore(backup)
    await lab.wait_for_engine(up=True)
    await lab.leave_safe_mode(purge=False)

    await lab.wait_until(job, lambda job: len(job.attempts) == 1)

    (lost,) = (await lab.job(job)).attempts
    assert lost.charged_until < lost.stopped_at - timedelta(seconds=ABSENCE)


async def test_a_vanished_container_is_charged_in_the_month_of_the_last_survey(simulated):
    lab = simulated
    lab.prices = PRICES
    key = BudgetKey(BudgetScope.QUEUE, "default")
    month = next_month(month_of(lab.clock.now()))
    await lab.restart_with_clock(SetClock(lab.clock, month - lab.clock.now() - timedelta(minutes=2)))
    budget = Budget(key=key, currency="EUR", hard=Decimal(1000), period=BudgetPeriod.MONTH)
    await lab.engine.set_budget(key, budget, caller=ADMIN)
    job = await lab.start(LASTING)
    tag = (await lab.job(job)).tag
    await lab.sleep(30)
    lab.runtime.unreachable = True
    await lab.sleep(150)
    await lab.machine.remove(tag)
    (found,) = lab.engine.budget_statuses()
    assert found.spent == 0  # the attempt counts up to the last survey, in the earlier month
    lab.runtime.unreachable = False
    await lab.wait_for(job, Status.FAILED)

    (found,) = lab.engine.budget_statuses()

    assert found.spent == 0
    assert 20 <= await cost(lab, job) <= 31
