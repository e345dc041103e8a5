"""Runs a workload on the whole engine."""

from datetime import timedelta

from batchq.domain.catalog import ShareWeight
from batchq.domain.container import Resources
from batchq.domain.scheduling.capacity import usable
from tests.schedule.metrics import Metrics, MetricsRecorder
from tests.schedule.workload import FAIR, FIFO, WEIGHTS, Task, waves
from tests.support.builders import ADMIN, policy
from tests.support.store_proxy import StatusChanges
from tests.support.world import World, new_simulated

LOAD = 1.2  # of what the machine can do, while the work comes in
TIMEOUT = timedelta(days=7)


async def run_workload(jobs: int, *, vcpus: int, seed: int) -> Metrics:
    """Run so many jobs on a host of so many vCPUs, in two compute environments that both queues use."""
    host = Resources(millicpus=1000 * vcpus, memory_mib=2560 * vcpus)
    environments = {"east": 500 * vcpus, "west": 500 * vcpus}
    world = new_simulated(capacity=host, survey_interval=600.0)
    recorder = MetricsRecorder(usable(host), environments, world.clock)
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
