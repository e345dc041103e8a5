"""The port of the store for the overview."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from msgspec import Struct

from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.ids import DefinitionRef, QueueName


class WaitingQuery(NamedTuple):
    """Which RUNNABLE jobs of a queue to consider: those of a user, of an account, or all."""

    queue: QueueName
    user: UserName | None = None
    account: AccountName | None = None


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs of one job definition with the same reason."""

    definition: DefinitionRef
    #: The container's reason, the exit code in words, or the status reason.
    reason: str
    count: int


class Failures(Struct, frozen=True, kw_only=True):
    """The failed jobs of a period. An array counts once, and its children do not count."""

    count: int
    #: Whether there are more than were counted.
    more: bool
    #: The largest first.
    groups: tuple[FailureGroup, ...]


class OverviewStore(Protocol):
    """Bounded reads for the overview. Every method may raise StoreFailed."""

    async def failures(self, since: datetime, *, visibility: Visibility | None) -> Failures:
        """The jobs that have failed since, the last ones first, as far as they can be read in bounded time."""

    async def oldest_visible_runnable(self, queries: Collection[WaitingQuery]) -> Mapping[QueueName, datetime]:
        """Since when the first RUNNABLE job of each queue has been RUNNABLE, of the jobs that any query considers.

        The first in the order of submission; queues without one are omitted. A query for a user does not consider
        children of arrays.
        """
