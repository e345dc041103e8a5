"""The port of the store for retention: the deletion of old finished jobs."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from batchq.domain.ids import JobId
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.ports.jobs import Finished, Pruned


class RetentionStore(Protocol):
    """Deletion of old rows. Each call is one small transaction, and raises StoreFailed if it cannot be committed."""

    async def prune(
        self, before: datetime, *, keep: Collection[JobId], after: Finished | None = None, limit: int
    ) -> Pruned:
        """Delete about `limit` jobs that ended before `before`, oldest first, beginning after `after`.

        All rows of a job are deleted with it, its log streams included. The children of an array are deleted with it,
        before its own row. Three kinds of jobs are never deleted: those in `keep`, dependencies of unfinished jobs,
        and the newest job of all.
        """

    async def deleted_log_ids(self, limit: int) -> tuple[str, ...]:
        """Log ids of deleted jobs whose files may still exist; each is listed until `mark_deleted`."""

    async def mark_deleted(self, log_ids: Sequence[str]) -> None:
        """Remove these log ids from the list: their files have been deleted."""

    async def prune_shares(self, before: datetime, *, after: ShareKey | None = None, limit: int) -> ShareKey | None:
        """Delete the usage of shares without active jobs that last changed before `before`.

        Examines `limit` shares after `after`. Returns where the next call continues; None at the end.
        """
