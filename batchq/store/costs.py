"""Spending and budgets in SQL. Each function runs inside one transaction.

Amounts are stored as integers, in billionths of the currency.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from sqlite3 import Connection

from msgspec.json import Decoder

from batchq.domain.access.accounts import AccountName
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.cost import Amounts, Spending
from batchq.domain.enums import CostGroup
from batchq.domain.ids import QueueName
from batchq.ports.costs import GroupSpending, SpendingKey, SpendingPage, SpendingQuery
from batchq.store import rows
from batchq.store.quarantine import skip_unreadable
from batchq.store.rows import json_texts
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("costs.sql")

MAX_EXAMINED = 40_000  # rows that one page reads, at most about 3 million steps of SQLite

_BILLION = 10**9
_EPOCH_DAY = date(1970, 1, 1).toordinal()
BUDGET = Decoder(Budget)
_COLUMNS = {
    CostGroup.ACCOUNT: "account",
    CostGroup.USER: "owner",
    CostGroup.QUEUE: "queue",
    CostGroup.DEFINITION: "definition",
}
_SPENDING_COLUMNS = ("account", "owner", "queue", "definition", "currency", "gpu", "compute")
_VISIBLE = "owner = :user OR account IN (SELECT value FROM json_each(:accounts))"


def add_spending(connection: Connection, spending: Sequence[Spending]) -> None:
    """Add the spending to that of the same days."""
    execute_each(connection, SQL["add_spending"], map(_spending_row, spending))


def write_budgets(connection: Connection, budgets: Sequence[tuple[BudgetKey, Budget | None]]) -> None:
    """Store or delete budgets."""
    for key, budget in budgets:
        row = {"scope": key.scope.value, "name": rows.text(key.name)}
        if budget is None:
            connection.execute(SQL["delete_budget"], row)
        else:
            connection.execute(SQL["put_budget"], row | {"value": rows.as_json(budget)})


def budgets(connection: Connection) -> tuple[Budget, ...]:
    """The budgets. An unreadable one is skipped: its limits are unknown."""
    return tuple(skip_unreadable(connection.execute(SQL["budgets"]), BUDGET.decode))


def totals(connection: Connection, since: date | None) -> Sequence[tuple[SpendingKey, Decimal]]:
    first = -_EPOCH_DAY if since is None else _day(since)
    return [
        (SpendingKey(AccountName(account), QueueName(queue), currency), _decimal(amount))
        for account, queue, currency, amount in connection.execute(SQL["spending_totals"], {"since": first})
    ]


def spending_page(connection: Connection, query: SpendingQuery) -> SpendingPage:
    parameters: dict[str, str | int] = {"first": _day(query.first), "last": _day(query.last), "limit": MAX_EXAMINED}
    beyond = connection.execute(SQL["spending_beyond"], parameters).fetchone()
    if beyond is not None:
        parameters["last"] = max(beyond[0] - 1, _day(query.first))
    condition = "TRUE"
    if query.visibility is not None:
        condition = _VISIBLE
        parameters |= {"user": rows.text(query.visibility.user), "accounts": json_texts(query.visibility.accounts)}
    statement = SQL["spending_by"].format(column=_COLUMNS[query.by], condition=condition)
    groups = tuple(
        GroupSpending(name=name, currency=currency, amounts=Amounts(gpu=_decimal(gpu), compute=_decimal(compute)))
        for name, currency, gpu, compute in connection.execute(statement, parameters)
    )
    is_cut = beyond is not None and beyond[0] == _day(query.first)
    read = date.fromordinal(int(parameters["last"]) + _EPOCH_DAY)
    following = None if read == query.last else read + timedelta(days=1)
    return SpendingPage(groups=groups, following=following, is_cut=is_cut)


def merge_days(connection: Connection, before: date, *, limit: int) -> int:
    """Add the oldest spending of a day before `before` to the first day of its month; at most `limit` rows.

    Returns the number of these rows; 0 when all spending before `before` is on the first day of a month.
    """
    bounds = {"after": -_EPOCH_DAY, "before": _day(before)}
    while (day := connection.execute(SQL["next_day_with_spending"], bounds).fetchone()[0]) is not None:
        month = _day(date.fromordinal(day + _EPOCH_DAY).replace(day=1))
        if day != month:
            return _merge_day(connection, day, month, limit)
        bounds["after"] = day
    return 0


def _merge_day(connection: Connection, day: int, month: int, limit: int) -> int:
    found = connection.execute(SQL["spending_of_day"], {"day": day, "limit": limit}).fetchall()
    moved: list[dict[str, str | int]] = [dict(zip(_SPENDING_COLUMNS, row, strict=True)) for row in found]
    execute_each(connection, SQL["add_spending"], [row | {"day": month} for row in moved])
    execute_each(connection, SQL["delete_spending"], [row | {"day": day} for row in moved])
    return len(moved)


def _spending_row(spending: Spending) -> Row:
    return {
        "day": _day(spending.day),
        "account": rows.text(spending.owner.account),
        "owner": rows.text(spending.owner.user),
        "queue": rows.text(spending.queue),
        "definition": rows.text(spending.definition),
        "currency": rows.text(spending.currency),
        "gpu": _billionths(spending.amounts.gpu),
        "compute": _billionths(spending.amounts.compute),
    }


def _day(day: date) -> int:
    return day.toordinal() - _EPOCH_DAY


def _billionths(amount: Decimal) -> int:
    return rows.integer(int((amount * _BILLION).to_integral_value()))


def _decimal(billionths: float) -> Decimal:
    return Decimal(round(billionths)) / _BILLION
