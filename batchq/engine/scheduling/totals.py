"""Totals in memory, as saved and as a unit of work leaves them.

Queued jobs by account, pending dependencies, the recent starts of each queue, and the usage of shares and of consumable
resources.
"""

from collections import ChainMap, Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import ResourceKind
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.job import Job, JobSpec, Status
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.fairshare import Change, ShareKey, ShareUse, accrued, decay_window, updated_usage
from batchq.domain.scheduling.quotas import Quotas, created_jobs, queued_jobs, quota_exceeded
from batchq.domain.scheduling.resources import taken
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import LimitExceeded
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import Changes, JobStore

STARTS_PERIOD = timedelta(hours=1)
STARTS_INTERVAL = timedelta(minutes=5)
MAX_SHARES = 1000  # shares in memory before expired shares are removed
NEGLIGIBLE = 1.0  # thousandths of a vCPU-second: less usage counts as zero


class QueuedJobs:
    """Enforces the limits on queued jobs."""

    def __init__(self, accounts: AccountPolicies) -> None:
        self._accounts = accounts
        #: The queued jobs of each account, as last saved.
        self.queued: Counter[AccountName] = Counter()
        #: The number of pending dependencies of stored jobs, as last saved. If 0, no dependents need be read.
        self.pending_dependencies = 0
        #: The unit of work that `_quotas` and `_with_admitted` belong to; None: no job admitted since the last commit.
        self._unit: UnitOfWork | None = None
        self._quotas: Quotas
        #: The queued jobs below each limited account, including those admitted in this unit of work.
        self._with_admitted: dict[AccountName, int] = {}

    async def load(self, store: JobStore) -> None:
        self.queued = Counter(await store.queued())
        self.pending_dependencies = await store.waiting_for_others()
        self._unit = None

    def admit(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Count a job that the unit of work takes.

        Raises LimitExceeded if an account would exceed its limit on queued jobs.
        """
        if unit is not self._unit:
            self._unit, self._quotas, self._with_admitted = unit, self._accounts.quotas(), {}
        more, binding = created_jobs(spec.array_size), self._quotas.on(spec.owner.account)
        if not binding:
            return
        counts = {it.name: self._queued_below(it.name) for it in binding if it.limits.queued is not None}
        refused = (quota_exceeded(it, there=counts[it.name], more=more) for it in binding if it.name in counts)
        why = next(filter(None, refused), None)
        if why is not None:
            raise LimitExceeded(why)
        self._with_admitted |= {name: number + more for name, number in counts.items()}

    def on_committed(self, committed: Committed) -> None:
        for before, after in committed.changes:
            if before is not None and before.status is after.status and before.array_state is after.array_state:
                continue
            more = queued_jobs(after) - (0 if before is None else queued_jobs(before))
            if more:
                self._count(after.spec.owner.account, more)
            if after.spec.depends_on:
                self.pending_dependencies += _pending_dependencies(after) - (
                    0 if before is None else _pending_dependencies(before)
                )
        self._unit = None

    def _count(self, account: AccountName, more: int) -> None:
        """Add to an account's count; remove the account at zero."""
        self.queued[account] += more
        if self.queued[account] <= 0:
            del self.queued[account]

    def _queued_below(self, limited: AccountName) -> int:
        """The queued jobs of the account and of all accounts below it, computed once in a unit of work."""
        if limited in self._with_admitted:
            return self._with_admitted[limited]
        bound = (it for it in self.queued if any(above.name == limited for above in self._quotas.on(it)))
        return sum(self.queued[it] for it in bound)


def _pending_dependencies(job: Job) -> int:
    """The number of pending dependencies of a job; 0 for a damaged record."""
    return len(waits_for(job)) if waits(job) and not is_damaged(job) else 0


class RecentStarts:
    """Counts placements in memory only: nothing is known of the time before the server's start."""

    def __init__(self, since: datetime) -> None:
        #: The server's start.
        self._since = since
        #: The beginning of each interval, oldest first, with its placements by queue.
        self._intervals: deque[tuple[datetime, Counter[QueueName]]] = deque()

    def on_committed(self, committed: Committed) -> None:
        placed = [it.job.spec.queue for it in committed.transitions if it.job.status is Status.STARTING]
        if not placed:
            return
        now = committed.unit.now
        if not self._intervals or not timedelta() <= now - self._intervals[-1][0] < STARTS_INTERVAL:
            self._intervals.append((now, Counter()))
            self._forget(now)
        self._intervals[-1][1].update(placed)

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

    def added_to(self, changes: Changes) -> Changes:
        if not self.shares and not self.used_up:
            return changes
        return replace(changes, shares=tuple(self.shares.items()), used_up=tuple(self.used_up.items()))


NOTHING_CHANGED = UsageChanges(shares={}, used_up={})


class ShareUsageTotals:
    """The usage of shares and of NON_REPLENISHABLE consumable resources."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog
        #: As last saved.
        self.shares: dict[ShareKey, ShareUse] = {}
        #: Units taken from each consumable resource, as last saved.
        self.used_up: dict[ConsumableName, int] = {}
        #: The number of shares in memory that triggers the next removal.
        self._max_shares = MAX_SHARES
        self._staged = NOTHING_CHANGED

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
        self._max_shares = max(MAX_SHARES, 2 * len(self.shares))

    def usage_changes(self, changes: Iterable[Change], now: datetime) -> UsageChanges:
        """What these changes, all those of the unit of work so far, change in the totals."""
        relevant = [it for it in changes if it.after.spec.share_identifier is not None or it.after.spec.needs]
        if not relevant:
            return NOTHING_CHANGED
        return UsageChanges(shares=self._shares(relevant, now), used_up=self._used_up(relevant))

    def with_changes(self, changes: UsageChanges) -> tuple[Mapping[ShareKey, ShareUse], Mapping[ConsumableName, int]]:
        """The totals as the unit of work leaves them."""
        if changes is NOTHING_CHANGED:
            return self.shares, self.used_up
        return ChainMap({**changes.shares}, self.shares), ChainMap({**changes.used_up}, self.used_up)

    def stage(self, changes: Iterable[Change], now: datetime) -> UsageChanges:
        """Compute the changes that the unit of work saves.

        Exactly these changes are applied by `on_committed`, even if the catalog changes meanwhile.
        """
        self._staged = self.usage_changes(changes, now)
        return self._staged

    def on_committed(self, committed: Committed) -> None:
        self.shares |= self._staged.shares
        self.used_up |= self._staged.used_up
        if len(self.shares) > self._max_shares:
            self.prune(committed.unit.now)

    def _is_relevant(self, key: ShareKey, use: ShareUse, now: datetime) -> bool:
        queue = self._catalog.queues.get(key.queue)
        if use.active > 0 or use.millicpus > 0:
            return True
        if queue is None or use.as_of < queue.created_at:
            return False
        return accrued(use, now, self._decay(key.queue)).used >= NEGLIGIBLE

    def _shares(self, changes: Sequence[Change], now: datetime) -> dict[ShareKey, ShareUse]:
        named = {it.after.spec.queue for it in changes if it.after.spec.share_identifier is not None}
        return updated_usage(self.shares, changes, now, {name: self._decay(name) for name in named})

    def _decay(self, name: QueueName) -> timedelta:
        queue = self._catalog.queues.get(name)
        return decay_window(None if queue is None or queue.policy is None else self._catalog.policies.get(queue.policy))

    def _used_up(self, changes: Sequence[Change]) -> dict[ConsumableName, int]:
        known = self._catalog.consumables
        used_up: dict[ConsumableName, int] = {}
        for need in (need for it in changes for need in taken(it.before, it.after)):
            name = need.resource
            if name in known and known[name].kind is ResourceKind.NON_REPLENISHABLE:
                used_up[name] = used_up.get(name, self.used_up.get(name, 0)) + need.quantity
        return used_up
