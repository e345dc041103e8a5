"""What shares have used, and what jobs have used up of consumable resources: as saved, and as a unit leaves it.

Since when a waiting job stands where it stands: the last time that one before it came or went.

Kept in memory only: nothing is known of the time before the start of the server.
"""

from bisect import bisect_left, bisect_right
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import ResourceKind
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.scheduling.capacity import stands_in_line
from batchq.domain.scheduling.fairshare import Change, ShareKey, ShareUse, accrued, follow, window
from batchq.domain.scheduling.resources import taken
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.unit_of_work import Committed
from batchq.ports.jobs import Changes, JobStore

MOST = 128  # steps of a queue: nobody asks about later positions


class QueuePositions:
    """Of each queue a stair: orders, ascending, and when a job of that order was the last to come or go before them.

    In a queue that goes by shares the one that goes may have stood before all others.
    """

    def __init__(self, since: datetime) -> None:
        self._since = since
        self._stairs: dict[QueueName, tuple[list[int], list[datetime]]] = {}

    def on_committed(self, committed: Committed) -> None:
        first: dict[QueueName, int] = {}
        for before, after in committed.changes:
            if before is not None and before.status is after.status and before.misfit is after.misfit:
                continue
            waited, waits = before is not None and stands_in_line(before), stands_in_line(after)
            if waited != waits:
                order = -1 if waited and after.spec.share_identifier is not None else after.order
                first[after.spec.queue] = min(order, first.get(after.spec.queue, order))
        for queue, order in first.items():
            self._step(queue, order, committed.unit.now)

    def since(self, queue: QueueName, order: int) -> datetime:
        orders, times = self._stairs.get(queue, ([], []))
        step = bisect_right(orders, order) - 1
        return times[step] if step >= 0 else self._since

    def _step(self, queue: QueueName, order: int, now: datetime) -> None:
        """What stood behind it stands somewhere else from now on."""
        orders, times = self._stairs.setdefault(queue, ([], []))
        keep = bisect_left(orders, order)
        if keep < MOST:
            del orders[keep:], times[keep:]
            orders.append(order)
            times.append(now)


MOST_KEPT = 1000  # shares in memory before those that count no more are looked for

NOTHING = 1.0  # thousandths of a vCPU-second: less was not used


class Page(Struct, frozen=True, kw_only=True):
    """What a unit of work has changed in the ledger."""

    shares: Mapping[ShareKey, ShareUse]
    used_up: Mapping[ConsumableName, int]

    def written_to(self, changes: Changes) -> Changes:
        if not self.shares and not self.used_up:
            return changes
        return replace(changes, shares=tuple(self.shares.items()), used_up=tuple(self.used_up.items()))


NOTHING_CHANGED = Page(shares={}, used_up={})


class ShareUsageTotals:
    """`shares` and `used_up` are as last saved."""

    def __init__(self, ground: CatalogView) -> None:
        self._ground = ground
        self.shares: dict[ShareKey, ShareUse] = {}
        self.used_up: dict[ConsumableName, int] = {}
        self._most_kept = MOST_KEPT
        self._staged = NOTHING_CHANGED

    async def load(self, store: JobStore, now: datetime) -> None:
        self.shares = dict(await store.shares())
        self.used_up = dict(await store.used_up())
        self.forget(now)

    def forget(self, now: datetime) -> None:
        """Shares that count no more: whose use is long past, or was of a queue that is gone, though one has its name.

        Users may name as many shares as they like. The store keeps a row of each; memory only of those that matter.
        """
        self.shares = {key: use for key, use in self.shares.items() if self._counts(key, use, now)}
        self._most_kept = max(MOST_KEPT, 2 * len(self.shares))

    def page(self, changes: Iterable[Change], now: datetime) -> Page:
        """What these changes change, all those of a unit of work so far."""
        listed = [it for it in changes if it.after.spec.share_identifier is not None or it.after.spec.needs]
        if not listed:
            return NOTHING_CHANGED
        return Page(shares=self._shares(listed, now), used_up=self._used_up(listed))

    def with_page(self, page: Page) -> tuple[Mapping[ShareKey, ShareUse], Mapping[ConsumableName, int]]:
        """The ledger as the unit of work leaves it."""
        if page is NOTHING_CHANGED:
            return self.shares, self.used_up
        return ChainMap({**page.shares}, self.shares), ChainMap({**page.used_up}, self.used_up)

    def stage(self, changes: Iterable[Change], now: datetime) -> Page:
        """The page that the unit saves. It is applied as it was written, also when the catalog changes meanwhile."""
        self._staged = self.page(changes, now)
        return self._staged

    def on_committed(self, committed: Committed) -> None:
        self.shares |= self._staged.shares
        self.used_up |= self._staged.used_up
        if len(self.shares) > self._most_kept:
            self.forget(committed.unit.now)

    def _counts(self, key: ShareKey, use: ShareUse, now: datetime) -> bool:
        queue = self._ground.queues.get(key.queue)
        if use.active > 0 or use.millicpus > 0:
            return True
        if queue is None or use.as_of < queue.created_at:
            return False
        return accrued(use, now, self._decay(key.queue)).used >= NOTHING

    def _shares(self, changes: Sequence[Change], now: datetime) -> dict[ShareKey, ShareUse]:
        named = {it.after.spec.queue for it in changes if it.after.spec.share_identifier is not None}
        return follow(self.shares, changes, now, {name: self._decay(name) for name in named})

    def _decay(self, name: QueueName) -> timedelta:
        queue = self._ground.queues.get(name)
        return window(None if queue is None or queue.policy is None else self._ground.policies.get(queue.policy))

    def _used_up(self, changes: Sequence[Change]) -> dict[ConsumableName, int]:
        known = self._ground.consumables
        used_up: dict[ConsumableName, int] = {}
        for need in (need for it in changes for need in taken(it.before, it.after)):
            name = need.resource
            if name in known and known[name].kind is ResourceKind.NON_REPLENISHABLE:
                used_up[name] = used_up.get(name, self.used_up.get(name, 0)) + need.quantity
        return used_up
