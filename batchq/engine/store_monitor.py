"""The store monitor: detects a lost store, without which no decision is possible, so that the server ends.

A job with a damaged record is loaded in a unit of work, which ends the job.
"""

import asyncio
import logging
from collections.abc import Callable

from batchq.engine.mailbox import TimerFired
from batchq.errors import StoreFailed, StoreLost
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

log = logging.getLogger(__name__)
CHECK_INTERVAL = 5.0  # seconds between checks


class StoreMonitor:
    """Checks the store at intervals."""

    def __init__(self, *, store: JobStore, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._store = store
        self._clock = clock
        self._post = post
        self._lost = asyncio.Event()
        self._why = ""

    async def run(self) -> None:
        while True:
            await self._check()
            await self._clock.sleep(CHECK_INTERVAL)

    async def lost(self) -> str:
        """Wait until the store is lost permanently; returns the reason."""
        await self._lost.wait()
        return self._why

    async def _check(self) -> None:
        """Check the store once.

        A failure other than StoreLost may be temporary, and the component that needs the store reports it.
        """
        try:
            await self._store.check()
            for job_id in await self._store.damaged():
                self._post(TimerFired(job_id=job_id))
        except StoreLost as gone:
            self._why = str(gone)
            self._lost.set()
        except StoreFailed as failure:
            log.debug("the store does not answer: %s", failure)
