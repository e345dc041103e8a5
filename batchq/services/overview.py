"""The overview: how many jobs each queue has, the state of the container engine, capacity, and the recent failures.

Counts come from memory, and everything else is bounded, so that an overview costs the same however many jobs are
stored. Jobs that the caller may not see are neither counted nor named.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Caller
from batchq.domain.catalog import ComputeEnvironment, JobQueue
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE, QUEUED, ServerState, Status
from batchq.domain.ids import QueueName
from batchq.domain.job import Job
from batchq.domain.job_counts import JobGroup
from batchq.domain.scheduling.capacity import Cluster
from batchq.domain.scheduling.resources import GPUS, MEMORY, UsageSnapshot, vcpus
from batchq.domain.task import total
from batchq.engine.engine import Engine
from batchq.engine.scheduler_state import Health
from batchq.ports.activity import ActivityStore
from batchq.ports.clock import Clock
from batchq.ports.jobs import Failures, JobStore, WaitingQuery
from batchq.services.activity import ActivityService
from batchq.services.catalog import CatalogService
from batchq.services.machines import MachinePage, MachineQuery, machine_page

LONGEST_RUNNING = 5  # jobs
MAX_FAILURE_GROUPS = 10
FAILURE_PERIOD = timedelta(hours=24)


#: For callers who may not read the error.
SENTENCES = {
    ServerState.AWAY: "The container engine is not available: no job starts until it is.",
    ServerState.FAILING: "A part of the server fails: jobs may be delayed until an operator has repaired it.",
}


class UnfinishedJobs(Struct, frozen=True, kw_only=True):
    """How many unfinished jobs there are."""

    #: By status. Children of arrays count as single jobs, and arrays do not count.
    counts: Mapping[Status, int]

    @property
    def running(self) -> int:
        """The jobs that are STARTING or RUNNING."""
        return sum(count for status, count in self.counts.items() if status in ACTIVE)

    @property
    def waiting(self) -> int:
        return sum(count for status, count in self.counts.items() if status in QUEUED)


class QueueOverview(UnfinishedJobs, frozen=True, kw_only=True):
    """One queue."""

    queue: JobQueue
    #: Unfinished arrays.
    arrays: int
    #: Since when the first RUNNABLE job of the queue has been RUNNABLE; None without one.
    oldest_runnable_at: datetime | None


class EnvironmentOverview(Struct, frozen=True, kw_only=True):
    """The capacity of one compute environment."""

    environment: ComputeEnvironment
    #: Thousandths of a vCPU that active jobs have requested.
    millicpus: int
    #: What jobs may reserve of the machines that it selects; None while the container engine does not answer.
    machines: Resources | None
    #: MiB of memory that active jobs have requested on those machines; without them, on all machines.
    memory_mib: int
    #: GPUs, as `memory_mib`.
    gpus: int


class AccountUse(UnfinishedJobs, frozen=True, kw_only=True):
    """The unfinished jobs of one or several accounts, and what they use."""

    #: Thousandths of a vCPU that active jobs have requested.
    millicpus: int


class Overview(Struct, frozen=True, kw_only=True):
    """The overview for one caller."""

    at: datetime
    engine: ServerState
    #: What is wrong, or that nothing is.
    sentence: str
    #: Since when it is wrong; None: nothing is, or not known.
    since: datetime | None
    #: By descending priority, then by name.
    queues: tuple[QueueOverview, ...]
    #: By name.
    environments: tuple[EnvironmentOverview, ...]
    #: The machine's resources for jobs; None while the container engine does not answer.
    host: Resources | None
    #: MiB of memory that active jobs have requested.
    memory_mib: int
    #: GPUs that active jobs have requested.
    gpus: int
    #: The running jobs that started first, the first one first.
    longest_running: tuple[Job, ...]
    #: Of the last 24 hours.
    failures: Failures


class _QueueCounts(Struct, frozen=True, kw_only=True):
    """The counts of the unfinished jobs that a caller sees."""

    #: Of jobs that are not arrays.
    jobs: Counter[tuple[QueueName, Status]]
    arrays: Counter[QueueName]
    #: One query for each group that has RUNNABLE jobs.
    waiting: Collection[WaitingQuery]


class OverviewReads(JobStore, ActivityStore, Protocol):
    """What the overview reads of the store."""


class OverviewService:
    """Reads the overview from memory, the catalog and the store."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: OverviewReads,
        catalog: CatalogService,
        clock: Clock,
        currency: str | None = None,
    ) -> None:
        """`currency`: of the server's prices; None without prices."""
        #: Reads the activity over time.
        self.activity = ActivityService(store=store, catalog=catalog, clock=clock, currency=currency)
        self._engine = engine
        self._store = store
        self._catalog = catalog
        self._clock = clock

    def state(self, *, caller: Caller) -> tuple[ServerState, str]:
        """The state of the container engine and the server's loops, and a sentence about it.

        Only callers who see all jobs read the error itself: it may name what other users run, or files of the machine.
        """
        state, sentence = engine_state(self._engine.health())
        return state, sentence if caller.reaches_all else SENTENCES.get(state, sentence)

    async def overview(self, *, caller: Caller) -> Overview:
        """The overview at present, as far as the caller may see it. Raises StoreFailed."""
        now, usage, machines = self._clock.now(), self._engine.usage(), self._engine.machines()
        state, sentence = self.state(caller=caller)
        obstacle = None if state is ServerState.OK else self._engine.scheduler_state().obstacle
        counts, since = self._counts_of_queues(caller), now - FAILURE_PERIOD
        facts = await self._store.overview_facts(since, counts.waiting, visibility=caller.visibility)
        return Overview(
            at=now,
            engine=state,
            sentence=sentence,
            since=None if obstacle is None else obstacle.since,
            queues=self._queues(counts, facts.oldest_runnable, caller),
            environments=self.environments(),
            host=None if machines is None else total(machine.resources for machine in machines),
            memory_mib=usage.sums.get(MEMORY, 0),
            gpus=usage.sums.get(GPUS, 0),
            longest_running=longest_running(self._engine.active_jobs(), lambda job: caller.reaches(job.spec.owner)),
            failures=replace(facts.failures, groups=facts.failures.groups[:MAX_FAILURE_GROUPS]),
        )

    def running_now(self, *, caller: Caller) -> tuple[Job, ...]:
        """The active jobs that the caller sees, those whose attempts began first before the others."""
        visible = (job for job in self._engine.active_jobs() if caller.reaches(job.spec.owner))
        return tuple(sorted(visible, key=_began))

    def environments(self) -> tuple[EnvironmentOverview, ...]:
        """The compute environments with the vCPUs in use, by name."""
        usage, cluster = self._engine.usage(), self._engine.cluster()
        return tuple(
            _environment_overview(environment, usage, cluster)
            for _, environment in sorted(self._catalog.environments.items())
        )

    def largest_memory(self, queue: QueueName, *, caller: Caller) -> int | None:
        """The MiB of memory of the largest machine that runs jobs of the queue.

        None while the container engine does not answer, without such a machine, and for an unknown queue.
        """
        known, cluster = self._catalog.queues_of(caller).get(queue), self._engine.cluster()
        if known is None or cluster is None:
            return None
        machines = cluster.machines.selected(known.environments)
        return max((machine.resources.memory_mib for machine in machines), default=None)

    def machines(self, query: MachineQuery, *, caller: Caller) -> MachinePage:
        """The machines that the query selects, with the jobs that the caller may see. Raises Invalid."""
        return machine_page(self._engine, query, caller=caller)

    def account_use(self, accounts: Collection[AccountName]) -> AccountUse:
        """What the jobs of these accounts use together. The caller must be allowed to see them."""
        counts, held = Counter[Status](), self._engine.usage().accounts
        for group, count in self._engine.job_counts().items():
            if group.account in accounts and not group.array:
                counts[group.status] += count
        return AccountUse(counts=counts, millicpus=sum(held.get(name, 0) for name in accounts))

    async def queues(self, *, caller: Caller) -> tuple[QueueOverview, ...]:
        """The queues that the caller may use, as in the overview."""
        counts = self._counts_of_queues(caller)
        oldest = await self._store.oldest_visible_runnable(counts.waiting) if counts.waiting else {}
        return self._queues(counts, oldest, caller)

    def _counts_of_queues(self, caller: Caller) -> _QueueCounts:
        counts, arrays, waiting = Counter[tuple[QueueName, Status]](), Counter[QueueName](), set[WaitingQuery]()
        for group, count in self._engine.job_counts().items():
            if not _sees(caller, group):
                continue
            if group.array:
                arrays[group.queue] += count
                continue
            counts[group.queue, group.status] += count
            if group.status is Status.RUNNABLE:
                waiting.add(_first_of(group, caller))
        return _QueueCounts(jobs=counts, arrays=arrays, waiting=waiting)

    def _queues(
        self, counts: _QueueCounts, oldest: Mapping[QueueName, datetime], caller: Caller
    ) -> tuple[QueueOverview, ...]:
        known = self._catalog.queues_of(caller)
        return tuple(
            QueueOverview(
                queue=known[name],
                counts={status: counts.jobs[name, status] for status in Status if counts.jobs[name, status]},
                arrays=counts.arrays[name],
                oldest_runnable_at=oldest.get(name),
            )
            for name in sorted(known, key=lambda queue: (-known[queue].priority, queue))
        )


def _environment_overview(
    environment: ComputeEnvironment, usage: UsageSnapshot, cluster: Cluster | None
) -> EnvironmentOverview:
    selected = None if cluster is None else cluster.machines.selected([environment.name])
    memory_mib, gpus = usage.sums.get(MEMORY, 0), usage.sums.get(GPUS, 0)
    if selected is not None:
        held = usage.held()
        rooms = [held[machine.name] for machine in selected if machine.name in held]
        memory_mib, gpus = sum(room[1] for room in rooms), sum(room[2] for room in rooms)
    return EnvironmentOverview(
        environment=environment,
        millicpus=usage.sums.get(vcpus(environment.name), 0),
        machines=None if selected is None else total(machine.resources for machine in selected),
        memory_mib=memory_mib,
        gpus=gpus,
    )


def engine_state(health: Health) -> tuple[ServerState, str]:
    """The state, and a sentence about it."""
    if health.safe_mode is not None:
        return ServerState.SAFE_MODE, health.safe_mode
    if health.engine is not None:
        return ServerState.AWAY, health.engine
    failing = {name: value for name, value in health.loops.items() if value != "ok"}
    if health.store is not None:
        return ServerState.FAILING, health.store
    if failing:
        return ServerState.FAILING, "; ".join(f"{name}: {text}" for name, text in sorted(failing.items()))
    return ServerState.OK, "Jobs start as soon as there is capacity for them."


def longest_running(jobs: Collection[Job], visible: Callable[[Job], bool]) -> tuple[Job, ...]:
    """The visible running jobs that started first, the first one first."""
    running = [job for job in jobs if job.status is Status.RUNNING and job.started_at is not None and visible(job)]
    return tuple(sorted(running, key=lambda job: (job.started_at, job.sequence))[:LONGEST_RUNNING])


def _began(job: Job) -> tuple[datetime, int]:
    run = job.attempt
    return (run and (run.placed_at or run.started_at)) or job.created_at, job.sequence


def _sees(caller: Caller, group: JobGroup) -> bool:
    return caller.reaches_all or group.user == caller.user or group.account in caller.coordinates


def _first_of(group: JobGroup, caller: Caller) -> WaitingQuery:
    """Which RUNNABLE job of a group's queue is the first one that the caller sees."""
    if caller.reaches_all:
        return WaitingQuery(group.queue)
    if group.account in caller.coordinates:
        return WaitingQuery(group.queue, account=group.account)
    return WaitingQuery(group.queue, user=group.user)
