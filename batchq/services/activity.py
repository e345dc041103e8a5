"""Activity over time, as far as a caller sees it: of one queue, or of all queues that the caller may use."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.activity import COARSE, FINE, Activity, ActivityBucket, bucket_of
from batchq.domain.catalog import EnvironmentName, JobQueue
from batchq.domain.ids import QueueName
from batchq.errors import NotFound
from batchq.ports.activity import ActivityQuery, ActivityStore
from batchq.ports.clock import Clock
from batchq.services.catalog import CatalogService

DAY_HOURS = 24
MAX_HOURS = 30 * DAY_HOURS


class ActivityService:
    """Reads buckets of activity. Only jobs that are visible to the caller are counted."""

    def __init__(
        self, *, store: ActivityStore, catalog: CatalogService, clock: Clock, currency: str | None = None
    ) -> None:
        """`currency`: of the server's prices; None without prices."""
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._currency = currency

    async def activity(self, queue: QueueName | None, *, hours: int = DAY_HOURS, caller: Caller) -> Activity:
        """The last `hours`, at most MAX_HOURS: buckets of 5 minutes for at most a day, and otherwise of an hour.

        `queue`: None for all queues of the caller together. Raises NotFound and StoreFailed.
        """
        known = self._catalog.queues_of(caller)
        if queue is not None and queue not in known:
            raise NotFound(f"JobQueue {queue} not found.")
        queues = known.values() if queue is None else (known[queue],)
        query = self._query(hours, queues, caller)
        return self._activity(query, await self._store.activity(query))

    async def environments(
        self, names: Collection[EnvironmentName], *, hours: int = DAY_HOURS, caller: Caller
    ) -> Mapping[str, Activity]:
        """The last `hours` of compute environments: active jobs of all owners, so only for callers who see all jobs.

        The waiting jobs are those of all queues that name the environment. Raises StoreFailed.
        """
        if not caller.reaches_all:
            return {}
        queues = self._catalog.queues_of(caller).values()
        query = replace(self._query(hours, queues, caller), environments=frozenset(names))
        found = await self._store.environment_activity(query)
        activities = {}
        for name in names:
            naming = frozenset(queue.name for queue in queues if name in queue.environments)
            waiting = {
                bucket.at: bucket.load.waiting
                for bucket in await self._store.activity(replace(query, queues=naming))
                if bucket.load is not None
            }
            buckets = (
                replace(bucket, load=replace(bucket.load, waiting=waiting.get(bucket.at, 0.0)))
                for bucket in found.get(name, ())
                if bucket.load is not None
            )
            activities[str(name)] = self._activity(query, tuple(buckets))
        return activities

    def _query(self, hours: int, queues: Iterable[JobQueue], caller: Caller) -> ActivityQuery:
        queues, now, width = list(queues), self._clock.now(), FINE if hours <= DAY_HOURS else COARSE
        return ActivityQuery(
            width=width,
            first=bucket_of(now - timedelta(hours=hours), width) + width,
            last=now,
            queues=frozenset(each.name for each in queues),
            environments=frozenset(EnvironmentName(name) for each in queues for name in each.environments),
            visibility=caller.visibility,
        )

    def _activity(self, query: ActivityQuery, buckets: tuple[ActivityBucket, ...]) -> Activity:
        return Activity(at=query.last, first=query.first, width=query.width, buckets=buckets, currency=self._currency)
