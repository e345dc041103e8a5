"""Records every status change: who waited how long, what was held, and what was given to whom."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import mean, quantiles

from batchq.domain.container import Resources
from batchq.domain.ids import JobId
from batchq.domain.job import ACTIVE, FINISHED, Job, Status
from batchq.domain.lifecycle.arrays import is_parent
from tests.schedule.work import FAIR, FIFO, WEIGHTS
from tests.support.builders import NOON


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Seconds where nothing else is said."""

    jobs: int
    unfinished: int
    lasted: float
    utilisation: float  # of the vCPUs, while somebody waited
    waited: Mapping[str, tuple[float, float, float]]  # by queue: mean, 95th percentile, most
    delayed: float  # most that a FIFO job waited when all older ones of its queue had started
    share_error: float
    given: Mapping[str, float]  # by share, of all that was given while all had jobs that waited


class Witness:
    """Raises AssertionError at once when more is held than there is."""

    def __init__(self, host: Resources, environments: Mapping[str, int], clock) -> None:
        self._host, self._environments, self._clock = host, environments, clock
        self._since = NOON
        self._held: Counter[str] = Counter()
        self._memory = 0
        self._used = self._waited = 0.0
        self._waiting: Counter[str] = Counter()
        self._shares: Counter[str] = Counter()
        self._given: Counter[str] = Counter()
        self._runnable: dict[JobId, datetime] = {}
        self._starts: dict[str, list[tuple[int, datetime, datetime]]] = {FAIR: [], FIFO: []}
        self._left: set[JobId] = set()
        self._seen = 0
        self._last = NOON

    def record(self, before: Status | None, status: Status, job: Job) -> None:
        if is_parent(job):
            return
        self._pass_time()
        if before is None:
            self._seen += 1
            self._left.add(job.id)
        self._count_waiting(before, status, job)
        self._count_held(before, status, job)
        if status in FINISHED:
            assert status is Status.SUCCEEDED, f"{job.id} {job.status_reason}"
            self._left.remove(job.id)
            self._last = self._clock.now()

    @property
    def left(self) -> int:
        return len(self._left)

    def sums(self) -> Sums:
        lasted = (self._last - NOON).total_seconds()
        entitled = {share: 1 / weight / sum(1 / it for it in WEIGHTS.values()) for share, weight in WEIGHTS.items()}
        total = sum(self._given.values()) or 1.0
        given = {share: self._given[share] / total for share in WEIGHTS}
        return Sums(
            jobs=self._seen,
            unfinished=len(self._left),
            lasted=lasted,
            utilisation=self._used / (self._waited * sum(self._environments.values())),
            waited={queue: _spread([it[2] - it[1] for it in starts]) for queue, starts in self._starts.items()},
            delayed=self._most_delayed(),
            share_error=max(abs(given[share] - entitled[share]) for share in WEIGHTS),
            given=given,
        )

    def _pass_time(self) -> None:
        now = self._clock.now()
        passed = (now - self._since).total_seconds()
        self._since = now
        if self._runnable:
            self._used += passed * self._held.total()
            self._waited += passed
        if passed and all(self._waiting[share] for share in WEIGHTS):
            for share in WEIGHTS:
                self._given[share] += passed * self._shares[share]

    def _count_waiting(self, before: Status | None, status: Status, job: Job) -> None:
        share = job.spec.share_identifier or ""
        if status is Status.RUNNABLE:
            self._waiting[share] += 1
            self._runnable[job.id] = self._clock.now()
        elif before is Status.RUNNABLE:
            self._waiting[share] -= 1
            began = self._runnable.pop(job.id)
            self._starts[job.spec.queue].append((job.order, began, self._clock.now()))

    def _count_held(self, before: Status | None, status: Status, job: Job) -> None:
        if (before in ACTIVE) == (status in ACTIVE):
            return
        sign = 1 if status in ACTIVE else -1
        wanted = job.spec.resources
        where = job.attempt.environment if job.attempt else job.attempts[-1].environment
        self._held[where] += sign * wanted.millicpus
        self._memory += sign * wanted.memory_mib
        self._shares[job.spec.share_identifier or ""] += sign * wanted.millicpus
        assert self._held[where] <= self._environments[where], f"{where} is overcommitted"
        assert self._memory <= self._host.memory_mib, "the memory is overcommitted"

    def _most_delayed(self) -> float:
        """Of the FIFO queue, which goes first: from when a job waited and all older ones had started."""
        older, most = NOON, timedelta()
        for _, began, started in sorted(self._starts[FIFO]):
            most = max(most, started - max(older, began))
            older = max(older, started)
        return most.total_seconds()


def _spread(waits: list[timedelta]) -> tuple[float, float, float]:
    seconds = [it.total_seconds() for it in waits]
    return mean(seconds), quantiles(seconds, n=20)[-1], max(seconds)
