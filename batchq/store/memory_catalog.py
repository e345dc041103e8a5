"""The catalog in memory: the store's promises but durability."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, Owner, Reach
from batchq.domain.access.audit import ActQuery, Kept, Noted, act_about
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    DefinitionStatus,
    EnvironmentName,
    JobDefinition,
    JobQueue,
    PolicyName,
    SchedulingPolicy,
)
from batchq.domain.ids import ConsumableName, DefinitionRef, QueueName
from batchq.domain.lifecycle.clock_shift import ClockShift
from batchq.errors import Conflict, StoreFailed
from batchq.store.matching import reached
from batchq.store.memory_acts import MemoryActs


class MemoryCatalog:
    """CatalogStore. While `failing`, no write is taken: each raises StoreFailed."""

    def __init__(self) -> None:
        self.failing = False
        self._environments: dict[EnvironmentName, ComputeEnvironment] = {}
        self._queues: dict[QueueName, JobQueue] = {}
        self._definitions: dict[str, list[JobDefinition]] = {}
        self._policies: dict[PolicyName, SchedulingPolicy] = {}
        self._consumables: dict[ConsumableName, ConsumableResource] = {}
        self._updates: dict[tuple[ConsumableName, str], ConsumableUpdate] = {}
        self._flags: set[str] = set()
        self._done = MemoryActs()

    async def check(self) -> None:
        """Raise StoreFailed if writes are not taken."""
        self._check_writable()

    async def policies(self) -> tuple[SchedulingPolicy, ...]:
        return tuple(self._policies[name] for name in sorted(self._policies))

    async def put_policy(self, policy: SchedulingPolicy, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"scheduling-policy/{policy.name}", caller)
        self._policies[policy.name] = policy

    async def drop_policy(self, name: PolicyName, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"scheduling-policy/{name}", caller)
        self._policies.pop(name, None)

    async def consumables(self) -> tuple[ConsumableResource, ...]:
        return tuple(self._consumables[name] for name in sorted(self._consumables))

    async def put_consumable(self, resource: ConsumableResource, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"consumable-resource/{resource.name}", caller)
        self._consumables[resource.name] = resource

    async def update_consumable(
        self, resource: ConsumableResource, update: ConsumableUpdate, *, forget_before: datetime, caller: Caller | None
    ) -> None:
        self._check_writable()
        self._note(f"consumable-resource/{resource.name}", caller)
        self._consumables[resource.name] = resource
        self._updates = {key: known for key, known in self._updates.items() if known.at >= forget_before}
        self._updates[resource.name, update.token] = update

    async def consumable_update(self, name: ConsumableName, token: str) -> ConsumableUpdate | None:
        return self._updates.get((name, token))

    async def drop_consumable(self, name: ConsumableName, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"consumable-resource/{name}", caller)
        self._consumables.pop(name, None)
        self._updates = {key: update for key, update in self._updates.items() if key[0] != name}

    async def environments(self) -> tuple[ComputeEnvironment, ...]:
        return tuple(self._environments[name] for name in sorted(self._environments))

    async def queues(self) -> tuple[JobQueue, ...]:
        return tuple(self._queues[name] for name in sorted(self._queues))

    async def put_environment(self, environment: ComputeEnvironment, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"compute-environment/{environment.name}", caller)
        self._environments[environment.name] = environment

    async def put_queue(self, queue: JobQueue, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"job-queue/{queue.name}", caller)
        self._queues[queue.name] = queue

    async def drop_environment(self, name: str, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"compute-environment/{name}", caller)
        self._environments.pop(EnvironmentName(name), None)

    async def drop_queue(self, name: str, *, caller: Caller | None) -> None:
        self._check_writable()
        self._note(f"job-queue/{name}", caller)
        self._queues.pop(QueueName(name), None)

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        self._check_writable()
        self._note(f"job-definition/{definition.ref.name}", caller)
        revisions = self._definitions.setdefault(definition.ref.name, [])
        saved = replace(definition, ref=replace(definition.ref, revision=len(revisions) + 1))
        revisions.append(saved)
        return saved

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        self._check_writable()
        if await self.definition(definition.ref) is None:
            raise Conflict(f"job definition {definition.ref} is gone")
        self._note(f"job-definition/{definition.ref}", caller)
        self._definitions[definition.ref.name][definition.ref.revision - 1] = definition

    async def definition(self, ref: DefinitionRef) -> JobDefinition | None:
        revisions = self._definitions.get(ref.name, [])
        return revisions[ref.revision - 1] if 1 <= ref.revision <= len(revisions) else None

    async def definition_owner(self, name: str) -> Owner | None:
        return next((it.owner for it in self._definitions.get(name, [])), None)

    async def newest_active(self, name: str) -> JobDefinition | None:
        revisions = self._definitions.get(name, [])
        return next((it for it in reversed(revisions) if it.status is DefinitionStatus.ACTIVE), None)

    async def definitions(
        self,
        *,
        name: str | None,
        status: str | None,
        limit: int,
        after: DefinitionRef | None,
        reach: Reach | None = None,
    ) -> tuple[JobDefinition, ...]:
        named = sorted(self._definitions) if name is None else [name]
        every = (it for each in named for it in self._definitions.get(each, ()))
        theirs = (it for it in every if reached(it.owner, reach))
        asked = (it for it in theirs if status in {None, it.status} and (after is None or it.ref > after))
        return tuple(islice(asked, limit))

    async def flag(self, name: str) -> bool:
        return name in self._flags

    async def set_flag(self, name: str) -> None:
        self._check_writable()
        self._flags.add(name)

    async def acts(self, query: ActQuery) -> tuple[Kept, ...]:
        return self._done.page(query)

    async def take_over(self, noted: Sequence[Noted]) -> None:
        self._check_writable()
        self._done.take_over(noted)

    async def prune_acts(self, before: datetime, *, limit: int) -> int:
        self._check_writable()
        return self._done.prune(before, limit)

    def _note(self, about: str, caller: Caller | None) -> None:
        done = act_about(about, caller)
        if done is not None:
            self._done.insert([done])

    def _check_writable(self) -> None:
        if self.failing:
            raise StoreFailed("the store was told to fail")

    def _shift_catalog(self, shift: ClockShift) -> None:
        self._queues = {name: replace(it, created_at=shift.of(it.created_at)) for name, it in self._queues.items()}
        self._updates = {key: replace(it, at=shift.of(it.at)) for key, it in self._updates.items()}
        self._done.shift(shift)
