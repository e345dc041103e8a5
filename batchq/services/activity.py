"""Activity over time, as far as a caller sees it: of one queue, or of all queues that the caller may use."""

from datetime import timedelta

from batchq.domain.access.accounts import Caller
from batchq.domain.activity import COARSE, FINE, Activity, bucket_of
from batchq.domain.catalog import EnvironmentName
from batchq.domain.ids import QueueName
from batchq.errors import NotFound
from batchq.ports.activity import ActivityQuery, ActivityStore
from batchq.ports.clock import Clock
from batchq.services.catalog import CatalogService

DAY_HOURS = 24
MAX_HOURS = 30 * DAY_HOURS


class ActivityService:
    """Reads buckets of activity. Only jobs that are visible to the caller are counted."""

    def __init__(self, *, store: ActivityStore, catalog: CatalogService, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock

    async def activity(self, queue: QueueName | None, *, hours: int = DAY_HOURS, caller: Caller) -> Activity:
        """The last `hours`, at most MAX_HOURS: buckets of 5 minutes for at most a day, and otherwise of an hour.

        `queue`: None for all queues of the caller together. Raises NotFound and StoreFailed.
        """
        known = self._catalog.queues_of(caller)
        if queue is not None and queue not in known:
            raise NotFound(f"JobQueue {queue} not found.")
        queues = known.values() if queue is None else (known[queue],)
        now, width = self._clock.now(), FINE if hours <= DAY_HOURS else COARSE
        first = bucket_of(now - timedelta(hours=hours), width) + width
        query = ActivityQuery(
            width=width,
            first=first,
            last=now,
            queues=frozenset(each.name for each in queues),
            environments=frozenset(EnvironmentName(name) for each in queues for name in each.environments),
            visibility=caller.visibility,
        )
        return Activity(at=now, first=first, width=width, buckets=await self._store.activity(query))
