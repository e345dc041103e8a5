"""Records the activity of the server in buckets of time. Decision 0105.

The load is counted in memory, and ended jobs are read from the stored history, so that neither a unit of work nor a
request does anything for it. One transaction adds a sample and the events of the history until then, with the number
of the last entry that was read: a server that is killed loses a sample, and counts each job once.
"""

import logging

from msgspec.structs import replace

from batchq.domain.activity import SAMPLE_INTERVAL, ActivitySample, environment_loads_of, loads_of
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.enums import State
from batchq.domain.prices import Prices
from batchq.domain.task import total
from batchq.engine.engine import Engine
from batchq.engine.use_rates import UseRates
from batchq.errors import StoreFailed
from batchq.ports.activity import ActivityEvents, ActivityStore
from batchq.ports.catalog import CatalogView
from batchq.ports.clock import Clock

FIRST_SAMPLE = 5.0  # seconds after the start: the containers that survived the last server are known by then

log = logging.getLogger(__name__)


class ActivityRecorder:
    """Stores a sample of the activity of the server at intervals."""

    def __init__(
        self, *, engine: Engine, store: ActivityStore, catalog: CatalogView, clock: Clock, prices: Prices | None = None
    ) -> None:
        """`prices`: of new jobs; None: costs are not known."""
        self._engine = engine
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._currency = None if prices is None else prices.currency
        self._rates = UseRates(engine.use)

    async def run(self) -> None:
        await self._clock.sleep(FIRST_SAMPLE)
        while True:
            try:
                await self.record_once()
            except StoreFailed as failure:
                log.warning("the activity is not recorded now: %s", failure)
            await self._clock.sleep(SAMPLE_INTERVAL)

    async def record_once(self) -> None:
        """Record a sample, and the events of the history until now."""
        events: list[ActivityEvents] = []
        page = await self._store.activity_events(None)
        events.extend(page.events)
        while page.more:
            page = await self._store.activity_events(page.through)
            events.extend(page.events)
        await self._store.record_activity(self._sample(), events, page.through)

    def _sample(self) -> ActivitySample:
        environments = {
            EnvironmentName(name): environment.max_millicpus
            for name, environment in self._catalog.environments.items()
            if environment.state is State.ENABLED
        }
        now, active = self._clock.now(), self._engine.active_jobs()
        used = self._rates.take(active, now)
        return ActivitySample(
            at=now,
            loads=loads_of(self._engine.job_counts(), active, used, currency=self._currency),
            environments=environments,
            environment_loads=environment_loads_of(active, used, currency=self._currency),
            machines=self._machines(sum(environments.values())),
        )

    def _machines(self, millicpus: int) -> Resources | None:
        """What jobs may request of the machines. `millicpus`: of all environments, the limit if no machine has one."""
        machines = self._engine.machines()
        if machines is None:
            return None
        resources = total(machine.resources for machine in machines)
        is_limited = any(machine.is_enforced for machine in machines)
        return resources if is_limited else replace(resources, millicpus=millicpus)
