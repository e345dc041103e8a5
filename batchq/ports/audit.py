"""The port of the store for audit records."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from batchq.domain.access.audit import AuditQuery, PendingAudit, StoredAudit


class AuditStore(Protocol):
    """Each call is a transaction of its own, and raises StoreFailed as a commit does."""

    async def acts(self, query: AuditQuery) -> tuple[StoredAudit, ...]: ...

    async def take_over(self, noted: Sequence[PendingAudit]) -> None:
        """Keep them, each once, however often it is brought."""

    async def prune_acts(self, before: datetime, *, limit: int) -> int:
        """Forget acts older than that, the oldest first; how many they were, `limit` at most."""
