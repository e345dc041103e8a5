"""Audit records as a caller may see them: pages of them, newest first. Decision 0024."""

from datetime import datetime

from msgspec.structs import replace

from batchq.audit import AuditLog
from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import AuditQuery, StoredAudit
from batchq.domain.ids import JobId
from batchq.domain.times import from_microseconds, microseconds
from batchq.services.jobs import JobService


class AuditRecordService:
    """Reads the audit log.

    Operators and admins see all records, coordinators those of their accounts, and users those of their own requests.
    Every caller also sees the records about jobs that are visible to the caller.
    """

    def __init__(self, *, audit: AuditLog, jobs: JobService) -> None:
        self._audit = audit
        self._jobs = jobs

    async def records(self, query: AuditQuery, *, job: JobId | None, caller: Caller) -> tuple[StoredAudit, ...]:
        """The next records that match; `visibility` of the query is that of the caller. Raises Unavailable.

        `job`: only records about this job.
        """
        if job is None:
            return await self._audit.records(replace(query, visibility=caller.visibility))
        is_visible = bool(await self._jobs.describe([job], caller=caller))
        visibility = None if is_visible else caller.visibility
        return await self._audit.records(replace(query, resource=f"job/{job}", visibility=visibility))


def audit_position(it: StoredAudit) -> str:
    """The position of the page after this record, as text for a page token."""
    return f"{microseconds(it.record.at)} {it.number}"


def parse_audit_position(position: str) -> tuple[datetime, int]:
    """The time and the number of a position that `audit_position` returned."""
    at, number = map(int, position.split())
    return from_microseconds(at), number
