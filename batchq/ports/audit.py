"""The port of the store for audit records."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from batchq.domain.access.audit import AuditQuery, PendingAudit, StoredAudit


class AuditStore(Protocol):
    """Stored audit records. Each call is one transaction, and raises StoreFailed if it cannot be committed."""

    async def audit_records(self, query: AuditQuery) -> tuple[StoredAudit, ...]: ...

    async def ingest_audit_records(self, noted: Sequence[PendingAudit]) -> None:
        """Insert records of the journal. A record whose `mark` is stored already is skipped."""

    async def prune_audit_records(self, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` records from before `before`, oldest first. Returns how many were deleted."""
