"""The page of costs."""

import re
from datetime import date, timedelta
from decimal import Decimal

from batchq.api.console.cost_page import budget_days, budget_picture, cost_pictures
from batchq.compute.simulated.script import Script
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.enums import BudgetPeriod
from batchq.engine.budgets import BudgetStatus
from batchq.services.costs import DayCost
from tests.console.conftest import console_of

TODAY = date(2026, 11, 10)


def cost(days_ago, name, total, currency="EUR"):
    return DayCost(day=TODAY - timedelta(days=days_ago), name=name, currency=currency, total=Decimal(total))


def status(scope=BudgetScope.QUEUE, period=BudgetPeriod.MONTH):
    budget = Budget(key=BudgetKey(scope, "gpu"), currency="EUR", soft=Decimal(30), hard=Decimal(40), period=period)
    return BudgetStatus(budget=budget, spent=Decimal(20))


def test_each_day_is_a_bar_of_its_queues():
    (found,) = cost_pictures([cost(1, "gpu", 5), cost(0, "gpu", 30), cost(0, "cpu", 10)], TODAY)

    assert found.rows == [("gpu", Decimal(30), Decimal(35)), ("cpu", Decimal(10), Decimal(10))]
    gpu, cpu = re.findall(r'<path class="bars shape-QUEUE-\d" d="([^"]*)"', found.picture)
    assert "M971 100V28.6" in gpu  # 30 of an axis of 42
    assert "M971 28.6V4.8" in cpu
    assert "2026-11-10: gpu 30.00 EUR, cpu 10.00 EUR" in found.picture
    assert "2026-11-09: gpu 5.00 EUR<" in found.picture


def test_the_cheapest_queues_are_added_up_and_currencies_are_apart():
    costs = [cost(0, f"queue-{number}", 10 - number) for number in range(8)] + [cost(0, "us", 1, "USD")]

    euro, dollar = cost_pictures(costs, TODAY)

    assert "other queues: 12.00 EUR</li>" in euro.picture
    assert len(euro.rows) == 8
    assert (dollar.currency, [name for name, *_ in dollar.rows]) == ("USD", ["us"])
    assert cost_pictures([], TODAY) == []


def test_a_monthly_budget_is_a_line_over_the_cost_of_the_month():
    costs = [cost(20, "gpu", 99), cost(9, "gpu", 15), cost(0, "gpu", 5), cost(0, "cpu", 7), cost(0, "gpu", 2, "USD")]
    days = budget_days(status().budget, costs, (), None)

    picture = budget_picture(status(), days, TODAY)

    assert "spent: 20.00 EUR</li>" in picture
    (area,) = re.findall(r'class="area [^"]*" d="([^"]*)"', picture)
    assert area.startswith("M0 64.3V64.3H300V52.4H333.3L")  # 15 and 20 of an axis of 42, until today
    lines = re.findall(r'class="line shape-(\w+)" d="M0 ([\d.]+)', picture)
    assert lines == [("SOFT", "28.6"), ("HARD", "4.8")]


def test_a_budget_of_an_account_counts_the_accounts_below_it_and_what_was_spent_before():
    whole = status(scope=BudgetScope.ACCOUNT, period=BudgetPeriod.WHOLE)
    costs = [cost(30, "gpu", 1), cost(0, "below", 2), cost(0, "other", 9)]
    days = budget_days(whole.budget, (), costs, {"gpu", "below"})

    picture = budget_picture(whole, days, TODAY)

    assert days == {TODAY - timedelta(days=30): 1, TODAY: 2}
    assert budget_days(whole.budget, (), costs, None)[TODAY] == 11
    assert "spent: 20.00 EUR</li>" in picture
    (area,) = re.findall(r'class="area [^"]*" d="([^"]*)"', picture)
    assert area.startswith("M0 57.1V57.1H967.7V52.4H1000L")  # 18 until yesterday, of an axis of 42


async def test_the_page_has_the_cost_of_jobs_and_the_budgets(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\nvcpu_hour = 1000000.0\n')
    async with console_of(tmp_path / "data", prices=prices) as browser:
        assert "No job that you may see has cost anything" in (await browser.open("/ui/cost")).text
        await browser.call("batchq/setbudget", {"jobQueue": "default", "hard": 1e9, "period": "MONTH"})
        await browser.call("batchq/setbudget", {"account": "root", "hard": 9e8})
        await browser.run(script=Script(seconds=0.01), until="SUCCEEDED")
        page = await browser.open("/ui/cost")

    assert "Cost by day and queue in EUR" in page.text
    assert re.search(r"queue default, each month .* hard limit: 1,000,000,000.00 EUR", page.text)
    assert re.search(r"account root spent: .* hard limit: 900,000,000.00 EUR", page.text)
