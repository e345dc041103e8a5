"""What is submitted: jobs of mixed sizes and lengths, alone, in arrays and after one another, to two queues."""

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
    """A submission, of an array where `spec` says so."""

    job_id: JobId
    spec: JobSpec
    millicpu_seconds: float


def waves(jobs: int, seed: int) -> list[list[Task]]:
    """So many jobs, the children of arrays counted, in equal waves."""
    maker = _Maker(seed)
    made: list[list[Task]] = [[] for _ in range(WAVES)]
    for number, wave in enumerate(made):
        while maker.jobs < jobs * (number + 1) // WAVES:
            wave.extend(maker.some(jobs - maker.jobs))
    return made


class _Maker:
    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self._alone: list[JobId] = []
        self._submissions = 0
        self.jobs = 0

    def some(self, most: int) -> Iterator[Task]:
        """One submission, or one and another that waits for it."""
        dice = self._dice
        first = self._one(size=min(most, dice.randrange(10, 200)) if dice.random() < 0.02 and most > 2 else None)
        yield first
        if first.spec.array_size is None and dice.random() < 0.05 and most > 1:
            yield self._one(depends_on=(first.job_id,))

    def _one(self, *, size: int | None = None, depends_on: tuple[JobId, ...] = ()) -> Task:
        dice = self._dice
        self._submissions += 1
        self.jobs += size or 1
        lasts = min(LONGEST, max(1, round(dice.lognormvariate(3.2, 0.9))))
        share = dice.choices(list(WEIGHTS), weights=[1 / it for it in WEIGHTS.values()])[0]
        fair = dice.random() < 0.6
        vcpus = dice.choice(SIZES)
        spec = builders.spec(
            container=scripts.spec(
                Script(seconds=lasts),
                resources=builders.resources(millicpus=1000 * vcpus, memory_mib=dice.choice([512, 1024, 4096]) * vcpus),
            ),
            queue=FAIR if fair else FIFO,
            share_identifier=share if fair else None,
            scheduling_priority=dice.choice([0, 0, 5]) if fair else None,
            timeout=timedelta(seconds=2 * lasts + 60) if dice.random() < 0.5 else None,
            array_size=size,
            depends_on=depends_on,
        )
        return Task(
            job_id=builders.job_id(self._submissions),
            spec=spec,
            millicpu_seconds=1000 * vcpus * lasts * (size or 1),
        )
