"""`python -m tests.bench.machines` measures a unit of work with many queued jobs, on one machine and on a thousand.

All machines together have the same resources. They are full, and the first job of the queue waits for a whole machine
or for as much of the one machine. In each unit of work one job ends, and the scheduler searches the queue for others.
"""

import argparse
import asyncio
import time
from itertools import islice
from random import Random
from statistics import median, quantiles

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.ids import MachineName
from batchq.domain.machines import Machine, one_machine
from batchq.engine.mailbox import ContinueWork, JobEvent
from batchq.ports.jobs import Changes
from tests.engine.harness import SURVEYED, LoopHarness, catalog_of, stored
from tests.support import builders
from tests.support.builders import NOON

VCPUS, MIB = 16, 65_536  # of each machine
SIZES = (1, 1, 1, 2, 2, 4, 8)  # vCPUs
AT_ONCE = 5000  # jobs in one insertion


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.machines", description=__doc__)
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--machines", type=int, default=1000)
    options.add_argument("--units", type=int, default=300)
    given = options.parse_args()
    base: float | None = None
    for count in (1, given.machines):
        took = asyncio.run(run(given.jobs, total=given.machines, count=count, units=given.units))
        base = base or median(took)
        print(
            f"{count} machines, {given.jobs:,} queued jobs: a unit of work takes {median(took) * 1000:.2f} ms of CPU "
            f"(95 % at most {quantiles(took, n=20)[-1] * 1000:.2f}), {median(took) / base:.2f} times that with one"
        )


async def run(jobs: int, *, total: int, count: int, units: int) -> list[float]:
    """Seconds of CPU of each unit of work."""
    dice = Random(1)
    each = Resources(millicpus=1000 * VCPUS * total // count, memory_mib=MIB * total // count)
    machines = one_machine(each)
    if count > 1:
        machines = tuple(
            Machine(name=MachineName(f"m{number:04}"), resources=each, is_enforced=True) for number in range(count)
        )
    environment = replace(builders.environment("local"), max_millicpus=1000 * VCPUS * total)
    harness = LoopHarness(await stored(), catalog_of(environments=[environment]))
    waiting = (_job(number, dice) for number in range(jobs + 8 * total))
    while some := tuple(islice(waiting, AT_ONCE)):
        await harness.store.commit(Changes(inserted=some))
    await harness.loop.load()
    await harness.process(replace(SURVEYED, machines=machines))
    before = -1
    while len(harness.loop.state.active) > before:
        before = len(harness.loop.state.active)
        await harness.process(ContinueWork())
    took = []
    for _ in range(units):
        ended = dice.choice(list(harness.loop.state.active.values()))
        event = on.ContainerExited(attempt=1, exit_code=0, started_at=NOON, stopped_at=NOON)
        began = time.process_time()
        await harness.process(JobEvent(job_id=ended.id, event=event))
        took.append(time.process_time() - began)
    return took


def _job(number: int, dice: Random):
    vcpus = dice.choice(SIZES)
    return builders.job(
        number=number, status=Status.RUNNABLE, runnable_at=NOON, millicpus=1000 * vcpus, memory_mib=2048 * vcpus
    )


if __name__ == "__main__":
    main()
