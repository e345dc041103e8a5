"""What shares have used, and what jobs have used up of consumable resources: as saved, and as a turn leaves it."""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from batchq.domain.amounts import taken
from batchq.domain.catalog import ResourceKind
from batchq.domain.fairshare import Change, ShareKey, ShareUse, follow, window
from batchq.domain.names import ConsumableName
from batchq.engine.ground import Ground
from batchq.ports import JobStore
from batchq.values import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a turn has changed in the ledger."""

    shares: Mapping[ShareKey, ShareUse]
    used_up: Mapping[ConsumableName, int]

    def written_to(self, changes: Changes) -> Changes:
        return replace(changes, shares=tuple(self.shares.items()), used_up=tuple(self.used_up.items()))


class Ledger:
    """`shares` and `used_up` are as last saved."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.shares: dict[ShareKey, ShareUse] = {}
        self.used_up: dict[ConsumableName, int] = {}

    async def load(self, store: JobStore) -> None:
        self.shares = dict(await store.shares())
        self.used_up = dict(await store.used_up())

    def page(self, changes: Iterable[Change], now: datetime) -> Page:
        """What these changes change, all those of a turn so far."""
        listed = tuple(changes)
        return Page(shares=self._shares(listed, now), used_up=self._used_up(listed))

    def with_page(self, page: Page) -> tuple[Mapping[ShareKey, ShareUse], Mapping[ConsumableName, int]]:
        """The ledger as the turn leaves it."""
        return ChainMap({**page.shares}, self.shares), ChainMap({**page.used_up}, self.used_up)

    def adopt(self, page: Page) -> None:
        """It is saved."""
        self.shares |= page.shares
        self.used_up |= page.used_up

    def _shares(self, changes: tuple[Change, ...], now: datetime) -> dict[ShareKey, ShareUse]:
        queues, policies = self._ground.queues, self._ground.policies
        named = {it.after.spec.queue for it in changes if it.after.spec.share_identifier is not None}
        policy_of = {name: queues[name].policy for name in named if name in queues}
        decays = {name: window(policies.get(it)) for name, it in policy_of.items() if it is not None}
        return follow(self.shares, changes, now, decays)

    def _used_up(self, changes: tuple[Change, ...]) -> dict[ConsumableName, int]:
        known = self._ground.consumables
        used_up: dict[ConsumableName, int] = {}
        for need in (need for it in changes for need in taken(it.before, it.after)):
            name = need.resource
            if name in known and known[name].kind is ResourceKind.NON_REPLENISHABLE:
                used_up[name] = used_up.get(name, self.used_up.get(name, 0)) + need.quantity
        return used_up
