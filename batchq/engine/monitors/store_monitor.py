"""An eye on the store: whether there still is one, and whether records were found damaged.

Without a store nothing can be decided, and the server has to end. A job with a damaged record is looked at in a unit,
which finds out and decides.
"""

import asyncio
import logging
from collections.abc import Callable

from batchq.engine.messages import TimerFired
from batchq.errors import StoreFailed, StoreLost
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0  # seconds


class StoreMonitor:
    def __init__(self, *, store: JobStore, clock: Clock, post: Callable[[TimerFired], None]) -> None:
        self._store = store
        self._clock = clock
        self._post = post
        self._lost = asyncio.Event()
        self._why = ""

    async def run(self) -> None:
        while True:
            await self._look()
            await self._clock.sleep(LOOK_EVERY)

    async def lost(self) -> str:
        """Wait until the store is gone for good; why it is."""
        await self._lost.wait()
        return self._why

    async def _look(self) -> None:
        """What fails now may work the next time; that is told by whoever needs it."""
        try:
            await self._store.check()
            for job_id in await self._store.damaged():
                self._post(TimerFired(job_id=job_id))
        except StoreLost as gone:
            self._why = str(gone)
            self._lost.set()
        except StoreFailed as failure:
            log.debug("the store does not answer: %s", failure)
