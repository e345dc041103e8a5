"""A day's workload on the whole engine: its jobs, its metrics, and a run of both."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from statistics import mean, quantiles

from batchq.compute.simulated.script import Script
from batchq.domain.catalog import ShareWeight
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.ids import JobId, MachineName
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.machines import Machine, one_machine, usable
from tests.support import builders, scripts
from tests.support.builders import ADMIN, NOON, policy
from tests.support.proxies import StatusChanges
from tests.support.world import World, new_simulated

FAIR, FIFO = "fair", "fifo"
WEIGHTS = {"red": 1.0, "green": 0.5, "blue": 0.25}
SIZES = (1, 1, 1, 1, 2, 2, 4, 8, 16)  # vCPUs
LONGEST = 300  # seconds
WAVES = 20


@dataclass(frozen=True, kw_only=True)
class Task:
    """A submission of a job or an array."""

    job_id: JobId
    spec: JobSpec
    millicpu_seconds: float


def waves(jobs: int, seed: int) -> list[list[Task]]:
    """So many jobs, counting the children of arrays, in equal waves."""
    generator = _Generator(seed)
    made: list[list[Task]] = [[] for _ in range(WAVES)]
    for number, wave in enumerate(made):
        while generator.jobs < jobs * (number + 1) // WAVES:
            wave.extend(generator.next_submissions(jobs - generator.jobs))
    return made


class _Generator:
    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._alone: list[JobId] = []
        self._submissions = 0
        self.jobs = 0

    def next_submissions(self, most: int) -> Iterator[Task]:
        """One submission, or two of which the second depends on the first."""
        rng = self._rng
        first = self._one(size=min(most, rng.randrange(10, 200)) if rng.random() < 0.02 and most > 2 else None)
        yield first
        if first.spec.array_size is None and rng.random() < 0.05 and most > 1:
            yield self._one(depends_on=(first.job_id,))

    def _one(self, *, size: int | None = None, depends_on: tuple[JobId, ...] = ()) -> Task:
        rng = self._rng
        self._submissions += 1
        self.jobs += size or 1
        seconds = min(LONGEST, max(1, round(rng.lognormvariate(3.2, 0.9))))
        share = rng.choices(list(WEIGHTS), weights=[1 / weight for weight in WEIGHTS.values()])[0]
        fair = rng.random() < 0.6
        vcpus = rng.choice(SIZES)
        spec = builders.spec(
            container=scripts.spec(
                Script(seconds=seconds),
                resources=builders.resources(millicpus=1000 * vcpus, memory_mib=rng.choice([512, 1024, 4096]) * vcpus),
            ),
            queue=FAIR if fair else FIFO,
            share_identifier=share if fair else None,
            scheduling_priority=rng.choice([0, 0, 5]) if fair else None,
            timeout=timedelta(seconds=2 * seconds + 60) if rng.random() < 0.5 else None,
            array_size=size,
            depends_on=depends_on,
        )
        return Task(
            job_id=builders.job_id(self._submissions), spec=spec, millicpu_seconds=1000 * vcpus * seconds * (size or 1)
        )


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
        entitled = {
            share: 1 / weight / sum(1 / weight for weight in WEIGHTS.values()) for share, weight in WEIGHTS.items()
        }
        total = sum(self._given.values()) or 1.0
        used_by_share = {share: self._given[share] / total for share in WEIGHTS}
        return Metrics(
            jobs=self._seen,
            unfinished=len(self._left),
            duration=duration,
            utilisation=self._used_time / (self._waiting_time * sum(self._environments.values())),
            waits={queue: _spread([start[2] - start[1] for start in starts]) for queue, starts in self._starts.items()},
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
            self._starts[job.spec.queue].append((job.sequence, began, self._clock.now()))

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
        """The longest wait in the FIFO queue, which has priority: since all older jobs had started."""
        older, most = NOON, timedelta()
        for _, began, started in sorted(self._starts[FIFO]):
            most = max(most, started - max(older, began))
            older = max(older, started)
        return most.total_seconds()


def _spread(waits: list[timedelta]) -> tuple[float, float, float]:
    seconds = [wait.total_seconds() for wait in waits]
    return mean(seconds), quantiles(seconds, n=20)[-1], max(seconds)


LOAD = 1.2  # of what the machine can do, while the work comes in
TIMEOUT = timedelta(days=7)


async def run_workload(jobs: int, *, vcpus: int, seed: int, machines: int = 1) -> Metrics:
    """Run so many jobs on equal machines with so many vCPUs together, in two compute environments of both queues."""
    host = Resources(millicpus=1000 * vcpus, memory_mib=2560 * vcpus)
    environments = {"east": 500 * vcpus, "west": 500 * vcpus}
    world = new_simulated(machines=machines_of(host, machines), survey_interval=600.0)
    recorder = MetricsRecorder(usable(host) if machines == 1 else host, environments, world.clock)
    world.store.after_commit = StatusChanges(recorder.record)
    await world.boot()
    await _make_catalog(world, environments)
    for wave in waves(jobs, seed):
        for task in wave:
            await world.engine.submit(job_id=task.job_id, spec=task.spec, tags=(), key=None, caller=ADMIN)
        await world.sleep(sum(map(_millicpu_seconds, wave)) / (1000 * vcpus) / LOAD)
    ends = world.clock.now() + TIMEOUT
    while recorder.left and world.clock.now() < ends:
        await world.sleep(60)
    await world.engine.stop()
    return recorder.metrics()


def machines_of(host: Resources, count: int) -> tuple[Machine, ...]:
    """The resources of the host, shared out to equal machines."""
    if count == 1:
        return one_machine(host)
    each = Resources(millicpus=host.millicpus // count, memory_mib=host.memory_mib // count)
    return tuple(
        Machine(name=MachineName(f"m{number:04}"), resources=each, is_enforced=True) for number in range(count)
    )


async def _make_catalog(world: World, environments: dict[str, int]) -> None:
    names = tuple(environments)
    for name, most in environments.items():
        await world.environment(name, max_millicpus=most)
    fair = policy(shares=_weights())
    await world.catalog.scheduling_policies.create(fair, caller=None)
    await world.queue(FAIR, policy=fair.name, environments=names)
    await world.queue(FIFO, environments=names[::-1], priority=2)


def _weights():
    return tuple(ShareWeight(identifier=share, weight=weight) for share, weight in WEIGHTS.items())


def _millicpu_seconds(task: Task) -> float:
    return task.millicpu_seconds
