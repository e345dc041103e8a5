"""What the scheduler holds in memory beside the queues, as saved and as a unit of work leaves it.

The recent starts of each queue, the usage of shares and of consumable resources, and since when each waiting job has
had its position.
"""

from bisect import bisect_left, bisect_right
from collections import ChainMap, Counter, deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import ResourceKind
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.domain.scheduling.fairshare import Change, ShareKey, ShareUse, accrued, decay_window, updated_usage
from batchq.domain.scheduling.resources import newly_consumed
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import Changes, JobStore

STARTS_PERIOD = timedelta(hours=1)
STARTS_INTERVAL = timedelta(minutes=5)
MIN_PRUNED = 1000  # shares in memory up to which expired shares are not removed
NEGLIGIBLE = 1.0  # thousandths of a vCPU-second: less usage counts as zero
MAX_STEPS = 128  # steps of a queue; snapshots show fewer positions


class RecentStarts:
    """Counts placements in memory only: nothing is known of the time before the server's start."""

    def __init__(self, since: datetime) -> None:
        #: The server's start.
        self._since = since
        #: The beginning of each interval, oldest first, with its placements by queue.
        self._intervals: deque[tuple[datetime, Counter[QueueName]]] = deque()

    def on_committed(self, committed: Committed) -> None:
        now = committed.unit.now
        for changed in committed.transitions:
            if changed.job.status is Status.STARTING:
                if not self._intervals or not timedelta() <= now - self._intervals[-1][0] < STARTS_INTERVAL:
                    self._intervals.append((now, Counter()))
                    self._forget(now)
                self._intervals[-1][1][changed.job.spec.queue] += 1

    def period(self, now: datetime) -> timedelta:
        """The time that `counts` covers: an hour, or less after a start of the server."""
        return max(timedelta(), min(STARTS_PERIOD, now - self._since))

    def counts(self, now: datetime) -> Counter[QueueName]:
        """The placements of each queue within the last hour."""
        self._forget(now)
        return sum((counts for _, counts in self._intervals), Counter[QueueName]())

    def _forget(self, now: datetime) -> None:
        while self._intervals and now - self._intervals[0][0] > STARTS_PERIOD:
            self._intervals.popleft()


class UsageChanges(Struct, frozen=True, kw_only=True):
    """The changes of a unit of work to the usage totals."""

    shares: Mapping[ShareKey, ShareUse]
    used_up: Mapping[ConsumableName, int]


class ShareUsageTotals:
    """The usage of shares and of NON_REPLENISHABLE consumable resources."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog
        #: As last saved.
        self.shares: dict[ShareKey, ShareUse] = {}
        #: Units taken from each consumable resource, as last saved.
        self.used_up: dict[ConsumableName, int] = {}
        #: The number of shares in memory that triggers the next removal.
        self._max_shares = MIN_PRUNED
        self._staged = UsageChanges(shares={}, used_up={})

    async def load(self, store: JobStore, now: datetime) -> None:
        self.shares = dict(await store.shares())
        self.used_up = dict(await store.used_up())
        self.prune(now)

    def prune(self, now: datetime) -> None:
        """Remove from memory the shares that no longer affect scheduling.

        Their usage has decayed, or belongs to a deleted queue, even if its name was reused.

        Users may name any number of shares. The store has a row for each; memory has only those that affect scheduling.
        """
        self.shares = {key: use for key, use in self.shares.items() if self._is_relevant(key, use, now)}
        self._max_shares = max(MIN_PRUNED, 2 * len(self.shares))

    def after(self, unit: UnitOfWork) -> tuple[Mapping[ShareKey, ShareUse], Mapping[ConsumableName, int]]:
        """The totals as the unit of work leaves them so far."""
        if not unit.changes_usage:
            return self.shares, self.used_up
        changes = self._changes_of(unit)
        return ChainMap({**changes.shares}, self.shares), ChainMap({**changes.used_up}, self.used_up)

    def added_to(self, changes: Changes, unit: UnitOfWork) -> Changes:
        """The changes of a unit of work that changes the usage, with the totals added.

        Exactly these are applied by `on_committed`, even if the catalog changes meanwhile.
        """
        self._staged = staged = self._changes_of(unit)
        return replace(changes, shares=tuple(staged.shares.items()), used_up=tuple(staged.used_up.items()))

    def on_committed(self, committed: Committed) -> None:
        """Apply the totals of a unit of work that changes the usage."""
        self.shares |= self._staged.shares
        self.used_up |= self._staged.used_up
        if len(self.shares) > self._max_shares:
            self.prune(committed.unit.now)

    def _changes_of(self, unit: UnitOfWork) -> UsageChanges:
        """What the unit of work changes in the totals, so far."""
        relevant = [
            change
            for change in unit.job_changes
            if change.after.spec.share_identifier is not None or change.after.spec.needs
        ]
        return UsageChanges(shares=self._shares(relevant, unit.now), used_up=self._used_up(relevant))

    def _is_relevant(self, key: ShareKey, use: ShareUse, now: datetime) -> bool:
        queue = self._catalog.queues.get(key.queue)
        if use.active > 0 or use.millicpus > 0:
            return True
        if queue is None or use.as_of < queue.created_at:
            return False
        return accrued(use, now, self._decay(key.queue)).used >= NEGLIGIBLE

    def _shares(self, changes: Sequence[Change], now: datetime) -> dict[ShareKey, ShareUse]:
        named = {change.after.spec.queue for change in changes if change.after.spec.share_identifier is not None}
        return updated_usage(self.shares, changes, now, {name: self._decay(name) for name in named})

    def _decay(self, name: QueueName) -> timedelta:
        queue = self._catalog.queues.get(name)
        return decay_window(None if queue is None or queue.policy is None else self._catalog.policies.get(queue.policy))

    def _used_up(self, changes: Sequence[Change]) -> dict[ConsumableName, int]:
        known = self._catalog.consumables
        used_up: dict[ConsumableName, int] = {}
        for need in (need for change in changes for need in newly_consumed(change.before, change.after)):
            name = need.resource
            if name in known and known[name].kind is ResourceKind.NON_REPLENISHABLE:
                used_up[name] = used_up.get(name, self.used_up.get(name, 0)) + need.quantity
        return used_up


class QueuePositions:
    """Since when each waiting job has had its position: when a job before it last began or ceased to wait.

    In a fair-share queue, a job that ceases to wait may have stood before all others.
    """

    def __init__(self, since: datetime) -> None:
        #: The server's start.
        self._since = since
        #: By queue, ascending sequences and the time at which a job of that sequence was the last to enter or leave.
        self._steps: dict[QueueName, tuple[list[int], list[datetime]]] = {}

    def on_committed(self, committed: Committed) -> None:
        first: dict[QueueName, int] = {}
        for before, after in committed.runnable:
            waited, waits = before is not None and is_queued_for_placement(before), is_queued_for_placement(after)
            if waited != waits:
                sequence = -1 if waited and after.spec.share_identifier is not None else after.sequence
                first[after.spec.queue] = min(sequence, first.get(after.spec.queue, sequence))
        for queue, sequence in first.items():
            self._add_step(queue, sequence, committed.unit.now)

    def since(self, queue: QueueName, sequence: int) -> datetime:
        """Since when the job with this sequence has had its position."""
        sequences, times = self._steps.get(queue, ([], []))
        step = bisect_right(sequences, sequence) - 1
        return times[step] if step >= 0 else self._since

    def _add_step(self, queue: QueueName, sequence: int, now: datetime) -> None:
        """Record that every job behind `sequence` changed position at `now`."""
        sequences, times = self._steps.setdefault(queue, ([], []))
        kept = bisect_left(sequences, sequence)
        if kept < MAX_STEPS:
            del sequences[kept:], times[kept:]
            sequences.append(sequence)
            times.append(now)
