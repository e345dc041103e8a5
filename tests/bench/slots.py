"""`python -m tests.bench.slots` runs a million jobs on ten thousand slots: the whole engine on the virtual clock.

Containers are simulated and the store is in memory, so it measures the scheduler without a disk.
"""

import argparse
import asyncio
import resource
import time
from functools import cache
from random import Random

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.compute.simulated.script import Script
from batchq.domain.container import Resources
from batchq.domain.ids import Tag
from batchq.domain.job import JobSpec
from batchq.domain.machines import one_machine
from tests.bench.engines import Running
from tests.support import builders, scripts
from tests.support.clock import TimerLoop, VirtualClock
from tests.support.inline import InlineStore

SHORTEST, LONGEST = 60, 3600  # seconds
AT_ONCE = 1000  # submissions


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.slots", description=__doc__)
    options.add_argument("--jobs", type=int, default=1_000_000)
    options.add_argument("--slots", type=int, default=10_000)
    given = options.parse_args()
    began, before, loop = time.perf_counter(), time.process_time(), TimerLoop()
    hours = loop.run_until_complete(run(given.jobs, given.slots))
    loop.close()
    cpu, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    took = f"{time.perf_counter() - began:.0f} s, {cpu:.0f} s of CPU ({cpu / given.jobs * 1000:.2f} ms a job)"
    print(f"{given.jobs:,} jobs on {given.slots:,} slots, {hours:.1f} simulated hours: {took}, {peak} MiB at most")


async def run(jobs: int, slots: int) -> float:
    """Run the jobs. Returns the simulated hours until the last one has ended."""
    clock = VirtualClock()
    host = Resources(millicpus=1000 * slots, memory_mib=1024 * slots)
    runtime = SimulatedRuntime(clock=clock, machines=one_machine(host))
    at_work = Running(InlineStore(), runtime, clock, vcpus=slots, capture_log=_keep_nothing, survey_interval=600.0)
    await at_work.engine.start()
    over = asyncio.create_task(at_work.wait_for_ends(jobs))
    dice, began = Random(1), clock.now()
    for first in range(0, jobs, AT_ONCE):
        some = range(first, min(jobs, first + AT_ONCE))
        lasts = [dice.randint(SHORTEST, LONGEST) for _ in some]
        await asyncio.gather(*(at_work.submit(number, spec(run)) for number, run in zip(some, lasts, strict=True)))
    await over
    await at_work.engine.stop()
    return (clock.now() - began).total_seconds() / 3600


@cache
def spec(seconds: int) -> JobSpec:
    small = builders.resources(millicpus=1000, memory_mib=128)
    return builders.spec(container=scripts.spec(Script(seconds=seconds), resources=small))


async def _keep_nothing(_: Tag) -> None:
    pass


if __name__ == "__main__":
    main()
