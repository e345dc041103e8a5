"""What the loop knows beside the stored jobs: one owner for the state that requests and surveys change."""

from datetime import datetime, timedelta

from batchq.domain.container import Resources
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.damage import is_damaged
from batchq.engine.engine_identity import EngineCheck
from batchq.engine.idempotency import IdempotencyFilter
from batchq.engine.orphan_containers import OrphanContainers
from batchq.engine.safe_mode import SafeMode
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.unit_of_work import Committed
from batchq.ports.jobs import JobStore


class EngineState:
    """Written by the handlers of messages and by `on_committed`; everything else only reads it."""

    def __init__(self, ground: CatalogView, engine_check: EngineCheck) -> None:
        #: Jobs that are STARTING or RUNNING, as last saved.
        self.active: dict[JobId, Job] = {}
        #: What jobs may use of the engine's machine; None while the engine does not answer.
        self.host: Resources | None = None
        #: The jobs, and their arrays, of the containers in the last survey.
        self.seen: frozenset[JobId] = frozenset()
        #: Whether queues, environments or the machine changed since the last placement pass.
        self.ground_changed = False
        #: `Job.order` of the next job that is submitted.
        self.next_order = 0
        #: When the present boot of the machine began; None before the first server.
        self.clock_since: datetime | None = None
        #: How far the engine's clock is ahead of this server's; None when the engine does not report its time.
        self.engine_ahead: timedelta | None = None
        #: Safe mode after a restore.
        self.safety = SafeMode(ground)
        #: Which container engine the unfinished attempts run on.
        self.engine_check = engine_check
        #: Which submissions may be repetitions.
        self.repeats = IdempotencyFilter()
        #: Containers that no job owns.
        self.strays = OrphanContainers()

    async def load(self, store: JobStore, now: datetime) -> None:
        """Read what is stored: before the first unit of work, and after one whose commit may have been saved."""
        self.active = {job.id: job for job in await store.active() if not is_damaged(job)}
        self.next_order = await store.last_order() + 1
        self.repeats.load(now, empty=self.next_order == 0)
        self.safety.kept = await store.restoration()
        self.engine_check.known = await store.engine_id()
        anchor = await store.clock_anchor()
        self.clock_since = None if anchor is None else anchor.since

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.attempt is not None:
                self.active[job.id] = job
            else:
                self.active.pop(job.id, None)
        self.safety.on_committed(committed)
        self.engine_check.on_committed(committed)

    @property
    def busy(self) -> frozenset[JobId] | None:
        """The jobs that had containers in the last survey; None when no survey counts."""
        return None if self.host is None or self.safety.holds else self.seen

    @property
    def held(self) -> str | None:
        """Why nothing is started on restored data; None outside safe mode."""
        return str(self.safety) if self.safety.holds else None
