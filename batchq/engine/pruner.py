"""The pruner: removes finished jobs after the retention period, a few at a time between two units of work.

The rows are deleted first; the same transaction records the log files to be deleted. The files follow. So no reader
sees a part of a job, and the next round continues after a crash: decision 0017. Spending is never removed, because
budgets may count all of it: old spending is stored by month instead of by day.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from batchq.domain.ids import JobId
from batchq.errors import StoreFailed
from batchq.ports.clock import Clock
from batchq.ports.jobs import Pruned, RetentionStore
from batchq.ports.logs import RetentionArchive

log = logging.getLogger(__name__)
PRUNE_INTERVAL = 600.0  # seconds between two rounds
BATCH_SIZE = 50  # jobs, shares or logs in a transaction: some milliseconds of the writer
BATCH_PAUSE = 0.05  # seconds between two transactions, for other writers
OLD_SPENDING = timedelta(days=400)  # spending of earlier days is added up by month
OLD_SHARES = timedelta(days=70)  # ten of the longest decay windows: older usage has decayed to nothing


class Pruner:
    """Removes finished jobs and decayed share usage, and adds up old spending."""

    def __init__(
        self,
        *,
        store: RetentionStore,
        archive: RetentionArchive,
        clock: Clock,
        retention: timedelta | None,
        unit_lock: asyncio.Lock,
        jobs_with_containers: Callable[[], frozenset[JobId] | None],
    ) -> None:
        self._store = store
        self._archive = archive
        self._clock = clock
        #: The time after the end of a job; None: jobs are never removed.
        self._retention = retention
        #: Held while a unit of work runs, and while jobs are removed.
        self._unit_lock = unit_lock
        #: The jobs that had containers in the last survey, which are not removed; None: not known.
        self._jobs_with_containers = jobs_with_containers
        #: Logs of removed jobs that could not be deleted in this round.
        self._kept_logs = set[str]()

    async def run(self) -> None:
        while True:
            try:
                await self.prune_once()
            except StoreFailed as failure:
                log.warning("finished jobs are not removed now: %s", failure)
            await self._clock.sleep(PRUNE_INTERVAL)

    async def prune_once(self) -> None:
        """Remove all jobs and share usage that are old enough, and add up old spending.

        No job is removed while the container engine is away: containers that still exist there need their jobs.
        """
        self._kept_logs.clear()
        await self._delete_logs()
        if self._retention is not None:
            await self._prune(self._retention)
        await self._prune_shares()
        await self._merge_spending()

    async def _prune(self, retention: timedelta) -> None:
        removed = 0
        pruned = Pruned(jobs=0, after=None)
        while (in_use := self._jobs_with_containers()) is not None:
            async with self._unit_lock:
                before = self._clock.now() - retention
                pruned = await self._store.prune(before, keep=in_use, after=pruned.after, limit=BATCH_SIZE)
            removed += pruned.jobs
            await self._delete_logs()
            if pruned.after is None:
                break
            await self._clock.sleep(BATCH_PAUSE)
        if removed:
            log.info("removed %d jobs that ended more than %s ago", removed, retention)

    async def _delete_logs(self) -> None:
        """Delete the files of the logs of removed jobs. A deletion that fails is repeated in the next round."""
        after = ""
        while log_ids := await self._store.deleted_log_ids(BATCH_SIZE, after=after):
            after = log_ids[-1]
            if deleted := [
                log_id for log_id in log_ids if log_id not in self._kept_logs and await self._discard(log_id)
            ]:
                await self._store.mark_deleted(deleted)

    async def _discard(self, log_id: str) -> bool:
        """Delete the file of a log. Returns False if that fails: the failure must not stop other deletions."""
        try:
            await self._archive.discard(log_id)
        except StoreFailed as failure:
            log.warning("a log of a removed job is not deleted now: %s", failure)
            self._kept_logs.add(log_id)
            return False
        return True

    async def _prune_shares(self) -> None:
        before = self._clock.now() - OLD_SHARES
        after = await self._store.prune_shares(before, limit=BATCH_SIZE)
        while after is not None:
            await self._clock.sleep(BATCH_PAUSE)
            after = await self._store.prune_shares(before, after=after, limit=BATCH_SIZE)

    async def _merge_spending(self) -> None:
        before = (self._clock.now() - OLD_SPENDING).date()
        while await self._store.merge_spending(before, limit=BATCH_SIZE):
            await self._clock.sleep(BATCH_PAUSE)
