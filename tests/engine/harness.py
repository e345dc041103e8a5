"""A store with jobs, units of work over them, and an engine loop that handles the messages of a test."""

import asyncio
from dataclasses import dataclass

from batchq.domain.catalog import ComputeEnvironment, ConsumableResource, JobQueue, SchedulingPolicy
from batchq.domain.enums import ACTIVE
from batchq.domain.job import Job
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.quotas import NO_QUOTAS
from batchq.domain.scheduling.resources import Stocks, Usage
from batchq.engine.containers.watcher import RuntimeCheck
from batchq.engine.loop import EngineLoop
from batchq.engine.mailbox import JobEvent, Mailbox, Submit, SurveyCompleted
from batchq.engine.scheduling.placement_pass import new_pass
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.scheduling.queue_reader import Exclusions
from batchq.engine.supervisor import Supervisor
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.jobs import Changes
from tests.support.builders import ADMIN, NO_ACCOUNTS, NOON, environment, job_id, queue, resources, spec
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore
from tests.support.stubs import NoObserver

NOTHING = Exclusions()
HOST = resources(millicpus=64_000, memory_mib=64_000)


@dataclass(frozen=True, kw_only=True)
class FixedCatalog:
    """A catalog view that does not change."""

    queues: dict[str, JobQueue]
    environments: dict[str, ComputeEnvironment]
    policies: dict[str, SchedulingPolicy]
    consumables: dict[str, ConsumableResource]


def catalog_of(*queues, environments=None, policies=(), consumables=()):
    return FixedCatalog(
        queues={other_queue.name: other_queue for other_queue in queues or [queue()]},
        environments={
            other_environment.name: other_environment for other_environment in environments or [environment()]
        },
        policies={policy.name: policy for policy in policies},
        consumables={consumable.name: consumable for consumable in consumables},
    )


async def stored(*jobs: Job) -> InlineStore:
    """A store that contains these jobs."""
    store = InlineStore()
    await store.commit(Changes(inserted=jobs))
    return store


def new_unit(*jobs: Job, now=NOON) -> UnitOfWork:
    """A unit of work that knows the active ones of these jobs."""
    return UnitOfWork(now=now, active={job.id: job for job in jobs if job.status in ACTIVE})


def changes(unit):
    return unit.changes(forget_before=NOON)


def statuses(unit, *jobs):
    """The statuses after the unit of work."""
    return [unit.get(job.id).status for job in jobs]


def environments_of(unit, *jobs):
    """The environments of their attempts, None for jobs that wait."""
    now = [unit.get(job.id) for job in jobs]
    return [job and job.attempt and job.attempt.environment for job in now]


async def after_placement(store, catalog, unit=None, host=HOST, *, skip=NOTHING, uses=None, quotas=NO_QUOTAS):
    """The unit of work, after it has after_placement what room there is."""
    unit = unit or new_unit(*await store.active())
    await run_placement(unit, store, catalog, host, skip=skip, uses=uses, quotas=quotas)
    return unit


async def run_placement(unit, store, catalog, host=HOST, *, skip=NOTHING, uses=None, quotas=NO_QUOTAS):
    room = FreeCapacity(
        cluster=site(catalog, host, quotas), usage=Usage(unit.active().values()).after(()), now=unit.now
    )
    return await new_pass(unit, QueueCache(store), catalog, capacity=room, usage=uses or {}, skip=skip).run()


def site(catalog, host=HOST, quotas=NO_QUOTAS):
    """A cluster whose consumable resources are all left."""
    stocks = Stocks(catalog.consumables, {})
    return Cluster(
        environments=catalog.environments,
        machines=MachineSet(one_machine(host), catalog.environments.values()),
        stocks=stocks,
        quotas=quotas,
    )


def unit_with(job, **changes):
    """A unit of work that knows this job."""
    unit = new_unit(**changes)
    unit.load([job])
    return unit


ONE, TWO = job_id(1_000_000), job_id(1_000_001)
SURVEYED = SurveyCompleted(containers=(), began_at=NOON, expected=frozenset(), machines=one_machine(HOST))


class LoopHarness:
    """An engine loop over a store, and the effects that it requested."""

    def __init__(self, store, catalog, accounts=NO_ACCOUNTS):
        self.store, self.effects = store, []
        clock = VirtualClock()
        self.mailbox, self.tasks = Mailbox(), Supervisor(clock)
        self.loop = EngineLoop(
            mailbox=self.mailbox,
            store=store,
            catalog=catalog,
            accounts=accounts,
            clock=clock,
            execute=lambda effect, _: self.effects.append(effect),
            on_saved=lambda _: None,
            tasks=self.tasks,
            engine_check=RuntimeCheck(),
            observer=NoObserver(),
        )

    async def process(self, *messages):
        await self.loop.process(messages)

    async def status(self, job):
        return (await self.store.jobs([job.id]))[job.id].status


async def harness_with(*jobs, catalog=None, accounts=NO_ACCOUNTS):
    """A harness with these jobs in its store, before its first unit of work."""
    harness = LoopHarness(await stored(*jobs), catalog or catalog_of(), accounts)
    await harness.loop.load()
    return harness


def answer():
    return asyncio.get_running_loop().create_future()


def submit(new, key=None, caller=ADMIN, **fields):
    return Submit(job_id=new, spec=spec(**fields), tags=(), key=key, caller=caller, answer=answer())


def request(job, event):
    return JobEvent(job_id=job.id, event=event, answer=answer())


def event_message(job, event):
    return JobEvent(job_id=job.id, event=event)
