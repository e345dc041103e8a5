"""What an explanation is made from: the neighbours of a job, the state of the scheduler, and who reads it. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from operator import itemgetter

from msgspec import Struct, field

from batchq.domain.access.accounts import AccountName, Caller
from batchq.domain.budgets import ExhaustedBudget
from batchq.domain.catalog import EnvironmentName, JobQueue, PolicyName, SchedulingPolicy
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.ids import JobId, QueueName, Tag
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Job
from batchq.domain.scheduling.backfill import latest_end
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity
from batchq.domain.scheduling.resources import Dimension, Usage, UsageSnapshot, demand

MAX_EXAMINED = 1000  # active jobs; with more of them no holder is named
MAX_PLACE = 10_000  # places in line are counted up to this number


class Holding(Struct, frozen=True, kw_only=True):
    """The jobs that hold some of one dimension."""

    #: Empty also if there are too many active jobs to examine.
    jobs: Sequence[Job] = ()
    #: The job whose latest end is known and comes first, with that time; None: no end is known.
    first_to_end: tuple[datetime, Job] | None = None


class Holders:
    """The holders of each dimension, among jobs that are STARTING or RUNNING. Computed once for a request."""

    def __init__(self, active: Mapping[JobId, Job], now: datetime) -> None:
        self._active = active
        self._now = now
        self._known: dict[Dimension, Holding] = {}

    def holding(self, dimension: Dimension) -> Holding:
        if dimension not in self._known:
            jobs = self._by_dimension.get(dimension, ())
            ends = [(at, job) for job in jobs if (at := latest_end(job, self._now)) is not None and at > self._now]
            self._known[dimension] = Holding(jobs=jobs, first_to_end=min(ends, key=itemgetter(0), default=None))
        return self._known[dimension]

    @cached_property
    def _by_dimension(self) -> Mapping[Dimension, Sequence[Job]]:
        found: defaultdict[Dimension, list[Job]] = defaultdict(list)
        if len(self._active) <= MAX_EXAMINED:
            for job in self._active.values():
                assert job.attempt is not None, f"{job.id} is not active"
                environment = EnvironmentName(job.attempt.environment)
                for dimension in demand(job.spec.resources, job.spec.needs, environment):
                    found[dimension].append(job)
        return found


class StartPhase(StrEnum):
    """What the start of a container does at present."""

    #: It waits for the removal of containers of earlier attempts.
    CLEANING_UP = "CLEANING_UP"
    #: It creates and starts the container.
    CREATING = "CREATING"
    #: It waits for the pull of the image.
    PULLING = "PULLING"
    #: It waits because the host fails to start containers.
    HOST_FAILED = "HOST_FAILED"
    #: It waits before it tries again: the container engine refused the start.
    REFUSED = "REFUSED"
    #: It waits before it tries again: the container engine did not answer, or the store failed.
    UNANSWERED = "UNANSWERED"


class StartProgress(Struct, frozen=True, kw_only=True):
    """The start of one container."""

    phase: StartPhase
    #: When the phase began.
    since: datetime
    image: str
    #: How many times the container engine refused the start.
    refusals: int = 0
    #: The last error of the container engine; empty without one.
    error: str = ""


class Obstacle(Struct, frozen=True, kw_only=True):
    """A condition of the server that keeps jobs from starting."""

    reason: type[Explanation]
    #: Since when; None: not known.
    since: datetime | None = None
    #: The error, for operators and admins only: it may name what other users run. None: there is none.
    detail: str | None = None


class QueuePosition(Struct, frozen=True, kw_only=True):
    """How many jobs are before a job in its queue or, in a fair-share queue, in its share."""

    #: At most MAX_PLACE.
    ahead: int
    #: The vCPUs that they request, in thousandths.
    millicpus: int

    @property
    def is_exact(self) -> bool:
        """Whether all jobs before it were counted."""
        return self.ahead < MAX_PLACE


class BlockedHead(Struct, frozen=True, kw_only=True):
    """The first job of a queue that does not fit, for which capacity is reserved."""

    job_id: JobId
    #: Its status reason.
    reason: str
    since: datetime


class SchedulerState(Struct, frozen=True, kw_only=True, dict=True):
    """The state of the engine at one moment, as last saved. Its collections are views: use it before the next await."""

    now: datetime
    #: What keeps all jobs from starting; None: nothing does.
    obstacle: Obstacle | None
    #: The total capacity; None while the container engine has not answered.
    cluster: Cluster | None
    queues: Mapping[QueueName, JobQueue]
    policies: Mapping[PolicyName, SchedulingPolicy]
    #: The resources that active jobs hold.
    usage: UsageSnapshot
    #: Which jobs hold which resources.
    holders: Holders
    #: The blocked head of each queue.
    heads: Mapping[QueueName, BlockedHead]
    #: The starts in progress.
    starts: Mapping[Tag, StartProgress]
    #: Orders of jobs that a stop order is about to reach.
    stop_pending: tuple[IntervalSet, ...] = ()
    #: How many jobs of each queue were placed within `start_period`.
    recent_starts: Mapping[QueueName, int] = field(default_factory=dict)
    #: An hour, or less after a start of the server.
    start_period: timedelta = timedelta()
    #: The vCPUs that the jobs of each share hold, in thousandths, by queue and share.
    share_millicpus: Mapping[tuple[QueueName, str], int] = field(default_factory=dict)
    #: The budgets that let no job start.
    exhausted: tuple[ExhaustedBudget, ...] = ()

    @cached_property
    def idle(self) -> FreeCapacity | None:
        """The capacity if no job ran; None while the container engine has not answered."""
        if self.cluster is None:
            return None
        return FreeCapacity(cluster=self.cluster, usage=Usage().after(()), now=self.now)


class RelatedJobs(Struct, frozen=True, kw_only=True):
    """The stored jobs that an explanation is about, beside the job itself."""

    #: The dependencies of the job, and the heads of queues, that exist. The reader may not see all of them.
    jobs: Mapping[JobId, Job] = field(default_factory=dict)
    #: The job's place in line; None: not counted.
    place: QueuePosition | None = None
    #: The failed child of an array with the highest index; None: not read.
    failed_child: Job | None = None


class Reader(Struct, frozen=True, kw_only=True):
    """The caller who reads an explanation. Names that the caller may not see are replaced."""

    caller: Caller

    def job(self, job: Job | None) -> str:
        """The name of a job, or that it is another user's."""
        return "a job of another user" if job is None or not self.sees(job) else _name(job)

    def sees(self, job: Job | None) -> bool:
        """Whether the caller may see the job."""
        return job is not None and self.caller.reaches(job.spec.owner)

    def sees_account(self, name: AccountName) -> bool:
        """Whether the caller may see the account: its own, one above it, or one that the caller coordinates."""
        return self.caller.reaches_all or name in self.caller.lineage or name in self.caller.coordinates

    def account(self, name: AccountName) -> str:
        """The name of an account, or that it is another one."""
        return f"account {name}" if self.sees_account(name) else "its account"

    def queue(self, name: QueueName) -> str:
        """The name of a queue, or that it is another one."""
        return f"queue {name}" if self.caller.sees_queue(name) else "another queue"


def _name(job: Job) -> str:
    return job.spec.name if job.child is None else f"{job.spec.name}:{job.child.index}"
