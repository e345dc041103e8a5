"""Consumable resources: made, changed, deleted and described. How much of them jobs hold, the engine knows."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import catalog_rules as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import (
    ConsumableResource,
    ConsumableUpdate,
    Operation,
    ResourceKind,
    Tags,
)
from batchq.domain.ids import ConsumableName
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.services.resource_table import ResourceTable
from batchq.services.serialized import WriteLock, one_at_a_time

KIND = "ConsumableResource"
MOST = 50_000  # AWS's limit, per account and region
REMEMBERED = timedelta(hours=8)
"""AWS: how long a clientToken is valid."""


class Usage(Protocol):
    """What jobs take of consumable resources, by the name of one: names outlive what they name."""

    def in_use(self, name: ConsumableName) -> int:
        """Units that jobs hold now, STARTING and RUNNING."""

    def used_up(self, name: ConsumableName) -> int:
        """Units that jobs have ever taken while it was NON_REPLENISHABLE."""


class Unused:
    """Usage where nothing runs."""

    def in_use(self, _name: ConsumableName) -> int:
        return 0

    def used_up(self, _name: ConsumableName) -> int:
        return 0


class Quantities(Struct, frozen=True, kw_only=True):
    """What there is of a resource: `total` without what was used up, of which jobs hold `in_use`."""

    total: int
    in_use: int
    available: int


class ConsumableResourceService(ResourceTable[ConsumableName, ConsumableResource]):
    """`changed` is called after each change: other jobs may start now. Until it is told of a `usage`, none is used."""

    def __init__(self, *, turnstile: WriteLock, store: CatalogStore, clock: Clock, changed: Callable[[], None]) -> None:
        super().__init__(
            KIND,
            turnstile=turnstile,
            read=store.consumables,
            put=store.put_consumable,
            drop=store.drop_consumable,
            changed=changed,
        )
        self.usage: Usage = Unused()
        self._store = store
        self._clock = clock

    def quantities(self, resource: ConsumableResource) -> Quantities:
        """AWS: units of a NON_REPLENISHABLE one leave its total when a job takes them, so they are not held as well."""
        total = self._left(resource)
        in_use = self.usage.in_use(resource.name)
        held = in_use if resource.kind is ResourceKind.REPLENISHABLE else 0
        return Quantities(total=total, in_use=in_use, available=max(0, total - held))

    @one_at_a_time
    async def create(
        self, *, name: ConsumableName, total: int, kind: ResourceKind, tags: Tags, caller: Caller
    ) -> ConsumableResource:
        """All of its total is there, whatever was used up of another of this name. Raises Invalid if it is taken."""
        rules.must_be_free(name, self.known)
        rules.must_leave_room(KIND, len(self.known), MOST)
        made = ConsumableResource(
            name=name,
            total=rules.quantity(total),
            kind=kind,
            tags=rules.tagged((), tags),
            created_at=self._clock.now(),
        )
        made = replace(made, total=made.total + self._gone(made))
        return await self.put(made, caller=caller)

    @one_at_a_time
    async def update(
        self, name: ConsumableName, *, operation: Operation, quantity: int, token: str | None, caller: Caller
    ) -> ConsumableResource:
        """Set, raise or lower the total. What jobs hold they keep. AWS: with a `token` it is made once in 8 hours.

        Raises NotFound, and Invalid when the total would be negative, or the token came with another payload.
        """
        before = self.get(name)
        now = self._clock.now()
        asked = ConsumableUpdate(token=token or "", operation=operation, quantity=rules.quantity(quantity), at=now)
        if token is not None and await self._made(before, asked):
            return before
        after = self._updated(before, asked)
        if token is None:
            return await self.put(after, caller=caller)
        await self._store.update_consumable(after, asked, forget_before=now - REMEMBERED, caller=caller)
        return self.saved(after)

    @one_at_a_time
    async def delete(self, name: ConsumableName, *, caller: Caller) -> None:
        """Jobs that hold some of it go on, jobs that need some wait for another so named. An unknown one is gone."""
        if name not in self.known:
            return
        await self.drop(name, caller=caller)

    def _left(self, resource: ConsumableResource) -> int:
        """Never negative: jobs may take what is there while a lower total is being saved."""
        return max(0, resource.total - self._gone(resource))

    def _gone(self, resource: ConsumableResource) -> int:
        return self.usage.used_up(resource.name) if resource.kind is ResourceKind.NON_REPLENISHABLE else 0

    async def _made(self, resource: ConsumableResource, asked: ConsumableUpdate) -> bool:
        """Whether this very update was made already. Raises Invalid when another was made with its token."""
        known = await self._store.consumable_update(resource.name, asked.token)
        if known is None or known.at < asked.at - REMEMBERED:
            return False
        if (known.operation, known.quantity) != (asked.operation, asked.quantity):
            raise Invalid("The clientToken was used already, with another operation or quantity.")
        return True

    def _updated(self, before: ConsumableResource, asked: ConsumableUpdate) -> ConsumableResource:
        total = rules.updated_total(self._left(before), asked.operation, asked.quantity)
        return replace(before, total=total + self._gone(before))
