"""Counts of jobs in memory: queued jobs by account, pending dependencies, and the recent starts of each queue."""

from collections import Counter, deque
from datetime import datetime, timedelta

from batchq.domain.access.accounts import AccountName
from batchq.domain.ids import QueueName
from batchq.domain.job import Job, JobSpec, Status
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.quotas import Quotas, created_jobs, queued_jobs, quota_exceeded
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import LimitExceeded
from batchq.ports.jobs import JobStore

PERIOD = timedelta(hours=1)
INTERVAL = timedelta(minutes=5)


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
        if not self._intervals or not timedelta() <= now - self._intervals[-1][0] < INTERVAL:
            self._intervals.append((now, Counter()))
            self._forget(now)
        self._intervals[-1][1].update(placed)

    def period(self, now: datetime) -> timedelta:
        """The time that `counts` covers: an hour, or less after a start of the server."""
        return max(timedelta(), min(PERIOD, now - self._since))

    def counts(self, now: datetime) -> Counter[QueueName]:
        """The placements of each queue within the last hour."""
        self._forget(now)
        return sum((counts for _, counts in self._intervals), Counter[QueueName]())

    def _forget(self, now: datetime) -> None:
        while self._intervals and now - self._intervals[0][0] > PERIOD:
            self._intervals.popleft()
