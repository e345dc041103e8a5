"""Measures a run from its status changes: waiting times, utilisation, and the use of each share."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import mean, quantiles

from batchq.domain.container import Resources
from batchq.domain.ids import JobId
from batchq.domain.job import ACTIVE, FINISHED, Job, Status
from batchq.domain.lifecycle.arrays import is_parent
from tests.schedule.workload import FAIR, FIFO, WEIGHTS
from tests.support.builders import NOON


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The result of a run. Times are in seconds."""

    jobs: int
    unfinished: int
    duration: float
    utilisation: float  # of the vCPUs, while a job waited
    waits: Mapping[str, tuple[float, float, float]]  # by queue: mean, 95th percentile, most
    longest_delay: float  # the longest wait of a FIFO job after all older jobs of its queue had started
    share_error: float
    used_by_share: Mapping[str, float]  # by share: its part of the vCPU time while all shares had waiting jobs


class MetricsRecorder:
    """Raises AssertionError when more resources are in use than exist."""

    def __init__(self, host: Resources, environments: Mapping[str, int], clock) -> None:
        self._host, self._environments, self._clock = host, environments, clock
        self._since = NOON
        self._held: Counter[str] = Counter()
        self._memory = 0
        self._used_time = self._waiting_time = 0.0
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

    def metrics(self) -> Metrics:
        duration = (self._last - NOON).total_seconds()
        entitled = {share: 1 / weight / sum(1 / it for it in WEIGHTS.values()) for share, weight in WEIGHTS.items()}
        total = sum(self._given.values()) or 1.0
        used_by_share = {share: self._given[share] / total for share in WEIGHTS}
        return Metrics(
            jobs=self._seen,
            unfinished=len(self._left),
            duration=duration,
            utilisation=self._used_time / (self._waiting_time * sum(self._environments.values())),
            waits={queue: _spread([it[2] - it[1] for it in starts]) for queue, starts in self._starts.items()},
            longest_delay=self._longest_delay(),
            share_error=max(abs(used_by_share[share] - entitled[share]) for share in WEIGHTS),
            used_by_share=used_by_share,
        )

    def _pass_time(self) -> None:
        now = self._clock.now()
        passed = (now - self._since).total_seconds()
        self._since = now
        if self._runnable:
            self._used_time += passed * self._held.total()
            self._waiting_time += passed
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

    def _longest_delay(self) -> float:
        """Of the FIFO queue, which goes first: from when a job waited and all older ones had started."""
        older, most = NOON, timedelta()
        for _, began, started in sorted(self._starts[FIFO]):
            most = max(most, started - max(older, began))
            older = max(older, started)
        return most.total_seconds()


def _spread(waits: list[timedelta]) -> tuple[float, float, float]:
    seconds = [it.total_seconds() for it in waits]
    return mean(seconds), quantiles(seconds, n=20)[-1], max(seconds)
