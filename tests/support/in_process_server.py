"""batchq without its API in the process of a test: services and engine, assembled as `bootstrap` assembles them.

Every test that runs the whole engine uses it: the scenarios, the request sequences of `tests.machine`, the workload of
`tests.schedule`, and each server of `tests.simulation`.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from batchq.domain.access.accounts import Directory
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.prices import Prices
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.activity import ActivityRecorder
from batchq.engine.engine import Engine
from batchq.engine.mailbox import Mailbox
from batchq.logs.service import CloudWatchLogs
from batchq.ports.activity import ActivityStore
from batchq.ports.catalog import CatalogStore
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.clock import BootClock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive
from batchq.ports.runtime import ContainerRuntime
from batchq.services.activity import ActivityService
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.costs import CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_log import LogFollower
from batchq.services.jobs import JobService
from batchq.services.records import EventService
from batchq.services.submissions import SubmissionService
from batchq.services.training import MetricsService
from batchq.system.clock import align
from tests.support.stubs import BOTTOMLESS, UNLIMITED, BottomlessCheckpointDisk, NoObserver


class Store(JobStore, CatalogStore, ActivityStore, Protocol):
    """The ports of a store."""


class InProcessServer:
    """A server on given ports, which outlive it. No port is called before `align` or `start`."""

    def __init__(
        self,
        *,
        store: Store,
        runtime: ContainerRuntime,
        archive: LogArchive,
        checkpoints: CheckpointStore,
        clock: BootClock,
        people: Callable[[], Directory],
        survey_interval: float,
        restricts_accounts: bool = True,
        new_job_id: Callable[[], JobId] | None = None,
        follows_logs: bool = False,
    ) -> None:
        """`new_job_id` gives each submitted job its id; without it ids are random, as in production.

        `restricts_accounts`: container policies and separate networks of accounts are enforced.
        """
        self.store = store
        self.clock = clock
        self._new_job_id = new_job_id
        #: The container engines that can run a job, as `SubmissionService` has it. A test may replace it.
        self.able_engines = lambda _spec: ()
        mailbox = Mailbox()
        self.catalog = CatalogService(
            store=store, jobs=store, clock=clock, disk_guard=BOTTOMLESS, changed=mailbox.catalog_changed
        )
        self.logs = CloudWatchLogs(
            store=store, archive=archive, runtime=runtime, clock=clock, quota=UNLIMITED, is_following=follows_logs
        )
        metrics = MetricsService(logs=self.logs, checkpoints=checkpoints)
        self.engine = Engine(
            mailbox=mailbox,
            store=store,
            catalog=self.catalog,
            runtime=runtime,
            accounts=AccountPolicies(directory=people, enforced=restricts_accounts),
            checkpoints=checkpoints,
            checkpoint_retention=None,
            capture_log=self.logs.capture,
            follow_logs=self.logs.on_saved,
            read_metrics=metrics.of_ended,
            clock=clock,
            survey_interval=survey_interval,
            observer=NoObserver(),
        )
        self.catalog.consumable_resources.usage = self.engine
        self.catalog.unit_lock = self.engine.loop.unit_lock
        self.jobs = JobService(engine=self.engine, store=store, catalog=self.catalog)
        self.explanations = ExplanationService(engine=self.engine, store=store)
        self.events = EventService(self.engine.history_feed)
        self.job_log = LogFollower(store=store, logs=self.logs, feed=self.engine.history_feed, clock=clock)
        self.costs = CostService(engine=self.engine, store=store, metrics=metrics, checkpoints=checkpoints, clock=clock)
        #: No loop calls it.
        self.recorder = ActivityRecorder(engine=self.engine, store=store, catalog=self.catalog, clock=clock)
        self.activity = ActivityService(store=store, catalog=self.catalog, clock=clock)
        self.bulk_stops = BulkStopService(
            engine=self.engine,
            store=store,
            directory=people,
            queues=self.catalog.queues_of,
            environments=lambda: self.catalog.environments,
        )

    async def align(self) -> None:
        """Shift the stored times if the machine's clock was set since the last server."""
        await align(self.store, self.clock)

    async def start(self) -> None:
        """Load the catalog and start the engine."""
        await self.catalog.load()
        await self.engine.start()

    async def kill(self) -> None:
        """End at once, as `kill -9` does: every task is cancelled, and nothing more is saved."""
        await self.engine.tasks.cancel()
        await self.logs.close()

    def submission_service(self, *, stop_grace: timedelta, prices: Prices | None = None) -> SubmissionService:
        """The submission service with this default of the time between a stop signal and the kill, and these prices."""
        engine = self.engine if self._new_job_id is None else _EngineWithOwnIds(self.engine, self._new_job_id)
        return SubmissionService(
            engine=engine,
            store=self.store,
            catalog=self.catalog,
            clock=self.clock,
            disk_guard=BOTTOMLESS,
            checkpoint_guard=BottomlessCheckpointDisk(),
            stop_grace=stop_grace,
            able_engines=self.able_engines,
            prices=prices,
        )

    def is_idle(self) -> bool:
        """Whether no message is unread, no unit of work is in progress, and no task runs except the engine's loops."""
        loops = set(self.engine.health().loops)
        between_units = self.engine.mailbox.is_empty and not self.engine.loop.unit_lock.locked()
        return between_units and set(self.engine.tasks.names) <= loops


class _EngineWithOwnIds:
    """The engine for a submission service; the ids of submitted jobs come from `new_job_id`."""

    def __init__(self, engine: Engine, new_job_id: Callable[[], JobId]) -> None:
        self._engine = engine
        self._new_job_id = new_job_id

    async def submit(self, *, job_id: JobId, **submission: Any) -> Job:
        return await self._engine.submit(job_id=self._new_job_id(), **submission)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
