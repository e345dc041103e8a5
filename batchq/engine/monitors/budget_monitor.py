"""The budget monitor: finds budgets whose limits are reached, and budgets that let jobs start again.

A check costs as much as the active jobs and budgets are many; without a budget it costs nothing.
"""

import asyncio
import logging
from collections.abc import Callable

from batchq.domain.budgets import ExhaustedBudget, job_filter
from batchq.engine.loop import EngineLoop
from batchq.engine.messages import BudgetReached, CatalogChanged
from batchq.engine.supervisor import wait_at_most
from batchq.errors import StoreFailed
from batchq.ports.clock import Clock

log = logging.getLogger(__name__)

CHECK_INTERVAL = 10.0  # seconds between checks


class BudgetMonitor:
    """Checks the budgets at intervals, and after each change of a budget."""

    def __init__(
        self, *, loop: EngineLoop, clock: Clock, post: Callable[[BudgetReached | CatalogChanged], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._post = post
        self._changed = asyncio.Event()
        self._exhausted: tuple[ExhaustedBudget, ...] = ()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            await self.check()
            await wait_at_most(CHECK_INTERVAL, self._changed, self._clock)

    def check_soon(self) -> None:
        """Check at once: a budget has changed."""
        self._changed.set()

    async def check(self) -> None:
        """Order the stop of the jobs of each budget with a limit that is reached.

        Not in safe mode: it is not known which jobs have run since the backup.
        """
        budgets, state = self._loop.budgets, self._loop.state
        if state.safe_mode.active:
            return
        now = self._clock.now()
        exhausted = budgets.exhausted(now)
        if not set(self._exhausted) <= set(exhausted):  # a month has begun
            self._post(CatalogChanged())
        self._exhausted = exhausted
        for key in budgets.due(state.active.values(), now) if budgets.any else ():
            selection = job_filter(key, budgets.covered(key))
            try:
                candidates = await self._loop.candidate_reader.candidates(selection)
            except StoreFailed as failure:
                log.warning("the limits of the budget of %s are not applied now: %s", key, failure)
                return
            log.warning("the spending of %s has reached a limit of its budget", key)
            self._post(BudgetReached(key=key, selection=selection, candidates=candidates))
