"""The service for scheduling policies: create, update, delete and describe."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from batchq.domain import catalog_rules as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobQueue, PolicyName, SchedulingPolicy, ShareWeight, Tags
from batchq.domain.ids import QueueName
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.services.resource_table import ResourceTable, WriteLock, serialized

KIND = "SchedulingPolicy"


class SchedulingPolicyService(ResourceTable[PolicyName, SchedulingPolicy]):
    """All scheduling policies."""

    def __init__(
        self,
        *,
        write_lock: WriteLock,
        store: CatalogStore,
        clock: Clock,
        queues: Mapping[QueueName, JobQueue],
        changed: Callable[[], None],
    ) -> None:
        """`queues`: the live table of job queues. `changed` is called after each change, to schedule again."""
        super().__init__(
            KIND,
            write_lock=write_lock,
            read=store.policies,
            put=store.put_policy,
            drop=store.drop_policy,
            changed=changed,
        )
        self._clock = clock
        self._queues = queues

    def describe(self, names: Sequence[str]) -> tuple[SchedulingPolicy, ...]:
        """The policies with these names, sorted by name; unknown names are omitted."""
        return tuple(it for name, it in sorted(self.known.items()) if name in names)

    @serialized
    async def create(
        self,
        *,
        name: PolicyName,
        shares: tuple[ShareWeight, ...],
        decay: timedelta,
        reservation: int,
        document: str,
        tags: Tags,
        caller: Caller,
    ) -> SchedulingPolicy:
        """Create a policy. Raises Invalid if the name is taken or two shares overlap."""
        rules.require_free_name(name, self.known)
        policy = SchedulingPolicy(
            name=name,
            shares=shares,
            decay=decay,
            reservation=reservation,
            document=document,
            tags=rules.tagged((), tags),
            created_at=self._clock.now(),
        )
        rules.require_disjoint_shares(shares)
        return await self.put(policy, caller=caller)

    @serialized
    async def update(
        self, name: PolicyName, change: Callable[[SchedulingPolicy], SchedulingPolicy], *, caller: Caller
    ) -> SchedulingPolicy:
        """Replace the policy by `change(policy)`, computed under the write lock.

        Raises NotFound; Invalid if two shares overlap.
        """
        after = change(self.get(name))
        rules.require_disjoint_shares(after.shares)
        return await self.put(after, caller=caller)

    @serialized
    async def delete(self, name: PolicyName, *, caller: Caller) -> None:
        """Delete the policy. An unknown name is success. Raises Invalid while a queue uses the policy."""
        if name not in self.known:
            return
        rules.require_unused(name, [(queue.policy,) for queue in self._queues.values() if queue.policy is not None])
        await self.drop(name, caller=caller)
