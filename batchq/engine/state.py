"""The state of the loop beside the stored jobs, which surveys and requests change."""

from datetime import datetime, timedelta

from batchq.domain.ids import ContainerEngineName, JobId, MachineName, Tag
from batchq.domain.job import Job
from batchq.domain.job_counts import JobCounts
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.lifecycle.reconcile import is_on_absent_machine, tags_running, tags_under_way
from batchq.domain.machines import LOCAL, Machine, usable_machine
from batchq.engine.containers.watcher import RuntimeCheck
from batchq.engine.idempotency import IdempotencyFilter
from batchq.engine.orphan_containers import OrphanContainers
from batchq.engine.safe_mode import SafeMode
from batchq.engine.sightings import Sightings
from batchq.engine.staged_changes import ContainerEngineChanges
from batchq.engine.unit_of_work import Committed
from batchq.engine.use import UseSamples
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import JobStore

UNCHANGED = ContainerEngineChanges()


class EngineState:
    """Written by the message handlers and `on_committed`; all other code only reads it."""

    def __init__(self, catalog: CatalogView, engine_check: RuntimeCheck) -> None:
        #: Jobs that are STARTING or RUNNING, as last saved.
        self.active: dict[JobId, Job] = {}
        #: The machines as the last survey reported them.
        self.surveyed_machines: tuple[Machine, ...] = ()
        #: The container engines of all machines that were ever reported.
        self._engines: dict[MachineName, ContainerEngineName] = {}
        #: The machines with the resources that jobs may reserve; None while the container engine does not answer.
        self.machines: tuple[Machine, ...] | None = None
        #: The jobs that had containers in the last survey, and their arrays.
        self.jobs_in_survey: frozenset[JobId] = frozenset()
        #: Whether every container engine answered in the last survey.
        self.survey_is_complete = False
        #: Whether the catalog or the machines have changed since the last placement pass.
        self.catalog_changed = False
        #: `Job.sequence` of the next submitted job.
        self.next_sequence = 0
        #: The numbers of unfinished jobs, as last saved.
        self.counts = JobCounts({})
        #: The earliest time that a server of the machine's present boot can have stored; None: not known.
        self.clock_since: datetime | None = None
        #: How far the container engine's clock is ahead of this server's; None when the container engine does not
        #: report its time.
        self.engine_clock_offset: timedelta | None = None
        #: Safe mode after a restore.
        self.safe_mode = SafeMode(catalog)
        #: The identity of the container engine on which the unfinished attempts run.
        self.engine_check = engine_check
        #: Until when active attempts are known to have run.
        self.sightings = Sightings()
        #: What running containers use.
        self.use = UseSamples()
        #: Detects submissions that may be repetitions.
        self.idempotency = IdempotencyFilter()
        #: Containers without a known job.
        self.orphans = OrphanContainers()

    async def load(self, store: JobStore, now: datetime) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        self.active = {job.id: job for job in await store.active() if not is_damaged(job)}
        self.next_sequence = await store.last_sequence() + 1
        self.counts = JobCounts(await store.unfinished_counts())
        self.idempotency.load(now, empty=self.next_sequence == 0)
        self.safe_mode.apply(await store.restoration())
        self.engine_check.known_id = await store.engine_id()
        self.sightings.load(await store.last_survey())
        anchor = await store.clock_anchor()
        self.clock_since = None if anchor is None else anchor.since

    def engine_of(self, machine: MachineName | None) -> ContainerEngineName:
        """The container engine of a machine. An unknown machine may be on an engine that has not answered yet."""
        name = machine or LOCAL
        if name in self._engines or not self.surveyed_machines:
            return self._engines.get(name, ContainerEngineName(""))
        first = self.surveyed_machines[0]
        return next((each for each in self.surveyed_machines if each.is_whole_engine), first).engine

    def is_unreachable(self, tag: Tag) -> bool:
        """Whether the machine of a container under way did not answer in the last survey."""
        job = self.active.get(tag.job_id)
        if job is None or self.machines is None or tag not in tags_under_way(job):
            return False
        return is_on_absent_machine(job, tag, {machine.name: machine for machine in self.machines})

    def record_machines(self, machines: tuple[Machine, ...]) -> None:
        """Store the machines of a survey. A change of them counts as a change of the catalog."""
        if self.machines is None or self.surveyed_machines != machines:
            self.catalog_changed, self.surveyed_machines = True, machines
            self.machines = tuple(map(usable_machine, machines))
            self._engines |= {machine.name: machine.engine for machine in machines}
        self.survey_is_complete = not any(machine.is_unlisted for machine in machines)

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.attempt is not None:
                self.active[job.id] = job
            else:
                self.active.pop(job.id, None)
        self.counts.update(committed.changes)
        if committed.unit.container_engine != UNCHANGED:
            self.safe_mode.on_committed(committed)
            self.engine_check.on_committed(committed)
            self.sightings.on_committed(committed)

    def running(self) -> frozenset[Tag]:
        """The containers that are known to run, as last saved."""
        return frozenset(tag for job in self.active.values() for tag in tags_running(job))

    @property
    def jobs_with_containers(self) -> frozenset[JobId] | None:
        """The jobs that had containers in the last survey; None without a valid survey."""
        if self.machines is None or self.safe_mode.active or not self.survey_is_complete:
            return None
        return self.jobs_in_survey

    @property
    def safe_mode_reason(self) -> str | None:
        """The reason why safe mode starts no job; None outside safe mode."""
        return str(self.safe_mode) if self.safe_mode.active else None
