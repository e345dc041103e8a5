"""The cost of measuring running containers, for a server and for the end of a job."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from batchq.compute.docker.runtime import DockerRuntime
from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.job import Job
from batchq.engine.unit_of_work import UnitOfWork
from batchq.engine.use import UseSampler, UseSamples
from batchq.system.clock import SystemClock
from tests.bench.bare import Bare
from tests.bench.figures import Figure, Scale, at_most_more, compared
from tests.support.builders import job

ENDS = 500  # in one measurement


class NothingMeasured(DockerRuntime):
    """A runtime that cannot read the cgroups of its containers."""

    async def measure(self, *_: object, **__: object) -> None: ...


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    with closing(Bare()) as bare:
        names = bare.launch(scale.running, "sleep", "100000")
        jobs = [running(number, bare.api.inspect_container(name)["Id"]) for number, name in enumerate(names)]
        yield compared(
            scale.pairs,
            lambda: core_share(jobs, NothingMeasured, scale.event_seconds),
            lambda: core_share(jobs, DockerRuntime, scale.event_seconds),
            name=f"% of a core to measure {scale.running} running containers each second",
            against="without measuring",
            goal=at_most_more(2),
        )
        samples = asyncio.run(sampled(jobs))
        bare.each(names, bare.remove)
    yield compared(
        scale.pairs,
        lambda: end_microseconds(jobs, UseSamples()),
        lambda: end_microseconds(jobs, samples),
        name="us of CPU of an end in its unit of work",
        against="without a sample",
        goal=at_most_more(20),
    )


def running(number: int, container_id: str) -> Job:
    """A running job in the container."""
    of = job(number=number, status=Status.RUNNING)
    assert of.attempt is not None
    (container,) = of.attempt.containers
    begun = replace(container, state=AttemptContainerState.RUNNING, container_id=container_id)
    return replace(of, attempt=replace(of.attempt, containers=(begun,)))


def core_share(jobs: Sequence[Job], runtime: Callable[..., DockerRuntime], seconds: float) -> float:
    """The CPU of this process in per cent of a core, while the containers of the jobs are followed."""

    async def follow() -> float:
        task = following(jobs, runtime(instance="bench"), UseSamples())
        await asyncio.sleep(2)  # the first samples
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        share = 100 * (time.process_time() - used) / (time.perf_counter() - began)
        task.cancel()
        return share

    return asyncio.run(follow())


async def sampled(jobs: Sequence[Job]) -> UseSamples:
    """A sample of the container of each job."""
    samples = UseSamples()
    task = following(jobs, DockerRuntime(instance="bench"), samples)
    await asyncio.sleep(2)
    task.cancel()
    assert len(samples.latest) == len(jobs)
    return samples


def following(jobs: Sequence[Job], runtime: DockerRuntime, samples: UseSamples) -> "asyncio.Task[None]":
    """The task of a sampler that follows the containers of the jobs."""
    sampler = UseSampler(runtime=runtime, clock=SystemClock(), samples=samples)
    for each in jobs:
        sampler.on_saved(each)
    return asyncio.create_task(sampler.run())


def end_microseconds(jobs: Sequence[Job], samples: UseSamples) -> float:
    """The CPU time of one end of a job: the event that its container has exited."""
    now = datetime.now(tz=UTC)
    exited = on.ContainerExited(attempt=1, exit_code=0, started_at=now, stopped_at=now)
    used = time.process_time()
    for number in range(ENDS):
        ending = jobs[number % len(jobs)]
        unit = UnitOfWork(now=now, active={ending.id: ending})
        samples.step(unit, ending.id, exited)
        ended = unit.get(ending.id)
        assert ended is not None
        assert ended.status is Status.SUCCEEDED
    return (time.process_time() - used) / ENDS * 1e6
