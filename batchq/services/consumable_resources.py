"""The service for consumable resources. The engine knows their usage."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import ConsumableResource, ConsumableUpdate, QuantityOperation, ResourceKind
from batchq.domain.ids import ConsumableName
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogStore
from batchq.ports.clock import Clock
from batchq.services.resource_table import ResourceTable, WriteLock, serialized

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
        """`changed` is called after each change, to schedule again.

        A deletion affects no job: those that hold units keep running, and those that require units wait until a
        resource of this name is created.
        """
        super().__init__(ConsumableResource, write_lock=write_lock, store=store, changed=changed)
        self.usage: ConsumableUsage = NoUsage()
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
