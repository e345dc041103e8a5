"""Budgets of accounts and queues: the soft limit cancels, the hard limit terminates, and nothing more starts."""

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Caller, User
from batchq.domain.access.audit import AuditQuery
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope, month_of, next_month
from batchq.domain.catalog import Network
from batchq.domain.cost import rounded
from batchq.domain.enums import BudgetLimit, BudgetPeriod, Status
from batchq.domain.ids import QueueName
from batchq.domain.prices import Prices
from batchq.errors import Invalid
from tests.support.builders import ADMIN
from tests.support.clock import SetClock
from tests.support.scripts import LASTING, Script

NETWORK = Network.BRIDGE  # which each account may have, and the host's not
#: A job of 0.25 vCPUs costs 1 EUR a second.
PRICES = Prices(currency="EUR", vcpu_hour=Decimal(4 * 3600))
LAB = BudgetKey(BudgetScope.ACCOUNT, "lab")
DEFAULT = BudgetKey(BudgetScope.QUEUE, "default")
NO_MONEY = Decimal(0)
MUCH = Decimal(10**6)
SOFT = "The soft limit of the budget of account lab is reached: 0.00 EUR"
HARD = "The hard limit of the budget of account lab is reached: 0.00 EUR"
REFUSED = "The budget of account lab is used up: no job is accepted until an administrator raises it."


@pytest.fixture
async def lab(world):
    """Submits jobs with prices as Ada of the lab, with half of the machine for each job."""
    world.people = replace(
        world.people,
        users=world.people.users
        | {name: User(name=name, account=of) for name, of in (("ada", "lab"), ("bob", "other"))},
        accounts={"lab": Account(name="lab"), "other": Account(name="other")},
    )
    world.prices = PRICES
    world.caller = Caller(user="ada", account="lab")
    return world


async def set_budget(world, key=LAB, **limits):
    await world.engine.set_budget(key, Budget(key=key, currency="EUR", **limits), caller=ADMIN)


def status(world, key=LAB):
    return next(other_status for other_status in world.engine.budget_statuses() if other_status.budget.key == key)


async def crossed(world):
    """Wait until a limit is crossed."""
    for _ in range(300):
        if status(world).budget.crossings:
            return
        await world.sleep(0.1)
    raise AssertionError(status(world))


async def acts(world, operation):
    return [record.record for record in await world.store.audit_records(AuditQuery(operation=operation, limit=100))]


async def running_and_waiting(world):
    """A running job, and a job that depends on it."""
    first = await world.start(attempts=3)
    return first, await world.submit(LASTING, after=[first])


async def test_the_soft_limit_cancels_waiting_jobs_and_lets_running_jobs_end(lab):
    runs, waits = await running_and_waiting(lab)

    await set_budget(lab, soft=NO_MONEY, hard=MUCH)

    await lab.wait_for(waits, Status.FAILED, status_reason=SOFT, is_cancelled=True)
    assert (await lab.job(runs)).status is Status.RUNNING
    await lab.finish(runs, Status.SUCCEEDED)


async def test_the_hard_limit_terminates_all_jobs(lab):
    runs, waits = await running_and_waiting(lab)

    await set_budget(lab, hard=NO_MONEY)

    await lab.wait_for(waits, Status.FAILED, status_reason=HARD, is_terminated=True)
    done = await lab.wait_for(runs, Status.FAILED, status_reason=HARD, is_terminated=True)
    assert len(done.attempts) == 1


async def test_spending_of_a_running_job_reaches_the_limit(lab):
    await set_budget(lab, soft=Decimal(1), hard=Decimal(3))
    runs = await lab.submit(LASTING)

    done = await lab.wait_for(runs, Status.FAILED, is_terminated=True)

    assert done.status_reason == "The hard limit of the budget of account lab is reached: 3.00 EUR"
    crossings = status(lab).budget.crossings
    assert {crossing.limit for crossing in crossings} == set(BudgetLimit)
    assert all(crossing.spent >= 1 for crossing in crossings)


async def test_an_exhausted_budget_refuses_new_jobs_of_its_account_only(lab):
    await set_budget(lab, soft=NO_MONEY)
    await crossed(lab)

    with pytest.raises(Invalid, match=REFUSED):
        await lab.submit(LASTING)

    lab.caller = Caller(user="bob", account="other")
    other = await lab.start()
    await lab.finish(other)


async def test_the_budget_of_a_queue_stops_the_jobs_of_all_accounts_there(lab):
    _runs, waits = await running_and_waiting(lab)

    await set_budget(lab, key=DEFAULT, soft=NO_MONEY)

    await lab.wait_for(waits, Status.FAILED, is_cancelled=True)
    with pytest.raises(Invalid, match="The budget of queue default is used up"):
        await lab.submit(LASTING)


async def test_a_crossing_is_stored_once_and_survives_kill_9(lab):
    runs, waits = await running_and_waiting(lab)
    await set_budget(lab, soft=NO_MONEY)
    await lab.wait_for(waits, Status.FAILED)

    await lab.restart()
    await lab.sleep(25)

    records = await acts(lab, "BudgetSoftLimit")
    assert sorted(record.resource for record in records) == sorted(
        ["budget/account/lab", f"job/{runs}", f"job/{waits}"]
    )
    with pytest.raises(Invalid, match=REFUSED):
        await lab.submit(LASTING)


@pytest.mark.fault("BU01")
async def test_jobs_are_stopped_after_a_kill_9_behind_the_crossing(lab):
    job = await lab.start()
    lab.runtime.hold("stop")
    await set_budget(lab, hard=NO_MONEY)
    await lab.wait_until(job, lambda job: job.stop is not None)

    await lab.restart()
    lab.runtime.release("stop")

    await lab.wait_for(job, Status.FAILED, status_reason=HARD, is_terminated=True)
    records = await acts(lab, "BudgetHardLimit")
    assert sorted(record.resource for record in records) == ["budget/account/lab", f"job/{job}"]


@pytest.mark.fault("BU02")
async def test_spending_survives_kill_9_and_is_counted_once(lab):
    job = await lab.start()
    await set_budget(lab, hard=MUCH)
    await lab.sleep(5)
    await lab.finish(job, Status.SUCCEEDED)
    await lab.wait_until_idle()
    before = status(lab).spent

    await lab.restart()

    assert before >= 4  # on Docker by the clock of the engine
    assert rounded(status(lab).spent) == rounded(before)


async def test_a_raised_budget_accepts_jobs_again(lab):
    await set_budget(lab, soft=NO_MONEY)
    await crossed(lab)

    await set_budget(lab, soft=MUCH)

    job = await lab.start()
    await lab.finish(job)


async def waits_below(world):
    """A job of an account that moves below the account of the budget while the job waits."""
    world.caller = Caller(user="bob", account="other", lineage=("other", "lab", "root"))
    first = await world.start(millicpus=4000)
    waits = await world.submit(LASTING, millicpus=4000)
    moved = {"other": Account(name="other", parent="lab")}
    world.people = replace(world.people, accounts=world.people.accounts | moved)
    await world.finish(first)
    await world.wait_for_why(waits, "BUDGET_EXHAUSTED")
    return waits


@pytest.mark.fault("BU06")
async def test_jobs_of_an_account_that_moves_below_an_exhausted_one_wait_with_a_reason(lab):
    await set_budget(lab, soft=NO_MONEY)
    await crossed(lab)

    waits = await waits_below(lab)

    why = await lab.wait_for_why(waits, "BUDGET_EXHAUSTED")
    assert why.sentence == (
        "The budget of account lab is used up: none of its jobs starts until an administrator raises it."
    )
    await lab.engine.set_budget(LAB, None, caller=ADMIN)
    await lab.wait_for(waits, Status.RUNNING)
    await lab.finish(waits)


async def test_jobs_that_wait_for_a_monthly_budget_start_when_the_month_begins(lab):
    if not lab.virtual:
        pytest.skip("a month cannot be waited for")
    december = next_month(month_of(lab.clock.now()))
    await lab.restart_with_clock(SetClock(lab.clock, december - lab.clock.now() - timedelta(minutes=2)))
    await set_budget(lab, soft=Decimal(1), period=BudgetPeriod.MONTH)
    await lab.run(Script(seconds=3))
    await crossed(lab)
    waits = await waits_below(lab)

    await lab.sleep((december - lab.clock.now()).total_seconds() - 1)
    assert (await lab.job(waits)).status is Status.RUNNABLE
    await lab.sleep(12)

    assert (await lab.job(waits)).status is Status.RUNNING
    await lab.finish(waits)


async def test_an_exhausted_budget_is_named_before_a_drained_queue(lab):
    await set_budget(lab, soft=NO_MONEY)
    await crossed(lab)
    waits = await waits_below(lab)

    await lab.catalog.drain_queue(QueueName("default"), drained=True, caller=ADMIN)

    assert (await lab.why(waits)).code == "BUDGET_EXHAUSTED"


async def test_spending_in_another_currency_does_not_count(lab):
    await set_budget(lab, hard=Decimal(1))
    lab.prices = replace(PRICES, currency="USD")
    ended = await lab.run(Script(seconds=2))
    runs = await lab.start()
    await lab.sleep(15)  # a survey, and a check of the budgets

    assert (await lab.server.costs.of_job(ended, caller=ADMIN)).total > 1
    assert (status(lab).spent, status(lab).budget.crossings) == (0, ())
    await lab.finish(runs, Status.SUCCEEDED)


async def test_a_reached_limit_stops_jobs_after_safe_mode_only(simulated):
    simulated.prices = PRICES
    job = await simulated.start()
    await simulated.engine.set_budget(DEFAULT, Budget(key=DEFAULT, currency="EUR", hard=Decimal(5)), caller=ADMIN)
    backup = simulated.backup()

    await simulated.restore(backup)
    await simulated.sleep(60)

    assert (await simulated.job(job)).status is Status.RUNNING
    assert status(simulated, DEFAULT).budget.crossings == ()
    await simulated.leave_safe_mode(purge=False)
    await simulated.wait_for(job, Status.FAILED, is_terminated=True)


async def test_a_month_ends_the_exhaustion(lab):
    if not lab.virtual:
        pytest.skip("a month cannot be waited for")
    december = next_month(month_of(lab.clock.now()))
    await lab.restart_with_clock(SetClock(lab.clock, december - lab.clock.now() - timedelta(minutes=2)))
    await set_budget(lab, soft=Decimal(2), period=BudgetPeriod.MONTH)
    job = await lab.submit(LASTING)
    await crossed(lab)
    with pytest.raises(Invalid, match=r"no job is accepted before 2026-12-01 \(UTC\)"):
        await lab.submit(LASTING)

    await lab.sleep((december - lab.clock.now()).total_seconds() + 1)
    assert status(lab).spent < 3  # only what the job has cost since midnight
    await lab.finish(job)
    await set_budget(lab, soft=Decimal(100), period=BudgetPeriod.MONTH)

    job = await lab.start()
    await lab.finish(job)


async def test_audit_records_name_the_budget_and_each_job(lab):
    runs, waits = await running_and_waiting(lab)
    await set_budget(lab, hard=NO_MONEY)
    await lab.wait_for(runs, Status.FAILED)

    records = await acts(lab, "BudgetHardLimit")

    assert {record.resource for record in records} == {"budget/account/lab", f"job/{runs}", f"job/{waits}"}
    assert {record.user for record in records} == {""}
