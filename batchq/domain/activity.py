"""Activity over time: what ran, waited and ended, and what jobs requested, in buckets of time. Pure. Decision 0105.

A server takes a sample every SAMPLE_INTERVAL. A bucket has the sum of its samples and their number, so an average stays
correct however many samples the bucket has. A bucket without samples is a time in which no server ran.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, UserName
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.cost import hourly
from batchq.domain.enums import ACTIVE
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.job_counts import JobGroup
from batchq.domain.times import EPOCH

SAMPLE_INTERVAL = 30.0  # seconds between two samples
BILLION = 10**9
FINE, COARSE = timedelta(minutes=5), timedelta(hours=1)  # the widths of buckets
#: How long buckets are kept, by their width. A picture of a day or of 30 days has a part of a bucket at each end.
KEPT: Mapping[timedelta, timedelta] = {FINE: timedelta(hours=25), COARSE: timedelta(days=31)}
#: The upper bounds of the ranges in which waits are counted, in seconds. Longer waits have a range of their own.
WAIT_BOUNDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


class EndedAs(StrEnum):
    """How a job ended."""

    SUCCEEDED = "SUCCEEDED"
    #: The job failed by itself.
    FAILED = "FAILED"
    #: The job was cancelled or terminated.
    STOPPED = "STOPPED"


class ActivityKey(NamedTuple):
    """The jobs that are counted together."""

    queue: QueueName
    account: AccountName
    user: UserName


class ActivityLoad(Struct, frozen=True, kw_only=True):
    """Unfinished jobs, and what the active ones of them request. Children of arrays count, and arrays do not."""

    running: float = 0
    waiting: float = 0
    #: Thousandths of a vCPU.
    millicpus: float = 0
    memory_mib: float = 0
    gpus: float = 0
    #: The running jobs whose use was measured. The two figures below are those of these jobs.
    measured: float = 0
    #: Thousandths of a vCPU.
    used_millicpus: float = 0
    #: MiB without page cache.
    used_mib: float = 0
    #: What the active jobs cost in an hour, in billionths of the server's currency. Other currencies do not count.
    hourly_cost: float = 0


class JobUse(NamedTuple):
    """What a running job uses at present."""

    millicpus: int
    #: MiB without page cache.
    memory_mib: int


class ActivitySample(Struct, frozen=True, kw_only=True):
    """The load and the capacity at one time."""

    at: datetime
    #: Keys without a job are left out.
    loads: Mapping[ActivityKey, ActivityLoad]
    #: Thousandths of a vCPU that jobs may request, by enabled compute environment.
    environments: Mapping[EnvironmentName, int]
    #: What jobs may request of all machines together; None while the container engine does not answer.
    machines: Resources | None
    #: The active jobs of all owners by compute environment, which have no waiting jobs.
    environment_loads: Mapping[EnvironmentName, ActivityLoad]


class Ends(Struct, frozen=True, kw_only=True):
    """How many jobs ended, and how many attempts began after which wait."""

    succeeded: int = 0
    #: Jobs that failed by themselves.
    failed: int = 0
    #: Jobs that were cancelled or terminated.
    stopped: int = 0
    #: The attempts by the range of WAIT_BOUNDS of their wait, the last one unbounded; empty: no attempt began.
    waits: tuple[int, ...] = ()

    def wait(self, quantile: float) -> float | None:
        """The wait in seconds that this part of the attempts did not exceed, interpolated within its range.

        None: no attempt began. A wait above the last bound is reported as that bound.
        """
        return _quantile(self.waits, quantile) if sum(self.waits) else None


class ActivityBucket(Struct, frozen=True, kw_only=True):
    """The activity of some jobs in one bucket."""

    #: The beginning of the bucket.
    at: datetime
    #: The average of the samples; None: no sample was taken.
    load: ActivityLoad | None
    #: The average of what the jobs may request; None: not known. A limit of 0 is not known either.
    capacity: Resources | None
    ends: Ends


class Activity(Struct, frozen=True, kw_only=True):
    """The activity of some jobs in the last hours."""

    #: The time of the request.
    at: datetime
    first: datetime
    width: timedelta
    #: By time. Buckets in which no server ran are left out.
    buckets: tuple[ActivityBucket, ...]
    #: Of `ActivityLoad.hourly_cost`; None: the server has no prices.
    currency: str | None = None

    def slots(self) -> list[ActivityBucket | None]:
        """A bucket, or None for a time in which no server ran, for each width from `first` until `at`."""
        found = {bucket.at: bucket for bucket in self.buckets}
        count = (self.at - self.first) // self.width + 1
        return [found.get(self.first + number * self.width) for number in range(count)]


def bucket_of(at: datetime, width: timedelta) -> datetime:
    """The beginning of the bucket that contains `at`."""
    return at - (at - EPOCH) % width


def loads_of(
    counts: Mapping[JobGroup, int], active: Iterable[Job], used: Mapping[JobId, JobUse], *, currency: str | None
) -> Mapping[ActivityKey, ActivityLoad]:
    """The load of unfinished jobs. `active`: the jobs that are STARTING or RUNNING. `currency`: None: without cost."""
    running, waiting = Counter[ActivityKey](), Counter[ActivityKey]()
    for group, count in counts.items():
        if not group.array:
            key = ActivityKey(group.queue, group.account, group.user)
            (running if group.status in ACTIVE else waiting)[key] += count
    by_key: defaultdict[ActivityKey, list[Job]] = defaultdict(list)
    for job in active:
        by_key[ActivityKey(job.spec.queue, job.spec.owner.account, job.spec.owner.user)].append(job)
    return {
        key: replace(_load(by_key.get(key, ()), used, currency), running=running[key], waiting=waiting[key])
        for key in {*running, *waiting, *by_key}
    }


def environment_loads_of(
    active: Iterable[Job], used: Mapping[JobId, JobUse], *, currency: str | None
) -> Mapping[EnvironmentName, ActivityLoad]:
    """The load of active jobs by compute environment."""
    found: defaultdict[EnvironmentName, list[Job]] = defaultdict(list)
    for job in active:
        if job.attempt is not None:
            found[EnvironmentName(job.attempt.environment)].append(job)
    return {name: _load(jobs, used, currency) for name, jobs in found.items()}


def _load(active: Sequence[Job], used: Mapping[JobId, JobUse], currency: str | None) -> ActivityLoad:
    uses = [used[job.id] for job in active if job.id in used]
    priced = [(job.spec.prices, job.spec.resources) for job in active]
    costs = [hourly(prices, held).total for prices, held in priced if prices and prices.currency == currency]
    return ActivityLoad(
        running=len(active),
        millicpus=sum(job.spec.resources.millicpus for job in active),
        memory_mib=sum(job.spec.resources.memory_mib for job in active),
        gpus=sum(job.spec.resources.gpus for job in active),
        measured=len(uses),
        used_millicpus=sum(use.millicpus for use in uses),
        used_mib=sum(use.memory_mib for use in uses),
        hourly_cost=float(sum(costs) * BILLION),
    )


def _quantile(counts: tuple[int, ...], quantile: float) -> float:
    """As Prometheus's histogram_quantile: the attempts of a range are spread evenly over it."""
    rank = quantile * sum(counts)
    sums = list(accumulate(counts))
    index = next(index for index, total in enumerate(sums) if total >= rank and counts[index])
    if index == len(WAIT_BOUNDS):
        return float(WAIT_BOUNDS[-1])
    low, high = (WAIT_BOUNDS[index - 1] if index else 0), WAIT_BOUNDS[index]
    before = sums[index] - counts[index]
    return low + (high - low) * (rank - before) / counts[index]
