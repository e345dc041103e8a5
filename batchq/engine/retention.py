"""Finished jobs are forgotten when they have been over for a while, a few at a time between two units. Decision 0017.

First their rows go, and with them, in the same transaction, a note of their logs is made; then the files. So what is
shown is always whole, and what a crash leaves is found by the next round.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from batchq.domain.ids import JobId
from batchq.errors import StoreFailed
from batchq.ports.clock import Clock
from batchq.ports.jobs import Pruned
from batchq.ports.logs import RetentionArchive
from batchq.ports.retention import RetentionStore

log = logging.getLogger(__name__)

EVERY = 600.0  # seconds between two rounds
MOST = 50  # jobs, shares or logs at a time: some milliseconds of the writer
PAUSE = 0.05  # seconds that others have after that
OLD_SHARES = timedelta(days=70)  # ten of the longest decay windows: of use that old nothing is left to count


class Pruner:
    """`between` is held while a unit runs. `busy` are the jobs that the engine has containers of, None if not known.

    `retention` None: jobs are kept for ever.
    """

    def __init__(
        self,
        *,
        store: RetentionStore,
        archive: RetentionArchive,
        clock: Clock,
        retention: timedelta | None,
        between: asyncio.Lock,
        busy: Callable[[], frozenset[JobId] | None],
    ) -> None:
        self._store = store
        self._archive = archive
        self._clock = clock
        self._retention = retention
        self._between = between
        self._busy = busy

    async def run(self) -> None:
        while True:
            try:
                await self.round()
            except StoreFailed as failure:
                log.warning("finished jobs are not forgotten now: %s", failure)
            await self._clock.sleep(EVERY)

    async def round(self) -> None:
        """Forget all that is old enough. While the engine is away nothing is: its containers need their jobs."""
        await self._discard_logs()
        if self._retention is not None:
            await self._prune(self._retention)
        await self._prune_shares()

    async def _prune(self, retention: timedelta) -> None:
        gone = 0
        pruned = Pruned(jobs=0, after=None)
        while (busy := self._busy()) is not None:
            async with self._between:
                before = self._clock.now() - retention
                pruned = await self._store.prune(before, keep=busy, after=pruned.after, limit=MOST)
            gone += pruned.jobs
            await self._discard_logs()
            if pruned.after is None:
                break
            await self._clock.sleep(PAUSE)
        if gone:
            log.info("%d jobs that ended more than %s ago are forgotten", gone, retention)

    async def _discard_logs(self) -> None:
        while log_ids := await self._store.discarded(MOST):
            for log_id in log_ids:
                await self._archive.discard(log_id)
            await self._store.forget_discarded(log_ids)

    async def _prune_shares(self) -> None:
        before = self._clock.now() - OLD_SHARES
        after = await self._store.prune_shares(before, limit=MOST)
        while after is not None:
            await self._clock.sleep(PAUSE)
            after = await self._store.prune_shares(before, after=after, limit=MOST)
