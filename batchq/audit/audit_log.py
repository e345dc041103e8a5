"""Who did what: told from one place, and forgotten when it is old. Decision 0024."""

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
MOST = 500  # acts that are forgotten at a time: some milliseconds of the writer
PAUSE = 0.05  # seconds that others have after that


class AuditLog:
    """Over the database and the journal beside it. `keep` None: acts are kept for ever."""

    def __init__(self, *, store: AuditStore, journal: Journal, clock: Clock, keep: timedelta | None) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._keep = keep
        self._one_at_a_time = asyncio.Lock()

    async def acts(self, query: AuditQuery) -> tuple[StoredAudit, ...]:
        """What was noted beside the database until now is among them. Raises Unavailable."""
        await self._take_over()
        return await self._store.acts(query)

    async def run(self) -> None:
        while True:
            try:
                await self.round()
            except Unavailable as failure:
                log.warning("acts are not taken over, or forgotten, now: %s", failure)
            await self._clock.sleep(EVERY)

    async def round(self) -> None:
        await self._take_over()
        while self._keep is not None:
            if await self._store.prune_acts(self._clock.now() - self._keep, limit=MOST) < MOST:
                break
            await self._clock.sleep(PAUSE)

    async def _take_over(self) -> None:
        """Into the database first: a crash between the two leaves what is taken over again, and known by its mark."""
        async with self._one_at_a_time:
            noted, length = await asyncio.to_thread(self._journal.read)
            if length:
                await self._store.take_over(noted)
                await asyncio.to_thread(self._journal.drop, length)
