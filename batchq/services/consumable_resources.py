"""The service for consumable resources: create, update, delete and describe. The engine knows their usage."""

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
from batchq.services.resource_table import ResourceTable, WriteLock, serialized

KIND = "ConsumableResource"
MAX_RESOURCES = 50_000  # AWS: the limit for an account and region
TOKEN_LIFETIME = timedelta(hours=8)
"""AWS: how long a clientToken is valid."""


class ConsumableUsage(Protocol):
    """The usage of consumable resources by jobs. It is counted by name, so it outlives a deleted resource."""

    def in_use(self, name: ConsumableName) -> int:
        """Units that STARTING and RUNNING jobs hold."""

    def used_up(self, name: ConsumableName) -> int:
        """Units that jobs have taken in total while the resource was NON_REPLENISHABLE."""


class NoUsage:
    """The usage without an engine: zero."""

    def in_use(self, _name: ConsumableName) -> int:
        return 0

    def used_up(self, _name: ConsumableName) -> int:
        return 0


class Quantities(Struct, frozen=True, kw_only=True):
    """The units of a consumable resource."""

    #: All units, without those that are used up.
    total: int
    #: Units that jobs hold.
    in_use: int
    available: int


class ConsumableResourceService(ResourceTable[ConsumableName, ConsumableResource]):
    """All consumable resources. The engine sets `usage`; before that all usage is zero."""

    def __init__(
        self, *, write_lock: WriteLock, store: CatalogStore, clock: Clock, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each change, to schedule again."""
        super().__init__(
            KIND,
            write_lock=write_lock,
            read=store.consumables,
            put=store.put_consumable,
            drop=store.drop_consumable,
            changed=changed,
        )
        self.usage: ConsumableUsage = NoUsage()
        self._store = store
        self._clock = clock

    def quantities(self, resource: ConsumableResource) -> Quantities:
        """The present quantities of a resource.

        AWS: units of a NON_REPLENISHABLE resource leave `total` when a job takes them, so `available` deducts nothing
        more.
        """
        total = self._remaining(resource)
        in_use = self.usage.in_use(resource.name)
        held = in_use if resource.kind is ResourceKind.REPLENISHABLE else 0
        return Quantities(total=total, in_use=in_use, available=max(0, total - held))

    @serialized
    async def create(
        self, *, name: ConsumableName, total: int, kind: ResourceKind, tags: Tags, caller: Caller
    ) -> ConsumableResource:
        """Create a resource with all of `total` available, also if a deleted resource of this name was used up.

        Raises Invalid if the name is taken, if the quantity is invalid, or beyond MAX_RESOURCES resources.
        """
        rules.require_free_name(name, self.known)
        rules.require_room(KIND, len(self.known), MAX_RESOURCES)
        resource = ConsumableResource(
            name=name,
            total=rules.valid_quantity(total),
            kind=kind,
            tags=rules.tagged((), tags),
            created_at=self._clock.now(),
        )
        resource = replace(resource, total=resource.total + self._used_up(resource))
        return await self.put(resource, caller=caller)

    @serialized
    async def update(
        self, name: ConsumableName, *, operation: Operation, quantity: int, token: str | None, caller: Caller
    ) -> ConsumableResource:
        """Set, raise or lower the total. Units that jobs hold are not affected.

        AWS: an update with a `token` is applied once in 8 hours. Raises NotFound; Invalid if the total would be
        negative or too large, or if the token was used with another operation or quantity.
        """
        before = self.get(name)
        now = self._clock.now()
        requested = ConsumableUpdate(
            token=token or "", operation=operation, quantity=rules.valid_quantity(quantity), at=now
        )
        if token is not None and await self._was_applied(before, requested):
            return before
        after = self._updated(before, requested)
        if token is None:
            return await self.put(after, caller=caller)
        await self._store.update_consumable(after, requested, forget_before=now - TOKEN_LIFETIME, caller=caller)
        return self.saved(after)

    @serialized
    async def delete(self, name: ConsumableName, *, caller: Caller) -> None:
        """Delete the resource. An unknown name is success.

        Jobs that hold units keep running; jobs that require units wait until a resource of this name is created.
        """
        if name not in self.known:
            return
        await self.drop(name, caller=caller)

    def _remaining(self, resource: ConsumableResource) -> int:
        """The units that are not used up. Never negative: jobs may take units while a lower total is being saved."""
        return max(0, resource.total - self._used_up(resource))

    def _used_up(self, resource: ConsumableResource) -> int:
        return self.usage.used_up(resource.name) if resource.kind is ResourceKind.NON_REPLENISHABLE else 0

    async def _was_applied(self, resource: ConsumableResource, update: ConsumableUpdate) -> bool:
        """Whether this update has been applied already. Raises Invalid if its token was used for another update."""
        known = await self._store.consumable_update(resource.name, update.token)
        if known is None or known.at < update.at - TOKEN_LIFETIME:
            return False
        if (known.operation, known.quantity) != (update.operation, update.quantity):
            raise Invalid("The clientToken was used already with a different operation or quantity.")
        return True

    def _updated(self, before: ConsumableResource, update: ConsumableUpdate) -> ConsumableResource:
        total = rules.updated_total(self._remaining(before), update.operation, update.quantity)
        return replace(before, total=total + self._used_up(before))
