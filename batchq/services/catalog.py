"""The catalog service: the tables of all resources, and what a change of one requires of the others.

All resources except job definitions are held in memory, where the scheduler reads them in each unit of work. Changes
are serialized, and memory is updated after the store has saved a change. The engine knows the usage of consumable
resources.

The first start of a data directory creates a compute environment and a queue, so that jobs can run at once.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    EnvironmentName,
    JobQueue,
    PolicyName,
    QuantityOperation,
    ResourceKind,
    SchedulingPolicy,
)
from batchq.domain.enums import State
from batchq.domain.ids import ConsumableName, QueueName
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.services.catalog_tables import JobDefinitionService, ResourceTable, WriteLock, serialized
from batchq.system.host import DiskGuard

MAX_RESOURCES = 50_000  # AWS: the limit for an account and region
TOKEN_LIFETIME = timedelta(hours=8)
"""AWS: how long a clientToken is valid. Counted by one clock: decision 0122."""
DEFAULT_ENVIRONMENT = EnvironmentName("local")
DEFAULT_QUEUE = QueueName("default")
_DEFAULTS_CREATED = "defaults created"


class ConsumableUsage(Protocol):
    """The usage of consumable resources by jobs, and the time for which the clock has not jumped.

    Usage is counted by name, so it outlives a deleted resource.
    """

    def in_use(self, name: ConsumableName) -> int:
        """Units that STARTING and RUNNING jobs hold."""

    def used_up(self, name: ConsumableName) -> int:
        """Units that jobs have taken in total while the resource was NON_REPLENISHABLE."""

    def steady_since(self, now: datetime) -> datetime:
        """The last jump of the clock, or the start of the server if there was none."""


class Quantities(Struct, frozen=True, kw_only=True):
    """The units of a consumable resource."""

    #: All units, without those that are used up.
    total: int
    #: Units that jobs hold.
    in_use: int
    available: int


class ConsumableResourceService(ResourceTable[ConsumableName, ConsumableResource]):
    """All consumable resources."""

    def __init__(
        self, *, write_lock: WriteLock, store: CatalogStore, clock: Clock, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each change, to schedule again.

        A deletion affects no job: those that hold units keep running, and those that require units wait until a
        resource of this name is created.
        """
        super().__init__(ConsumableResource, write_lock=write_lock, store=store, changed=changed)
        #: None before the engine exists: nothing is used, and no clientToken expires.
        self.usage: ConsumableUsage | None = None
        self._clock = clock

    def quantities(self, resource: ConsumableResource) -> Quantities:
        """The present quantities of a resource.

        AWS: units of a NON_REPLENISHABLE resource leave `total` when a job takes them, so `available` deducts nothing
        more.
        """
        total = self._remaining(resource)
        in_use = 0 if self.usage is None else self.usage.in_use(resource.name)
        held = in_use if resource.kind is ResourceKind.REPLENISHABLE else 0
        return Quantities(total=total, in_use=in_use, available=max(0, total - held))

    @serialized
    async def create(self, resource: ConsumableResource, *, caller: Caller | None) -> ConsumableResource:
        """Create a resource with all of `total` available, also if a deleted resource of this name was used up.

        Raises Invalid if the name is taken, if the quantity is invalid, or beyond MAX_RESOURCES resources.
        """
        rules.require_free_name(resource.name, self.known)
        rules.require_room(ConsumableResource.__name__, len(self.known), MAX_RESOURCES)
        total = rules.valid_quantity(resource.total) + self._used_up(resource)
        return await self.put(replace(resource, total=total, tags=rules.tagged((), resource.tags)), caller=caller)

    @serialized
    async def change_total(
        self, name: ConsumableName, *, operation: QuantityOperation, quantity: int, token: str | None, caller: Caller
    ) -> ConsumableResource:
        """Set, raise or lower the total. Units that jobs hold are not affected.

        AWS: an update with a `token` is applied once in 8 hours, as `_expired_before` counts them. Raises NotFound;
        Invalid if the total would be negative or too large, or if the token was used with another operation or
        quantity.
        """
        before = self.get(name)
        now = self._clock.now()
        requested = ConsumableUpdate(
            token=token or "", operation=operation, quantity=rules.valid_quantity(quantity), at=now
        )
        forget_before = self._expired_before(now)
        if token is not None and await self._was_applied(before, requested, forget_before):
            return before
        total = rules.updated_total(self._remaining(before), requested.operation, requested.quantity)
        after = replace(before, total=total + self._used_up(before))
        if token is None:
            return await self.put(after, caller=caller)
        await self._store.update_consumable(after, requested, forget_before=forget_before, caller=caller)
        return self.saved(after)

    def _remaining(self, resource: ConsumableResource) -> int:
        """The units that are not used up. Never negative: jobs may take units while a lower total is being saved."""
        return max(0, resource.total - self._used_up(resource))

    def _used_up(self, resource: ConsumableResource) -> int:
        if self.usage is None or resource.kind is ResourceKind.REPLENISHABLE:
            return 0
        return self.usage.used_up(resource.name)

    def _expired_before(self, now: datetime) -> datetime | None:
        """The tokens used before this time have expired; None: no token.

        No token expires before one clock has counted TOKEN_LIFETIME without a jump: after a reboot or a suspension of
        the machine a stored time may be too old by hours, and clients repeat their requests then. Decision 0122.
        """
        begin = now - TOKEN_LIFETIME
        return begin if self.usage is not None and self.usage.steady_since(now) <= begin else None

    async def _was_applied(
        self, resource: ConsumableResource, update: ConsumableUpdate, expired_before: datetime | None
    ) -> bool:
        """Whether this update has been applied already. Raises Invalid if its token was used for another update."""
        known = await self._store.consumable_update(resource.name, update.token)
        if known is None or (expired_before is not None and known.at < expired_before):
            return False
        if (known.operation, known.quantity) != (update.operation, update.quantity):
            raise Invalid("The clientToken was used already with a different operation or quantity.")
        return True


class CatalogService:
    """The catalog: compute environments, job queues, job definitions, scheduling policies, consumable resources."""

    #: How many changes there were since the start, except of job definitions.
    version = 0
    #: Held while a unit of work runs; None before the engine exists.
    unit_lock: asyncio.Lock | None = None

    def __init__(
        self, *, store: CatalogStore, jobs: JobStore, clock: Clock, disk_guard: DiskGuard, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each change, except of job definitions, to schedule again."""
        self._store, self._jobs, self._clock, self._changed, write_lock = store, jobs, clock, changed, WriteLock()
        #: Deletion raises Invalid while the environment is ENABLED or a queue uses it. Its jobs keep running.
        self.compute_environments: ResourceTable[EnvironmentName, ComputeEnvironment] = ResourceTable(
            ComputeEnvironment,
            write_lock=write_lock,
            store=store,
            changed=self._count_change,
            check_deletion=self._check_environment_deletion,
            tagged=rules.environment_tagged,
        )
        #: A change raises NotFound for an unknown environment or policy; Invalid if a queue would lose its policy, or a
        #: queue without one would get one. Deletion raises Invalid while the queue is ENABLED or has unfinished jobs.
        self.job_queues: ResourceTable[QueueName, JobQueue] = ResourceTable(
            JobQueue,
            write_lock=write_lock,
            store=store,
            changed=self._count_change,
            check=self._check_queue,
            check_deletion=self._check_queue_deletion,
        )
        #: A change raises Invalid if two shares overlap, deletion while a queue uses the policy.
        self.scheduling_policies: ResourceTable[PolicyName, SchedulingPolicy] = ResourceTable(
            SchedulingPolicy,
            write_lock=write_lock,
            store=store,
            changed=self._count_change,
            check=lambda _, after: rules.require_disjoint_shares(after.shares),
            check_deletion=self._check_policy_deletion,
        )
        self.consumable_resources = ConsumableResourceService(
            write_lock=write_lock, store=store, clock=clock, changed=self._count_change
        )
        self.definitions = JobDefinitionService(write_lock=write_lock, store=store, disk_guard=disk_guard)
        #: The tables as `CatalogView` shows them.
        self.environments, self.queues = self.compute_environments.known, self.job_queues.known
        self.policies, self.consumables = self.scheduling_policies.known, self.consumable_resources.known

    def _count_change(self) -> None:
        self.version += 1
        self._changed()

    async def load(self) -> None:
        """Read the catalog from the store. It is empty before."""
        await self.compute_environments.load()
        await self.job_queues.load()
        await self.scheduling_policies.load()
        await self.consumable_resources.load()

    async def install_defaults(self, *, max_millicpus: int) -> None:
        """Create the environment `local` and the queue `default` at the first start of a data directory.

        A flag in the store records that; if a user deletes them, they are not created again.
        """
        if await self._store.flag(_DEFAULTS_CREATED):
            return
        if DEFAULT_ENVIRONMENT not in self.environments:
            environment = ComputeEnvironment(
                name=DEFAULT_ENVIRONMENT,
                state=State.ENABLED,
                max_millicpus=max_millicpus,
                document=local_document(max_millicpus),
                created_at=self._clock.now(),
            )
            await self.compute_environments.create(environment, caller=None)
        if DEFAULT_QUEUE not in self.queues:
            queue = JobQueue(
                name=DEFAULT_QUEUE,
                state=State.ENABLED,
                priority=1,
                environments=(DEFAULT_ENVIRONMENT,),
                document="{}",
                created_at=self._clock.now(),
            )
            await self.job_queues.create(queue, caller=None)
        await self._store.set_flag(_DEFAULTS_CREATED)

    def queues_of(self, caller: Caller) -> Mapping[QueueName, JobQueue]:
        """The queues that are visible to the caller."""
        if caller.queues is None:
            return self.queues
        return {name: self.queues[name] for name in caller.queues if name in self.queues}

    async def drain_queue(self, name: QueueName, *, drained: bool, caller: Caller) -> JobQueue:
        """Let the queue accept jobs and start none, or let it start them again (`drained` false).

        A repeated call changes nothing. Raises NotFound for a queue that does not exist or that the caller cannot see.
        """
        rules.require_existing(JobQueue.__name__, [name], self.queues_of(caller))
        return await self.job_queues.update(name, lambda queue: replace(queue, drained=drained), caller=caller)

    async def _check_environment_deletion(self, environment: ComputeEnvironment) -> None:
        rules.require_disabled(ComputeEnvironment.__name__, environment.name, environment.state)
        rules.require_unused(environment.name, [queue.environments for queue in self.queues.values()])

    def _check_queue(self, before: JobQueue | None, after: JobQueue) -> None:
        if before is not None:
            rules.require_same_kind(before, after)
        rules.require_existing(ComputeEnvironment.__name__, after.environments, self.environments)
        if after.policy is not None:
            rules.require_existing(SchedulingPolicy.__name__, [after.policy], self.policies)

    async def _check_queue_deletion(self, queue: JobQueue) -> None:
        """AWS: the unfinished jobs of a deleted queue are terminated; here they keep it from being deleted."""
        rules.require_disabled(JobQueue.__name__, queue.name, queue.state)
        if self.unit_lock is not None:
            async with self.unit_lock:  # ends the unit of work that may have taken a job before the queue was DISABLED
                pass
        rules.require_empty(queue.name, await self._jobs.unfinished_in(queue.name))

    async def _check_policy_deletion(self, policy: SchedulingPolicy) -> None:
        rules.require_unused(
            policy.name, [(queue.policy,) for queue in self.queues.values() if queue.policy is not None]
        )


def local_document(max_millicpus: int) -> str:
    """The body of the CreateComputeEnvironment request that would create the environment `local`."""
    resources = {
        "type": "EC2",
        "maxvCpus": max(1, max_millicpus // 1000),
        "minvCpus": 0,
        "desiredvCpus": 0,
        "subnets": [],
        "instanceTypes": ["optimal"],
    }
    return json.dumps({"type": "MANAGED", "computeResources": resources})
