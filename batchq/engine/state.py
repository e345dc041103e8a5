"""The state of the loop beside the stored jobs: one owner for what surveys and requests change."""

from datetime import datetime, timedelta

from batchq.domain.container import Resources
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.job_counts import JobCounts
from batchq.domain.lifecycle.damage import is_damaged
from batchq.engine.engine_identity import EngineCheck
from batchq.engine.idempotency import IdempotencyFilter
from batchq.engine.orphan_containers import OrphanContainers
from batchq.engine.safe_mode import SafeMode
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.unit_of_work import Committed
from batchq.ports.jobs import JobStore


class EngineState:
    """Written by the message handlers and `on_committed`; all other code only reads it."""

    def __init__(self, catalog: CatalogView, engine_check: EngineCheck) -> None:
        #: Jobs that are STARTING or RUNNING, as last saved.
        self.active: dict[JobId, Job] = {}
        #: The resources of the host that jobs may use; None while the container engine does not answer.
        self.host: Resources | None = None
        #: The jobs that had containers in the last survey, and their arrays.
        self.jobs_in_survey: frozenset[JobId] = frozenset()
        #: Whether the catalog or the host's capacity has changed since the last placement pass.
        self.catalog_changed = False
        #: `Job.order` of the next submitted job.
        self.next_order = 0
        #: The numbers of unfinished jobs, as last saved.
        self.counts = JobCounts({})
        #: The earliest time that a server of the machine's present boot can have stored; None: not known.
        self.clock_since: datetime | None = None
        #: How far the engine's clock is ahead of this server's; None when the engine does not report its time.
        self.engine_clock_offset: timedelta | None = None
        #: Safe mode after a restore.
        self.safe_mode = SafeMode(catalog)
        #: The identity of the container engine on which the unfinished attempts run.
        self.engine_check = engine_check
        #: Detects submissions that may be repetitions.
        self.idempotency = IdempotencyFilter()
        #: Containers without a known job.
        self.orphans = OrphanContainers()

    async def load(self, store: JobStore, now: datetime) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        self.active = {job.id: job for job in await store.active() if not is_damaged(job)}
        self.next_order = await store.last_order() + 1
        self.counts = JobCounts(await store.unfinished_counts())
        self.idempotency.load(now, empty=self.next_order == 0)
        self.safe_mode.restoration = await store.restoration()
        self.engine_check.known_id = await store.engine_id()
        anchor = await store.clock_anchor()
        self.clock_since = None if anchor is None else anchor.since

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.attempt is not None:
                self.active[job.id] = job
            else:
                self.active.pop(job.id, None)
        self.counts.update((it.before, it.job) for it in committed.transitions)
        self.safe_mode.on_committed(committed)
        self.engine_check.on_committed(committed)

    @property
    def jobs_with_containers(self) -> frozenset[JobId] | None:
        """The jobs that had containers in the last survey; None without a valid survey."""
        return None if self.host is None or self.safe_mode.active else self.jobs_in_survey

    @property
    def safe_mode_reason(self) -> str | None:
        """The reason why safe mode starts no job; None outside safe mode."""
        return str(self.safe_mode) if self.safe_mode.active else None
