"""Budgets: list, set and remove them. The engine enforces them."""

from collections.abc import Callable, Collection
from decimal import Decimal

from batchq.domain.access.accounts import AccountName, Caller, Directory
from batchq.domain.access.permissions import may_see_account
from batchq.domain.budgets import Budget, BudgetKey, BudgetPeriod, BudgetScope, check_limits
from batchq.domain.ids import QueueName
from batchq.domain.prices import Prices
from batchq.engine.budgets import BudgetStatus
from batchq.engine.engine import Engine
from batchq.errors import Invalid, NotFound


class BudgetService:
    """Requests about budgets. `api` checks that only operators and admins set and remove them."""

    def __init__(
        self,
        *,
        engine: Engine,
        directory: Callable[[], Directory],
        queues: Callable[[Caller], Collection[QueueName]],
        prices: Prices | None,
    ) -> None:
        self._engine = engine
        self._directory = directory
        self._queues = queues
        #: Of new jobs; None: costs are not known, and no budget can be set.
        self._prices = prices

    def list(self, *, caller: Caller) -> tuple[BudgetStatus, ...]:
        """The budgets by scope and name: all for operators and admins, those of their accounts for coordinators."""
        return tuple(it for it in self._engine.budget_statuses() if _is_visible(it.budget.key, caller))

    async def set(
        self,
        key: BudgetKey,
        *,
        soft: Decimal | None,
        hard: Decimal | None,
        period: BudgetPeriod,
        caller: Caller,
    ) -> BudgetStatus:
        """Set the budget of an account or a queue, in the currency of the server's prices.

        Limits that are reached already apply at once. Raises NotFound for an unknown account or queue; Invalid;
        StoreFailed.
        """
        if self._prices is None:
            raise Invalid("The server has no prices: start it with --prices.")
        check_limits(soft, hard)
        self._require_existing(key, caller)
        budget = Budget(
            key=key, currency=self._prices.currency, soft=soft, hard=hard, period=period, set_by=caller.user
        )
        await self._engine.set_budget(key, budget, caller=caller)
        found = (it for it in self._engine.budget_statuses() if it.budget.key == key)
        return next(found, BudgetStatus(budget=budget, spent=Decimal(0)))

    async def remove(self, key: BudgetKey, *, caller: Caller) -> None:
        """Remove a budget; jobs that waited for it start. Raises NotFound; StoreFailed."""
        await self._engine.set_budget(key, None, caller=caller)

    def _require_existing(self, key: BudgetKey, caller: Caller) -> None:
        if key.scope is BudgetScope.ACCOUNT and self._directory().account(AccountName(key.name)) is None:
            raise NotFound(f"Account {key.name} not found.")
        if key.scope is BudgetScope.QUEUE and key.name not in self._queues(caller):
            raise NotFound(f"JobQueue {key.name} not found.")


def _is_visible(key: BudgetKey, caller: Caller) -> bool:
    if key.scope is BudgetScope.QUEUE:
        return caller.reaches_all
    return may_see_account(caller, AccountName(key.name))
