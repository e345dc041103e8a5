"""Generates jobs of mixed sizes and durations, alone, in arrays and with dependencies, for two queues."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from batchq.compute.simulated.script import Script
from batchq.domain.ids import JobId
from batchq.domain.job import JobSpec
from tests.support import builders, scripts

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
        share = rng.choices(list(WEIGHTS), weights=[1 / it for it in WEIGHTS.values()])[0]
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
            job_id=builders.job_id(self._submissions),
            spec=spec,
            millicpu_seconds=1000 * vcpus * seconds * (size or 1),
        )
