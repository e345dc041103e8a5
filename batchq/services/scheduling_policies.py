"""Scheduling policies: made, changed, deleted and described. The queues that go by them are in the catalog."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from batchq.domain import catalog_rules as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobQueue, PolicyName, SchedulingPolicy, ShareWeight, Tags
from batchq.domain.ids import QueueName
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.services.serialized import WriteLock, one_at_a_time

KIND = "SchedulingPolicy"


class SchedulingPolicyService:
    """`queues` are those of this moment. `changed` is called after each change: other jobs may be next now."""

    def __init__(
        self,
        *,
        turnstile: WriteLock,
        store: CatalogStore,
        clock: Clock,
        queues: Mapping[QueueName, JobQueue],
        changed: Callable[[], None],
    ) -> None:
        self.turnstile = turnstile
        self._store = store
        self._clock = clock
        self._queues = queues
        self._changed = changed
        self._known: dict[PolicyName, SchedulingPolicy] = {}

    @property
    def known(self) -> Mapping[PolicyName, SchedulingPolicy]:
        return self._known

    async def load(self) -> None:
        self._known.update((it.name, it) for it in await self._store.policies())

    def describe(self, names: Sequence[str]) -> tuple[SchedulingPolicy, ...]:
        """Those of them that exist, by name."""
        return tuple(it for name, it in sorted(self._known.items()) if name in names)

    @one_at_a_time
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
        """Raises Invalid when the name is taken, or two shares overlap."""
        rules.must_be_free(name, self._known)
        made = SchedulingPolicy(
            name=name,
            shares=shares,
            decay=decay,
            reservation=reservation,
            document=document,
            tags=rules.tagged((), tags),
            created_at=self._clock.now(),
        )
        return await self._keep(made, caller)

    @one_at_a_time
    async def update(
        self, name: PolicyName, change: Callable[[SchedulingPolicy], SchedulingPolicy], *, caller: Caller
    ) -> SchedulingPolicy:
        """`change` is given it as it is when its turn comes. Raises NotFound, and Invalid when two shares overlap."""
        return await self._keep(change(self._policy(name)), caller)

    @one_at_a_time
    async def delete(self, name: PolicyName, *, caller: Caller) -> None:
        """Raises Invalid while a queue goes by it; an unknown one is gone."""
        if name not in self._known:
            return
        rules.must_be_unused(name, [(queue.policy,) for queue in self._queues.values() if queue.policy is not None])
        await self._store.drop_policy(name, caller=caller)
        del self._known[name]

    @one_at_a_time
    async def tag(self, name: PolicyName, tags: Tags, *, caller: Caller) -> None:
        before = self._policy(name)
        await self._keep(replace(before, tags=rules.tagged(before.tags, tags)), caller)

    @one_at_a_time
    async def untag(self, name: PolicyName, keys: Collection[str], *, caller: Caller) -> None:
        before = self._policy(name)
        await self._keep(replace(before, tags=rules.untagged(before.tags, keys)), caller)

    def _policy(self, name: PolicyName) -> SchedulingPolicy:
        rules.must_exist(KIND, [name], self._known)
        return self._known[name]

    async def _keep(self, policy: SchedulingPolicy, caller: Caller) -> SchedulingPolicy:
        rules.must_not_overlap(policy.shares)
        await self._store.put_policy(policy, caller=caller)
        self._known[policy.name] = policy
        self._changed()
        return policy
