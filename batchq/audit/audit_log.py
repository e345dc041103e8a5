"""The audit log service: queries, ingestion of the journal, and retention. Decision 0024."""

import asyncio
import logging
from datetime import timedelta

from batchq.audit.journal import Journal
from batchq.domain.access.audit import AuditQuery, StoredAudit
from batchq.errors import Unavailable
from batchq.ports.audit import AuditStore
from batchq.ports.clock import Clock

log = logging.getLogger(__name__)

EVERY = 600.0  # seconds between two rounds
MOST = 500  # records deleted in one transaction: the writer is busy for a few milliseconds
PAUSE = 0.05  # seconds between two deletions, in which other writes are committed


class AuditLog:
    """The audit log of a server: the records in the database and those in the journal beside it."""

    def __init__(self, *, store: AuditStore, journal: Journal, clock: Clock, keep: timedelta | None) -> None:
        """`keep`: the retention of records; None: records are never deleted."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._keep = keep
        self._one_at_a_time = asyncio.Lock()

    async def acts(self, query: AuditQuery) -> tuple[StoredAudit, ...]:
        """The records that match `query`, those in the journal included. Raises Unavailable."""
        await self._take_over()
        return await self._store.acts(query)

    async def run(self) -> None:
        while True:
            try:
                await self.round()
            except Unavailable as failure:
                log.warning("audit records cannot be ingested or deleted at present: %s", failure)
            await self._clock.sleep(EVERY)

    async def round(self) -> None:
        await self._take_over()
        while self._keep is not None:
            if await self._store.prune_acts(self._clock.now() - self._keep, limit=MOST) < MOST:
                break
            await self._clock.sleep(PAUSE)

    async def _take_over(self) -> None:
        """Move the journal's records into the database.

        They are inserted before they are dropped from the journal. After a crash in between they are inserted again,
        which their `mark` makes a no-op.
        """
        async with self._one_at_a_time:
            noted, length = await asyncio.to_thread(self._journal.read)
            if length:
                await self._store.take_over(noted)
                await asyncio.to_thread(self._journal.drop, length)
