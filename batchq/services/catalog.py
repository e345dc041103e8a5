"""The catalog service: compute environments, job queues, and the services of the other resources.

All resources except job definitions are held in memory, where the scheduler reads them in each unit of work. Changes
are serialized, and memory is updated after the store has saved a change.

The first start of a data directory creates a compute environment and a queue, so that jobs can run at once.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from batchq.domain import catalog_rules as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    EnvironmentName,
    JobQueue,
    PolicyName,
    SchedulingPolicy,
    State,
    Tags,
    TimeLimit,
)
from batchq.domain.ids import ConsumableName, QueueName
from batchq.host import DiskGuard
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.services.consumable_resources import ConsumableResourceService
from batchq.services.job_definitions import JobDefinitionService
from batchq.services.resource_table import ResourceTable, WriteLock, serialized
from batchq.services.scheduling_policies import SchedulingPolicyService

_DEFAULTS_CREATED = "defaults created"

_ENVIRONMENT, _QUEUE, _POLICY = "ComputeEnvironment", "JobQueue", "SchedulingPolicy"


class CatalogService:
    """The catalog: compute environments, job queues, job definitions, scheduling policies, consumable resources."""

    def __init__(
        self, *, store: CatalogStore, jobs: JobStore, clock: Clock, disk_guard: DiskGuard, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each change, except of job definitions, to schedule again."""
        self.write_lock = WriteLock()
        self._store = store
        self._jobs = jobs
        self._clock = clock
        self.compute_environments: ResourceTable[EnvironmentName, ComputeEnvironment] = ResourceTable(
            _ENVIRONMENT,
            write_lock=self.write_lock,
            read=store.environments,
            put=store.put_environment,
            drop=store.drop_environment,
            changed=changed,
            tagged=rules.environment_tagged,
        )
        self.job_queues: ResourceTable[QueueName, JobQueue] = ResourceTable(
            _QUEUE,
            write_lock=self.write_lock,
            read=store.queues,
            put=store.put_queue,
            drop=store.drop_queue,
            changed=changed,
        )
        self.definitions = JobDefinitionService(write_lock=self.write_lock, store=store, disk_guard=disk_guard)
        self.scheduling_policies = SchedulingPolicyService(
            write_lock=self.write_lock, store=store, clock=clock, queues=self.job_queues.known, changed=changed
        )
        self.consumable_resources = ConsumableResourceService(
            write_lock=self.write_lock, store=store, clock=clock, changed=changed
        )

    @property
    def environments(self) -> Mapping[EnvironmentName, ComputeEnvironment]:
        return self.compute_environments.known

    @property
    def queues(self) -> Mapping[QueueName, JobQueue]:
        return self.job_queues.known

    @property
    def policies(self) -> Mapping[PolicyName, SchedulingPolicy]:
        return self.scheduling_policies.known

    @property
    def consumables(self) -> Mapping[ConsumableName, ConsumableResource]:
        return self.consumable_resources.known

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
            await self.create_environment(
                name=DEFAULT_ENVIRONMENT,
                state=State.ENABLED,
                max_millicpus=max_millicpus,
                document=local_document(max_millicpus),
                tags=(),
                caller=None,
            )
        if DEFAULT_QUEUE not in self.queues:
            await self.create_queue(
                name=DEFAULT_QUEUE,
                state=State.ENABLED,
                priority=1,
                environments=(DEFAULT_ENVIRONMENT,),
                document="{}",
                tags=(),
                caller=None,
            )
        await self._store.set_flag(_DEFAULTS_CREATED)

    # -------------------------------------------------------------------------------------------------- environments

    def describe_environments(self, names: Sequence[str] = ()) -> tuple[ComputeEnvironment, ...]:
        """The environments with these names, sorted by name; unknown names are omitted. No names: all environments."""
        return tuple(it for name, it in sorted(self.environments.items()) if not names or name in names)

    @serialized
    async def create_environment(
        self,
        *,
        name: EnvironmentName,
        state: State,
        max_millicpus: int,
        document: str,
        tags: Tags,
        caller: Caller | None,
    ) -> ComputeEnvironment:
        """Create an environment. Raises Invalid if the name is taken."""
        rules.require_free_name(name, self.environments)
        environment = ComputeEnvironment(
            name=name,
            state=state,
            max_millicpus=max_millicpus,
            document=document,
            tags=rules.environment_tagged((), tags),
            created_at=self._clock.now(),
        )
        return await self.compute_environments.put(environment, caller=caller)

    @serialized
    async def update_environment(
        self,
        name: EnvironmentName,
        change: Callable[[ComputeEnvironment], ComputeEnvironment],
        *,
        caller: Caller,
    ) -> ComputeEnvironment:
        """Replace the environment by `change(environment)`, computed under the write lock. Raises NotFound."""
        return await self.compute_environments.put(change(self.compute_environments.get(name)), caller=caller)

    @serialized
    async def delete_environment(self, name: EnvironmentName, *, caller: Caller) -> None:
        """Delete the environment; its jobs keep running. An unknown name is success.

        Raises Invalid while it is ENABLED or a queue uses it.
        """
        if name not in self.environments:
            return
        rules.require_disabled(_ENVIRONMENT, name, self.environments[name].state)
        rules.require_unused(name, [queue.environments for queue in self.queues.values()])
        await self.compute_environments.drop(name, caller=caller)

    # -------------------------------------------------------------------------------------------------------- queues

    def queues_of(self, caller: Caller) -> Mapping[QueueName, JobQueue]:
        """The queues that are visible to the caller."""
        if caller.queues is None:
            return self.queues
        return {name: self.queues[name] for name in caller.queues if name in self.queues}

    def describe_queues(self, names: Sequence[str] = (), *, caller: Caller) -> tuple[JobQueue, ...]:
        """The visible queues with these names, sorted by name; unknown names are omitted. No names: all of them."""
        return tuple(it for name, it in sorted(self.queues_of(caller).items()) if not names or name in names)

    @serialized
    async def create_queue(
        self,
        *,
        name: QueueName,
        state: State,
        priority: int,
        environments: tuple[EnvironmentName, ...],
        policy: PolicyName | None = None,
        time_limits: tuple[TimeLimit, ...] = (),
        document: str,
        tags: Tags,
        caller: Caller | None,
    ) -> JobQueue:
        """Create a queue. Raises Invalid if the name is taken; NotFound for an unknown environment or policy."""
        rules.require_free_name(name, self.queues)
        queue = JobQueue(
            name=name,
            state=state,
            priority=priority,
            environments=environments,
            policy=policy,
            time_limits=time_limits,
            document=document,
            tags=rules.tagged((), tags),
            created_at=self._clock.now(),
        )
        self._check_references(queue)
        return await self.job_queues.put(queue, caller=caller)

    @serialized
    async def update_queue(
        self, name: QueueName, change: Callable[[JobQueue], JobQueue], *, caller: Caller
    ) -> JobQueue:
        """Replace the queue by `change(queue)`, computed under the write lock.

        Raises NotFound for an unknown queue, environment or policy; Invalid if a queue would lose its scheduling
        policy, or a queue without one would get one.
        """
        before = self.job_queues.get(name)
        after = change(before)
        rules.require_same_kind(before, after)
        self._check_references(after)
        return await self.job_queues.put(after, caller=caller)

    async def drain_queue(self, name: QueueName, *, drained: bool, caller: Caller) -> JobQueue:
        """Let the queue accept jobs and start none, or let it start them again (`drained` false).

        A repeated call changes nothing. Raises NotFound for a queue that does not exist or that the caller cannot see.
        """
        rules.require_existing(_QUEUE, [name], self.queues_of(caller))
        return await self.update_queue(name, lambda it: replace(it, drained=drained), caller=caller)

    @serialized
    async def delete_queue(self, name: QueueName, *, caller: Caller) -> None:
        """Delete the queue. An unknown name is success.

        Raises Invalid while it is ENABLED or has unfinished jobs. AWS: they would be terminated.
        """
        if name not in self.queues:
            return
        rules.require_disabled(_QUEUE, name, self.queues[name].state)
        rules.require_empty(name, await self._jobs.unfinished_in(name))
        await self.job_queues.drop(name, caller=caller)

    # -------------------------------------------------------------------------------------------------------- inside

    def _check_references(self, queue: JobQueue) -> None:
        rules.require_existing(_ENVIRONMENT, queue.environments, self.environments)
        if queue.policy is not None:
            rules.require_existing(_POLICY, [queue.policy], self.policies)


DEFAULT_ENVIRONMENT = EnvironmentName("local")

DEFAULT_QUEUE = QueueName("default")


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
