"""Measures the runtime beside many pods of batchq that are bound to no node. They are removed at the end.

python -m tests.kubernetes.bed run .venv/bin/python -m tests.kubernetes.bed.unbound_pods --pods 1000
"""

import argparse
import asyncio
import os
import time
from contextlib import asynccontextmanager
from functools import partial
from resource import RUSAGE_SELF, getrusage
from statistics import median
from uuid import uuid4

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.domain.catalog import Network
from batchq.settings import Privileged
from batchq.system.clock import SystemClock
from tests.kubernetes.service import CLUSTER, remove
from tests.support.containers import launch, launched, over, until_answered
from tests.support.kubernetes import PlacedRuntime
from tests.support.scripts import Script

AT_ONCE = 16  # calls
SURVEYS, READS = 10, 100
SURVEY_INTERVAL = 10.0  # seconds, as the server's
IDLE_SURVEYS = 6


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.bed.unbound_pods", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    reference = os.environ.get(CLUSTER)
    if reference is None:
        raise SystemExit(f"{CLUSTER} names no cluster")
    asyncio.run(measure(reference, parser.parse_args().pods))


async def measure(reference, count):
    async with connected(reference) as runtime:
        await runtime.survey()
        runtime.machine = next(machine.name for machine in await runtime.machines() if machine.is_open)
        await show("0 unbound pods: a survey", runtime.survey, SURVEYS)
        launches = [launch(Script(seconds=0)) for _ in range(count)]
        try:
            await show(f"the creation of {count} pods", lambda: create(runtime, launches), 1)
            await show(f"{count} unbound pods: a survey", runtime.survey, SURVEYS)
            await show("an inspection", lambda: runtime.inspect(launches[0].tag), READS)
            await show("the nodes", runtime.machines, READS)
            await show("a job of `true`, from its creation to its end", lambda: run_one(runtime), 5)
            await show(f"{IDLE_SURVEYS * SURVEY_INTERVAL:.0f} s with {IDLE_SURVEYS} surveys", lambda: idle(runtime), 1)
            async with connected(reference, runtime._instance) as other:
                await show("the first survey and the watch of a new server", lambda: begin(other), 1)
            print(f"at most {getrusage(RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
        finally:
            await show(f"the removal of {count} pods", lambda: remove_all(runtime), 1)


@asynccontextmanager
async def connected(reference, instance=None):
    runtime = PlacedRuntime(
        instance=instance or f"t{uuid4().hex[:10]}",
        cluster=load_cluster(reference),
        clock=SystemClock(),
        policy=PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE),
        allow_old=True,
    )
    try:
        yield runtime
    finally:
        await runtime.close()


async def show(what, call, times):
    """Print the time and the CPU of this process for one call."""
    took, cpu = [], time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    cpu = (time.process_time() - cpu) / times
    print(f"{what}: median {median(took) * 1000:.1f} ms, max {max(took) * 1000:.1f} ms, CPU {cpu * 1000:.1f} ms")


async def create(runtime, launches):
    room = asyncio.Semaphore(AT_ONCE)

    async def create_one(container):
        async with room:
            await until_answered(partial(runtime.create, container))

    await asyncio.gather(*map(create_one, launches))


async def run_one(runtime):
    tag = await launched(runtime, launch(Script(seconds=0)))
    await over(runtime, tag)
    await runtime.remove(tag)


async def begin(runtime):
    async with runtime.deaths():
        await runtime.survey()


async def idle(runtime):
    async with runtime.deaths():
        for _ in range(IDLE_SURVEYS):
            await asyncio.sleep(SURVEY_INTERVAL)
            await runtime.survey()


async def remove_all(runtime):
    while found := await until_answered(runtime.survey):
        await asyncio.gather(*(remove(runtime, found[number::AT_ONCE]) for number in range(AT_ONCE)))
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    main()
