"""The port of the store for spending and budgets."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import NamedTuple, Protocol

from msgspec import Struct

from batchq.domain.access.accounts import AccountName, Visibility
from batchq.domain.budgets import Budget
from batchq.domain.cost import Amounts
from batchq.domain.enums import CostGroup
from batchq.domain.ids import QueueName


class SpendingKey(NamedTuple):
    """What budgets distinguish spending by."""

    account: AccountName
    queue: QueueName
    currency: str


class SpendingQuery(Struct, frozen=True, kw_only=True):
    """A query for the spending on some days."""

    by: CostGroup
    #: The first day, in UTC.
    first: date
    #: The last day, included.
    last: date
    #: Only jobs of these owners; None: of all owners.
    visibility: Visibility | None


class GroupSpending(Struct, frozen=True, kw_only=True):
    """The spending of one group."""

    #: The name of the account, user, queue or job definition.
    name: str
    currency: str
    amounts: Amounts


class SpendingPage(Struct, frozen=True, kw_only=True):
    """The result of a SpendingQuery: the spending on its first days."""

    groups: tuple[GroupSpending, ...]
    #: The first day that was not read; None: all days were read.
    following: date | None
    #: Whether one day has so many rows that some were not read.
    is_cut: bool


class CostStore(Protocol):
    """Reads of spending and budgets, which `JobStore.commit` writes. Every method may raise StoreFailed."""

    async def budgets(self) -> tuple[Budget, ...]:
        """All budgets."""

    async def spending_totals(self, since: date | None) -> Sequence[tuple[SpendingKey, Decimal]]:
        """What ended attempts cost from the day `since` on; None: on all days."""

    async def spending(self, query: SpendingQuery) -> SpendingPage:
        """What ended attempts cost on the first days of a query, by group. Reads a bounded number of rows."""
