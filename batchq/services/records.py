"""What a caller may read about the past: status changes of jobs in the order of their commits, and audit records."""

import asyncio
from collections.abc import Set as AbstractSet
from datetime import datetime

from msgspec.structs import replace

from batchq.audit import AuditLog
from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import AuditQuery, StoredAudit
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.domain.times import from_microseconds, microseconds
from batchq.engine.history_feed import HistoryFeed
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage
from batchq.services.jobs import JobService

WINDOW = 2000  # numbers that are read at once, backwards
MAX_WINDOWS = 5


class EventService:
    """Reads the history feed. Entries of jobs that are not visible to the caller are left out."""

    def __init__(self, feed: HistoryFeed) -> None:
        self._feed = feed

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._feed.last

    @property
    def closed(self) -> bool:
        """Whether the server shuts down: no reader waits."""
        return self._feed.closed

    async def page(self, after: int | None, wanted: FeedFilter, *, limit: int, wait: float, caller: Caller) -> FeedPage:
        """Entries above the number `after` (None: the newest number): at once if there are any, else within `wait` s.

        Raises StoreFailed.
        """
        start = self._feed.last if after is None else after
        visible = replace(wanted, visibility=caller.visibility)
        return await self._feed.page(start, visible, limit=limit, wait=wait, reader=caller.user)

    async def newest(
        self, wanted: FeedFilter, *, before: int | None, limit: int, caller: Caller
    ) -> tuple[tuple[FeedEntry, ...], int | None]:
        """The newest `limit` entries, newest first, and the number before which an older page begins; None: no more.

        `before`: only entries with a smaller number. At most MAX_WINDOWS * WINDOW numbers are examined, so a page may
        have fewer entries although older ones match. Raises StoreFailed.
        """
        visible = replace(wanted, visibility=caller.visibility)
        end = self._feed.last + 1 if before is None else min(before, self._feed.last + 1)
        found: list[FeedEntry] = []
        for _ in range(MAX_WINDOWS):
            start = max(0, end - 1 - WINDOW)
            page = await self._feed.page(start, visible, limit=WINDOW, wait=0, reader=caller.user)
            inside = [entry for entry in page.entries if entry.number < end]
            found += reversed(inside)
            if len(found) >= limit:
                return tuple(found[:limit]), found[limit - 1].number
            if start == 0 or (page.gap and not inside):  # older entries were deleted with their jobs
                return tuple(found), None
            end = start + 1
        return tuple(found), end

    async def wait_for(
        self, job_id: JobId, statuses: AbstractSet[Status], *, after: int, seconds: float, caller: Caller
    ) -> None:
        """Wait until the job has entered one of the statuses since the entry `after`; at most `seconds`.

        Also returns when entries are missing, and when the server shuts down. Raises StoreFailed.
        """
        wanted = FeedFilter(jobs=frozenset({job_id}), statuses=frozenset(statuses), visibility=caller.visibility)
        deadline = asyncio.get_running_loop().time() + seconds
        await self._feed.next_change(after, wanted, deadline=deadline, reader=caller.user)


class AuditRecordService:
    """Reads the audit log.

    Operators and admins see all records, coordinators those of their accounts, and users those of their own requests.
    Every caller also sees the records about jobs that are visible to the caller.
    """

    def __init__(self, *, audit: AuditLog, jobs: JobService) -> None:
        self._audit = audit
        self._jobs = jobs

    async def records(self, query: AuditQuery, *, job: JobId | None, caller: Caller) -> tuple[StoredAudit, ...]:
        """The next records that match, and that the caller may see: `query.visibility` is not used. Raises Unavailable.

        `job`: only records about this job.
        """
        if job is None:
            return await self._audit.records(replace(query, visibility=caller.visibility))
        is_visible = bool(await self._jobs.describe([job], caller=caller))
        visibility = None if is_visible else caller.visibility
        return await self._audit.records(replace(query, resource=f"job/{job}", visibility=visibility))


def audit_position(audit_record: StoredAudit) -> str:
    """The position of the page after this record, as text for a page token."""
    return f"{microseconds(audit_record.record.at)} {audit_record.number}"


def parse_audit_position(position: str) -> tuple[datetime, int]:
    """The time and the number of a position that `audit_position` returned."""
    at, number = map(int, position.split())
    return from_microseconds(at), number
