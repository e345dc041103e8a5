"""Budgets of accounts and queues: limits of cost, and what crossing them does. Pure. Decision 0047.

At the soft limit all jobs of the account or queue are cancelled: those that wait end, those that run are not retried.
At the hard limit all jobs are terminated. After either no job is accepted and none starts, until the period ends or the
budget is changed. A crossing is stored in the commit that stores its stop order, so it happens once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName, UserName
from batchq.domain.cost import rounded
from batchq.domain.enums import BudgetLimit, BudgetPeriod, StopKind
from batchq.domain.ids import QueueName
from batchq.domain.job_selection import JobSelection
from batchq.errors import Invalid

MAX_AMOUNT = Decimal(10**9)


class BudgetScope(StrEnum):
    """What a budget limits: the jobs of an account and of all accounts below it, or the jobs of a queue."""

    ACCOUNT = "ACCOUNT"
    QUEUE = "QUEUE"


class BudgetKey(Struct, frozen=True, order=True):
    """What identifies a budget: there is at most one for each account and each queue."""

    scope: BudgetScope
    #: The name of the account or queue.
    name: str

    def __str__(self) -> str:
        return f"{self.scope.lower()} {self.name}"


class Crossing(Struct, frozen=True, kw_only=True):
    """A limit that was reached."""

    limit: BudgetLimit
    at: datetime
    #: What was spent in the period at that time, not rounded.
    spent: Decimal
    #: The beginning of the period in which it holds; None: for ever.
    period: datetime | None


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The budget of an account or a queue."""

    key: BudgetKey
    #: The currency of the limits. Jobs with prices in other currencies do not count.
    currency: str
    #: At this cost waiting jobs are cancelled and nothing more starts; None: no such limit.
    soft: Decimal | None = None
    #: At this cost all jobs are terminated; None: no such limit.
    hard: Decimal | None = None
    period: BudgetPeriod = BudgetPeriod.WHOLE
    #: Who set it last.
    set_by: UserName = UserName("")
    #: The limits that were reached, oldest first; those of earlier months too, until the next crossing.
    crossings: tuple[Crossing, ...] = ()

    def amount(self, limit: BudgetLimit) -> Decimal | None:
        """The amount of a limit; None without one."""
        return self.soft if limit is BudgetLimit.SOFT else self.hard


class ExhaustedBudget(Struct, frozen=True, kw_only=True):
    """A budget that lets no job start."""

    key: BudgetKey
    #: The accounts that it covers, deleted ones excepted; None: all. Of a queue's budget: None.
    accounts: frozenset[AccountName] | None
    #: When the first crossing of the period was.
    since: datetime
    #: When its period ends; None: never.
    until: datetime | None

    def covers(self, account: AccountName, queue: QueueName) -> bool:
        """Whether jobs of this account in this queue may not start."""
        if self.key.scope is BudgetScope.QUEUE:
            return queue == self.key.name
        return self.accounts is None or account in self.accounts


def check_limits(soft: Decimal | None, hard: Decimal | None) -> None:
    """Raises Invalid unless one of the limits is set, both are valid, and the soft one is below the hard one."""
    if soft is None and hard is None:
        raise Invalid("A budget needs a soft limit, a hard limit or both.")
    for amount in (soft, hard):
        if amount is not None and not (amount.is_finite() and 0 <= amount <= MAX_AMOUNT):
            raise Invalid(f"A limit of a budget must be an amount from 0 to {MAX_AMOUNT}.")
    if soft is not None and hard is not None and soft > hard:
        raise Invalid("The soft limit of a budget must not be above its hard limit.")


def month_of(at: datetime) -> datetime:
    """The beginning of the calendar month in UTC."""
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    """The beginning of the month after that which begins at `month`."""
    return month_of(month + timedelta(days=31))


def period_start(budget: Budget, now: datetime) -> datetime | None:
    """The beginning of the present period; None: the budget is not for a period."""
    return month_of(now) if budget.period is BudgetPeriod.MONTH else None


def period_end(budget: Budget, now: datetime) -> datetime | None:
    """The end of the present period; None: the budget is not for a period."""
    start = period_start(budget, now)
    return None if start is None else next_month(start)


def present_crossings(budget: Budget, now: datetime) -> tuple[Crossing, ...]:
    """The crossings of the present period, oldest first."""
    start = period_start(budget, now)
    return tuple(crossing for crossing in budget.crossings if crossing.period == start)


def reached(budget: Budget, spent: Decimal, now: datetime) -> tuple[BudgetLimit, ...]:
    """The limits that `spent` reaches and whose crossing in the present period is not stored, the lower one first."""
    stored = {crossing.limit for crossing in present_crossings(budget, now)}
    open_limits = ((limit, budget.amount(limit)) for limit in BudgetLimit if limit not in stored)
    return tuple(limit for limit, amount in open_limits if amount is not None and spent >= amount)


def crossed(budget: Budget, limits: tuple[BudgetLimit, ...], spent: Decimal, now: datetime) -> Budget:
    """The budget with the crossings of these limits. Crossings of earlier periods are dropped."""
    start = period_start(budget, now)
    new = (Crossing(limit=limit, at=now, spent=spent, period=start) for limit in limits)
    return replace(budget, crossings=(*present_crossings(budget, now), *new))


def changed_budget(before: Budget | None, after: Budget) -> Budget:
    """The budget `after`, with the crossings of `before` for limits that have not changed. `before` None: it is new."""
    if before is None or (before.period, before.currency) != (after.period, after.currency):
        return after
    kept = tuple(
        crossing for crossing in before.crossings if before.amount(crossing.limit) == after.amount(crossing.limit)
    )
    return replace(after, crossings=kept)


def jobs_of_budget(key: BudgetKey, covered: frozenset[AccountName] | None) -> JobSelection:
    """The jobs of a budget. `covered`: as `ExhaustedBudget.accounts`."""
    if key.scope is BudgetScope.QUEUE:
        return JobSelection(queues=frozenset({key.name}))
    return JobSelection(accounts=None if covered is None else frozenset(covered))


def stop_kind(limits: tuple[BudgetLimit, ...]) -> StopKind:
    """The order that jobs receive when these limits are reached."""
    return StopKind.TERMINATE if BudgetLimit.HARD in limits else StopKind.CANCEL


def stop_reason(budget: Budget, limits: tuple[BudgetLimit, ...]) -> str:
    """The reason of the order."""
    limit = limits[-1]
    amount = budget.amount(limit)
    assert amount is not None, f"{budget.key} has no {limit} limit"
    return f"The {limit.lower()} limit of the budget of {budget.key} is reached: {rounded(amount)} {budget.currency}"


def budget_refusal(exhausted: ExhaustedBudget) -> str:
    """Why a new job is refused."""
    until = "until" if exhausted.until is None else f"before {exhausted.until:%Y-%m-%d} (UTC), unless"
    return f"The budget of {exhausted.key} is used up: no job is accepted {until} an administrator raises it."


def covered_by(key: BudgetKey, below: frozenset[AccountName]) -> frozenset[AccountName] | None:
    """The value of `ExhaustedBudget.accounts`. `below`: the account of the budget with the accounts below it."""
    return None if key.scope is BudgetScope.QUEUE or key.name == ROOT else below


def exhausted_budgets(
    budgets: Iterable[tuple[Budget, frozenset[AccountName]]], now: datetime
) -> tuple[ExhaustedBudget, ...]:
    """The budgets that let no job start. Each comes with its account and the accounts below it."""
    return tuple(
        ExhaustedBudget(
            key=budget.key, accounts=covered_by(budget.key, below), since=found[0].at, until=period_end(budget, now)
        )
        for budget, below in budgets
        if (found := present_crossings(budget, now))
    )
