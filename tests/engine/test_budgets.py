"""The sums of spending in memory."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from batchq.domain.access.accounts import Owner
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.cost import Amounts, Spending
from batchq.domain.enums import BudgetPeriod
from batchq.domain.ids import QueueName
from batchq.engine.budgets import Budgets
from batchq.engine.sightings import Sightings
from tests.engine.harness import new_unit
from tests.support.builders import NO_ACCOUNTS
from tests.support.inline import InlineStore

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY = BudgetKey(BudgetScope.QUEUE, "default")
ONE_EURO = Spending(
    day=DECEMBER.date(),
    owner=Owner(user="ada", account="lab"),
    queue=QueueName("default"),
    definition="train",
    currency="EUR",
    amounts=Amounts(gpu=Decimal(1)),
)


async def test_a_unit_of_work_of_the_month_before_keeps_the_spending_of_the_present_month():
    """A unit of work has the time of its beginning, and the spending of an attempt the time of the engine's clock."""
    budgets = Budgets(InlineStore(), NO_ACCOUNTS, Sightings())
    await budgets.load(DECEMBER - SECOND)
    setting, ending = new_unit(now=DECEMBER - SECOND), new_unit(now=DECEMBER - SECOND)
    setting.budgets.put(KEY, Budget(key=KEY, currency="EUR", hard=Decimal(9), period=BudgetPeriod.MONTH))
    budgets.on_committed(setting.committed(None))
    assert budgets.statuses((), DECEMBER + SECOND)[0].spent == 0

    ending.budgets.charge([ONE_EURO])
    budgets.on_committed(ending.committed(None))

    assert budgets.statuses((), DECEMBER + 2 * SECOND)[0].spent == 1
