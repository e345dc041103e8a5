"""The jobs of a queue that wait for a place: the port by which the scheduler reads them."""

from collections.abc import Mapping
from typing import Protocol

from batchq.domain.access.accounts import AccountName
from batchq.domain.ids import QueueName
from batchq.domain.job import Job
from batchq.domain.scheduling.capacity import Candidate

Rank = tuple[int, int]  # a priority, and an order

Names = frozenset[AccountName]

NONE: Names = frozenset()


class Lines(Protocol):
    """Those who stand in the queues. Every method raises StoreFailed, as a JobStore's do."""

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, beside: Names = NONE
    ) -> tuple[Candidate, ...]:
        """RUNNABLE jobs of a queue that are no misfits, in `order`, from the first above `after`.

        None of the accounts in `beside`, and at no cost of what waits there.
        """

    async def runnable_in_share(
        self, queue: QueueName, share: str, limit: int, after: Rank | None = None, *, beside: Names = NONE
    ) -> tuple[Candidate, ...]:
        """RUNNABLE jobs of one share of a queue that are no misfits, by priority (highest first), then `order`.

        From the first beyond `after`, a priority and an order; `beside` as above.
        """

    async def waiting_shares(self, queue: QueueName) -> tuple[str, ...]:
        """The shares of a queue that have RUNNABLE jobs that are no misfits."""


class WaitingStore(Lines, Protocol):
    """And those who do not."""

    async def misfits(self, limit: int, after: int = -1) -> tuple[Job, ...]:
        """RUNNABLE jobs that are misfits, in `order`, from the first above `after`."""

    async def queued(self) -> Mapping[AccountName, int]:
        """How many jobs of each account wait: `quotas.queued` of all of them. Accounts with none may be left out."""
