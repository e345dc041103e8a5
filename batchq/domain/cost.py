"""What jobs cost: pure functions of the job, its prices and the time.

A job costs what it holds while its containers run: from the start of the first container to the end of the attempt, of
all attempts, the checkpoint phase and the grace period included. The queue, the pull of an image and a pause are free.
Kept checkpoints cost storage until they are deleted, also after the end of the job. Decision 0047.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Decimal

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner
from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from batchq.domain.job import Attempt, Job, JobSpec
from batchq.domain.prices import Prices
from batchq.domain.times import MICROSECOND
from batchq.domain.training import MetricValue

CENT = Decimal("0.01")
ZERO = Decimal(0)
MIB_PER_GIB = 1024
GIB = 1024**3  # bytes
MILLICPUS = 1000  # of one vCPU
MAX_DAYS = 400  # days to which the cost of one attempt is divided; what is older counts for the first of them

_HOUR = timedelta(hours=1)
_MONTH = timedelta(hours=730)
_DAY = timedelta(days=1)
_NO_METRICS: Mapping[str, MetricValue] = {}


class Amounts(Struct, frozen=True, kw_only=True):
    """The parts of a cost, not rounded."""

    #: GPUs.
    gpu: Decimal = ZERO
    #: vCPUs and memory.
    compute: Decimal = ZERO

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(gpu=self.gpu + other.gpu, compute=self.compute + other.compute)

    def times(self, factor: Decimal) -> "Amounts":
        """Each part multiplied by `factor`."""
        return Amounts(gpu=self.gpu * factor, compute=self.compute * factor)

    @property
    def total(self) -> Decimal:
        """The sum of both parts."""
        return self.gpu + self.compute


class Cost(Struct, frozen=True, kw_only=True):
    """What a job has cost so far, not rounded: `rounded` gives the amounts to be shown."""

    currency: str
    #: GPUs.
    gpu: Decimal = ZERO
    #: vCPUs and memory.
    compute: Decimal = ZERO
    #: Stored checkpoints.
    storage: Decimal = ZERO
    #: How much less the job cost than if it had done all its work; at least 0. None: not known.
    estimated_savings: Decimal | None = None

    @property
    def total(self) -> Decimal:
        """The sum of the parts, not rounded."""
        return self.gpu + self.compute + self.storage

    @property
    def estimated_total(self) -> Decimal | None:
        """What the job would cost in all if it did all its work; None: not known."""
        return None if self.estimated_savings is None else self.total + self.estimated_savings


def rounded(amount: Decimal) -> Decimal:
    """The amount with two decimals, half to even."""
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)


def cost_of(
    job: Job, now: datetime, *, stored: int = 0, metrics: Mapping[str, MetricValue] = _NO_METRICS
) -> Cost | None:
    """What the job has cost until `now`; None for a job that was submitted without prices, never 0.

    `stored`: the byte-hours of its checkpoints, from `byte_hours`. `metrics`: the last values, for the progress.
    """
    prices = job.spec.prices
    if prices is None:
        return None
    rates = hourly(prices, job.spec.resources)
    held = rates.times(_hours(sum((run_time(attempt, now) for attempt in job.all_attempts), timedelta())))
    month = Decimal(stored) / GIB / Decimal(_MONTH // _HOUR)
    cost = Cost(
        currency=prices.currency, gpu=held.gpu, compute=held.compute, storage=month * prices.checkpoint_gib_month
    )
    return replace(cost, estimated_savings=_savings(job, now, rates, held.total, metrics))


def hourly(prices: Prices, resources: Resources) -> Amounts:
    """What it costs to hold these resources for an hour."""
    return Amounts(
        gpu=prices.gpu_hour * resources.gpus,
        compute=prices.vcpu_hour * resources.millicpus / MILLICPUS
        + prices.gib_hour * resources.memory_mib / MIB_PER_GIB,
    )


def limit_cost(spec: JobSpec) -> Amounts | None:
    """What one attempt costs that runs until its time limit; None without prices, and without a time limit."""
    if spec.prices is None or spec.timeout is None:
        return None
    return hourly(spec.prices, spec.resources).times(_hours(spec.timeout))


def run_time(attempt: Attempt, now: datetime) -> timedelta:
    """How long the containers of an attempt have run until `now`; zero for an attempt that never ran."""
    if attempt.started_at is None:
        return timedelta()
    return max((_charged_end(attempt) or now) - attempt.started_at, timedelta())


def _charged_end(attempt: Attempt) -> datetime | None:
    """The end of the time that an attempt costs; None: it has not ended."""
    return attempt.charged_until or attempt.stopped_at


def charged_until_seen(job: Job, attempt: Attempt, seen_at: datetime | None) -> Attempt:
    """The ended attempt, charged until `seen_at` if the container engine did not report when its containers ended.

    `seen_at`: until when it is known to have run; None: until its start. As for `stopped_at` the main node counts.
    """
    ends = _reported_ends(job, attempt)
    if attempt.started_at is None or attempt.stopped_at is None or None not in ends:
        return attempt
    latest = max(moment for moment in (*ends, attempt.started_at, seen_at) if moment is not None)
    return replace(attempt, charged_until=min(latest, attempt.stopped_at))


def _reported_ends(job: Job, attempt: Attempt) -> Sequence[datetime | None]:
    """When the started containers of the main node ended, as the container engine reported it.

    None for a container that vanished, that was given up, or that ended with the container engine or the machine.
    """
    started = [
        container
        for container in attempt.containers
        if container.node == job.spec.nodes.main and container.started_at is not None
    ]
    return [
        None if container.exit_code is None or (container.host_lost and container.exit_code) else container.stopped_at
        for container in started
    ]


def byte_hours(size_bytes: int, stored_at: datetime, now: datetime) -> int:
    """The storage that a checkpoint of this size has used since `stored_at`, in whole byte-hours."""
    return size_bytes * max((now - stored_at) // MICROSECOND, 0) // (_HOUR // MICROSECOND)


def cost_by_day(job: Job, attempt: Attempt) -> Iterator[tuple[date, Amounts]]:
    """The cost of an attempt that has ended, divided to the days (UTC) on which its containers ran."""
    prices, start, end = job.spec.prices, attempt.started_at, _charged_end(attempt)
    if prices is None or start is None or end is None or end <= start:
        return
    rates = hourly(prices, job.spec.resources)
    first = max(start.date(), (end - MAX_DAYS * _DAY).date())
    while start < end:
        midnight = datetime.combine(first + _DAY, time(), tzinfo=end.tzinfo)
        yield first, rates.times(_hours(min(midnight, end) - start))
        start, first = midnight, first + _DAY


def _hours(length: timedelta) -> Decimal:
    return Decimal(length // MICROSECOND) / (_HOUR // MICROSECOND)


def _savings(
    job: Job, now: datetime, rates: Amounts, spent: Decimal, metrics: Mapping[str, MetricValue]
) -> Decimal | None:
    """How much more the job would have cost if it had done all its work.

    By its progress if that is known, else by the timeout of the attempt. None for a job that SUCCEEDED or never ran.
    """
    attempts = job.all_attempts
    if job.status is Status.SUCCEEDED or not attempts:
        return None
    done = job.spec.plan.fraction(metrics)
    if done is not None:
        return max(spent / done - spent, ZERO)
    if job.spec.timeout is None:
        return None
    left = job.spec.timeout - run_time(attempts[-1], now)
    return max(rates.times(_hours(left)).total, ZERO)


class Spending(Struct, frozen=True, kw_only=True):
    """What ended attempts cost on one day, by what a report or a budget groups."""

    #: In UTC.
    day: date
    owner: Owner
    queue: QueueName
    #: The name of the job definition.
    definition: str
    currency: str
    amounts: Amounts

    def plus(self, amounts: Amounts) -> "Spending":
        """The spending with these amounts added."""
        return replace(self, amounts=self.amounts + amounts)


def spending_of(job: Job, attempts: Sequence[Attempt]) -> Iterator[Spending]:
    """What these ended attempts of the job cost, a day each; empty for a job without prices."""
    if job.spec.prices is None:
        return
    for attempt in attempts:
        for day, amounts in cost_by_day(job, attempt):
            yield Spending(
                day=day,
                owner=job.spec.owner,
                queue=job.spec.queue,
                definition=job.spec.definition.name,
                currency=job.spec.prices.currency,
                amounts=amounts,
            )


def cost_between(job: Job, attempt: Attempt, since: datetime | None, until: datetime) -> Amounts:
    """What an attempt costs from `since` (None: its start) to `until`; nothing for a job without prices."""
    prices, start = job.spec.prices, attempt.started_at
    if prices is None or start is None:
        return Amounts()
    start = start if since is None else max(start, since)
    ended = _charged_end(attempt)
    end = until if ended is None else min(ended, until)
    return hourly(prices, job.spec.resources).times(_hours(max(end - start, timedelta())))
