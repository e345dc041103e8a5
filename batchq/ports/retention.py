"""The port by which finished jobs are deleted once their retention has passed."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from batchq.domain.ids import JobId
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.ports.jobs import Finished, Pruned


class RetentionStore(Protocol):
    """A JobStore that forgets. Each call is a small transaction of its own, and raises StoreFailed as a commit does."""

    async def prune(
        self, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
    ) -> Pruned:
        """Forget jobs that ended before then, from the first behind `after` on, oldest first, about `limit` of them.

        With a job goes all that is kept of it, its log streams too; an array goes with its children, which go before
        it. Those to `keep` stay, those that an unfinished job waits for, and the newest of all.
        """

    async def discarded(self, limit: int) -> tuple[str, ...]:
        """Logs of forgotten jobs, by log id, until each is told to be gone."""

    async def forget_discarded(self, log_ids: Sequence[str]) -> None:
        """They are gone."""

    async def prune_shares(self, before: datetime, *, after: ShareKey | None = None, limit: int) -> ShareKey | None:
        """Forget shares that hold nothing, and held nothing since; behind which to go on, None at the end."""
