"""The page of costs: what the jobs of each queue cost on each day, and what is spent of the budgets."""

from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.pages import Page, PageTable
from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.budgets import BudgetScope
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
    #: The cost of the month with the lines of the budget; None: not a monthly budget of a queue.
    picture: Markup | None


@pages.get("/cost", Permission.SELF)
async def cost_page(parts: Parts, visit: Call[None]) -> Page:
    today = parts.clock.now().date()
    costs = await parts.costs.by_day(CostGroup.QUEUE, days=DAYS, caller=visit.caller)
    budgets = parts.budgets.list(caller=visit.caller) if visit.caller.has(Permission.ACCOUNTS) else ()
    values = {
        "pictures": cost_pictures(costs, today),
        "budgets": [BudgetRow(status=status, picture=budget_picture(status, costs, today)) for status in budgets],
        "days": DAYS,
        "rounded": rounded,
    }
    return Page(template="cost.html", title="Cost", values=values)


def cost_pictures(costs: Iterable[DayCost], today: date) -> list[CostPicture]:
    """A picture for each currency. A queue without prices has no cost, and is in no picture."""
    by_currency: dict[str, list[DayCost]] = {}
    for cost in costs:
        by_currency.setdefault(cost.currency, []).append(cost)
    return [_picture(currency, found, today) for currency, found in sorted(by_currency.items())]


def budget_picture(status: BudgetStatus, costs: Iterable[DayCost], today: date) -> Markup | None:
    """The cost of the present month until each day, with a line for each limit, for a monthly budget of a queue."""
    budget = status.budget
    if budget.key.scope is not BudgetScope.QUEUE or budget.period is not BudgetPeriod.MONTH:
        return None
    sums: dict[int, Decimal] = {}
    for cost in costs:
        if (cost.name, cost.currency) == (budget.key.name, budget.currency) and cost.day >= today.replace(day=1):
            sums[cost.day.day] = sums.get(cost.day.day, Decimal()) + cost.total
    length, total, points = monthrange(today.year, today.month)[1], Decimal(), list[tuple[float, float | None]]()
    for day in range(1, length + 1):
        total += sums.get(day, Decimal())
        points.append((day - 1, float(total) if day <= today.day else None))
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
        label=f"Cost of queue {budget.key.name} in this month, added up",
        series=[spent, *lines],
        x=(0, length),
        y=(0, float(high)),
        y_texts=(_amount(high, budget.currency), "0"),
        x_texts=(f"{today:%Y-%m}-01", f"{today:%Y-%m}-{length}"),
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
