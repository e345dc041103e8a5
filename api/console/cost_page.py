"""The page of costs: what the jobs of each queue cost on each day, and what is spent of the budgets."""

from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, timedelta
from decimal import Decimal

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.pages import Page, PageTable
from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.budgets import Budget, BudgetScope
from batchq.domain.cost import rounded
from batchq.domain.enums import BudgetPeriod, CostGroup
from batchq.engine.budgets import BudgetStatus
from batchq.services.costs import DayCost

DAYS = 31  # of the picture: at least the present month
MAX_QUEUES = 5  # with a colour of their own, those that cost most
OTHERS = "other queues"
HEADROOM = Decimal("1.05")  # of the axis above the highest value

pages = PageTable()


class CostPicture(Struct, frozen=True, kw_only=True):
    """The costs in one currency."""

    currency: str
    picture: Markup
    #: The name of each queue, its cost today and its cost on all days, the most expensive first.
    rows: Sequence[tuple[str, Decimal, Decimal]]


class BudgetRow(Struct, frozen=True, kw_only=True):
    """A budget with what is spent of it."""

    status: BudgetStatus
    picture: Markup


@pages.get("/cost", Permission.SELF)
async def cost_page(parts: Parts, visit: Call[None]) -> Page:
    today = parts.clock.now().date()
    costs = await parts.costs.by_day(CostGroup.QUEUE, days=DAYS, caller=visit.caller)
    budgets = await _budget_rows(parts, costs, today, visit.caller) if visit.caller.has(Permission.ACCOUNTS) else ()
    values = {
        "pictures": cost_pictures(costs, today),
        "budgets": budgets,
        "days": DAYS,
    }
    return Page(template="cost.html", title="Cost", values=values)


async def _budget_rows(parts: Parts, by_queue: Sequence[DayCost], today: date, caller: Caller) -> Sequence[BudgetRow]:
    statuses, by_account = parts.budgets.list(caller=caller), tuple[DayCost, ...]()
    if any(status.budget.key.scope is BudgetScope.ACCOUNT for status in statuses):
        by_account = await parts.costs.by_day(CostGroup.ACCOUNT, days=DAYS, caller=caller)
    rows = []
    for status in statuses:
        days = budget_days(status.budget, by_queue, by_account, parts.budgets.accounts_of(status.budget.key))
        rows.append(BudgetRow(status=status, picture=budget_picture(status, days, today)))
    return rows


def cost_pictures(costs: Iterable[DayCost], today: date) -> list[CostPicture]:
    """A picture for each currency. A queue without prices has no cost, and is in no picture."""
    by_currency: dict[str, list[DayCost]] = {}
    for cost in costs:
        by_currency.setdefault(cost.currency, []).append(cost)
    return [_picture(currency, found, today) for currency, found in sorted(by_currency.items())]


def budget_days(
    budget: Budget, by_queue: Iterable[DayCost], by_account: Iterable[DayCost], accounts: AbstractSet[str] | None
) -> dict[date, Decimal]:
    """What the jobs that the budget counts cost on each day. `accounts`: those of an account's budget; None: all."""
    is_of_queue = budget.key.scope is BudgetScope.QUEUE
    days: dict[date, Decimal] = {}
    for cost in by_queue if is_of_queue else by_account:
        counts = cost.name == budget.key.name if is_of_queue else accounts is None or cost.name in accounts
        if counts and cost.currency == budget.currency:
            days[cost.day] = days.get(cost.day, Decimal()) + cost.total
    return days


def budget_picture(status: BudgetStatus, costs: Mapping[date, Decimal], today: date) -> Markup:
    """What was spent until each day, with a line for each limit: in the present month, or in the last days.

    `costs`: of each day, from `budget_days`. What else was spent is counted before the first day: what older jobs cost,
    and jobs that the caller does not see.
    """
    budget, is_monthly = status.budget, status.budget.period is BudgetPeriod.MONTH
    length = monthrange(today.year, today.month)[1] if is_monthly else DAYS
    first = today.replace(day=1) if is_monthly else today - timedelta(days=DAYS - 1)
    days = [first + timedelta(days=number) for number in range(length)]
    total = max(status.spent - sum(costs.get(day, Decimal()) for day in days), Decimal())
    points = list[tuple[float, float | None]]()
    for at, day in enumerate(days):
        total += costs.get(day, Decimal())
        points.append((at, float(total) if day <= today else None))
    limits = {"soft limit": ("SOFT", budget.soft), "hard limit": ("HARD", budget.hard)}
    lines = [
        Series(
            name=f"{name}: {_amount(limit, budget.currency)}",
            colour=colour,
            mark=PlotMark.LINE,
            points=[(at, float(limit)) for at in range(length)],
        )
        for name, (colour, limit) in limits.items()
        if limit is not None
    ]
    spent = Series(name=f"spent: {_amount(total, budget.currency)}", colour="USED", mark=PlotMark.AREA, points=points)
    most = max(total, *(limit for _, limit in limits.values() if limit is not None))
    high = most * HEADROOM or Decimal(1)
    picture = Plot(
        label=f"Cost of {budget.key}, added up, {'in this month' if is_monthly else f'last {DAYS} days'}",
        series=[spent, *lines],
        x=(0, length),
        y=(0, float(high)),
        y_texts=(_amount(high, budget.currency), "0"),
        x_texts=(f"{days[0]}", f"{days[-1]}" if is_monthly else "today"),
    )
    return plot(picture)


def _picture(currency: str, costs: Sequence[DayCost], today: date) -> CostPicture:
    sums: dict[str, Decimal] = {}
    for cost in costs:
        sums[cost.name] = sums.get(cost.name, Decimal()) + cost.total
    names = sorted(sums, key=lambda name: (-sums[name], name))
    shown = {name: name if at < MAX_QUEUES else OTHERS for at, name in enumerate(names)}
    days = [today - timedelta(days=number) for number in reversed(range(DAYS))]
    by_name: dict[str, dict[date, Decimal]] = {shown[name]: {} for name in names}
    for cost in costs:
        of_day = by_name[shown[cost.name]]
        of_day[cost.day] = of_day.get(cost.day, Decimal()) + cost.total
    series = [
        Series(
            name=f"{name}: {_amount(sum(amounts.values(), Decimal()), currency)}",
            colour=f"QUEUE-{at}",
            mark=PlotMark.BARS,
            points=[(x, float(amounts.get(day, 0))) for x, day in enumerate(days)],
        )
        for at, (name, amounts) in enumerate(by_name.items(), start=1)
    ]
    most = max(sum((amounts.get(day, Decimal()) for amounts in by_name.values()), Decimal()) for day in days)
    high = most * HEADROOM or Decimal(1)
    picture = Plot(
        label=f"Cost by day and queue in {currency}, last {DAYS} days",
        series=series,
        x=(0, DAYS),
        y=(0, float(high)),
        y_texts=(_amount(high, currency), "0"),
        x_texts=(f"{days[0]}", f"{days[DAYS // 2]}", "today"),
        columns=_columns(by_name, days, currency),
    )
    on_today = {cost.name: cost.total for cost in costs if cost.day == today}
    rows = [(name, on_today.get(name, Decimal()), sums[name]) for name in names]
    return CostPicture(currency=currency, picture=plot(picture), rows=rows)


def _columns(by_name: Mapping[str, Mapping[date, Decimal]], days: Sequence[date], currency: str) -> list[PlotColumn]:
    """A hover text for each day with a cost."""
    columns = []
    for at, day in enumerate(days):
        known = [f"{name} {_amount(amounts[day], currency)}" for name, amounts in by_name.items() if day in amounts]
        if known:
            columns.append(PlotColumn(first=at, end=at + 1, text=f"{day}: {', '.join(known)}"))
    return columns


def _amount(amount: Decimal, currency: str) -> str:
    return f"{rounded(amount):,} {currency}"
