"""A store with jobs in it, and turns over them."""

from dataclasses import dataclass

from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    JobQueue,
    SchedulingPolicy,
)
from batchq.domain.job import ACTIVE, Job
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity
from batchq.domain.scheduling.quotas import NO_QUOTAS
from batchq.domain.scheduling.resources import Stocks, Usage
from batchq.engine.scheduling.placement_pass import new_pass
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.scheduling.queue_reader import Skip
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, environment, queue, resources
from tests.support.inline import InlineStore

NOTHING = Skip()
HOST = resources(millicpus=64_000, memory_mib=64_000)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a catalog has, and it stays as it is."""

    queues: dict[str, JobQueue]
    environments: dict[str, ComputeEnvironment]
    policies: dict[str, SchedulingPolicy]
    consumables: dict[str, ConsumableResource]


def ground(*queues, environments=None, policies=(), consumables=()):
    return Ground(
        queues={it.name: it for it in queues or [queue()]},
        environments={it.name: it for it in environments or [environment()]},
        policies={it.name: it for it in policies},
        consumables={it.name: it for it in consumables},
    )


async def stored(*jobs: Job) -> InlineStore:
    """A store that remembers these jobs."""
    store = InlineStore()
    await store.commit(Changes(inserted=jobs))
    return store


def turn_over(*jobs: Job, now=NOON) -> UnitOfWork:
    """A unit of work; those of the jobs that are active are known to it."""
    return UnitOfWork(now=now, active={job.id: job for job in jobs if job.status in ACTIVE})


def changes(unit):
    return unit.changes(forget_before=NOON)


def statuses(unit, *jobs):
    """How the unit of work leaves them."""
    return [unit.get(job.id).status for job in jobs]


def placed_in(unit, *jobs):
    """The environments they came to, None for those that wait."""
    now = [unit.get(job.id) for job in jobs]
    return [job and job.attempt and job.attempt.environment for job in now]


async def filled(store, on_ground, unit=None, host=HOST, *, skip=NOTHING, uses=None, quotas=NO_QUOTAS):
    """The unit of work, after it has filled what room there is."""
    unit = unit or turn_over(*await store.active())
    await fill(unit, store, on_ground, host, skip=skip, uses=uses, quotas=quotas)
    return unit


async def fill(unit, store, on_ground, host=HOST, *, skip=NOTHING, uses=None, quotas=NO_QUOTAS):
    room = FreeCapacity(
        cluster=site(on_ground, host, quotas), usage=Usage(unit.active().values()).after(()), now=unit.now
    )
    return await new_pass(unit, QueueCache(store), on_ground, capacity=room, usage=uses or {}, skip=skip).run()


def site(on_ground, host=HOST, quotas=NO_QUOTAS):
    """With nothing used up."""
    stocks = Stocks(on_ground.consumables, {})
    return Cluster(environments=on_ground.environments, host=host, stocks=stocks, quotas=quotas)


def learnt(job, **changes):
    """A unit of work that knows this job."""
    unit = turn_over(**changes)
    unit.load([job])
    return unit
