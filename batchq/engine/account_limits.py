"""The limits of accounts as the engine applies them: container policy, quotas, queued jobs, and the SubmitJob rate."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from batchq.domain.access.accounts import AccountName, ContainerPolicy, Directory, Owner
from batchq.domain.access.container_policy import AuthorPolicies
from batchq.domain.enums import QUEUED
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.quotas import Quotas, created_jobs, queued_jobs, quota_exceeded
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import LimitExceeded, Throttled, Unavailable
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.system.throttling import RateLimiter

POLL_INTERVAL = 2.5  # seconds between checks for changed quotas

log = logging.getLogger(__name__)


class AccountPolicies:
    """The present policies and limits of accounts."""

    def __init__(self, *, directory: Callable[[], Directory], enforced: bool) -> None:
        #: Reads the accounts; raises Unavailable, and then no job is started.
        self._directory = directory
        #: Whether container policies and separate networks of accounts are enforced.
        self.are_enforced = enforced
        #: The quotas when the accounts were last readable.
        self._quotas = Quotas(Directory())
        #: The quotas at the last call of `changed`.
        self._reported: Quotas | None = None
        #: Whether the present failure to read the accounts has been logged.
        self._failure_logged = False

    def container_policy(self, owner: Owner) -> ContainerPolicy | None:
        """The container policy of the owner's jobs; None: all that the server allows. Raises Unavailable."""
        return self._directory().container_policy_of_owner(owner) if self.are_enforced else None

    def author_policies(self, authors: Iterable[Owner]) -> AuthorPolicies:
        """The container policies of the authors of a job. Present admins are left out. Raises Unavailable."""
        policies = ((author, self.container_policy(author)) for author in authors)
        return tuple((author, policy) for author, policy in policies if policy is not None)

    def network_account(self, spec: JobSpec) -> str:
        """The account whose jobs share networks with this job; empty if all accounts share them.

        Several accounts, joined by `+`, for a job whose authors are of other accounts and not admins: such jobs share
        networks with each other only. Raises Unavailable.
        """
        if not self.are_enforced:
            return ""
        others = {author.account for author, _ in self.author_policies(spec.authors)} - {spec.owner.account}
        return "+".join([spec.owner.account, *sorted(others)])

    async def watch(self, clock: Clock, changed: Callable[[], None]) -> None:
        """Call `changed` when the quotas have changed, so that jobs which waited for a limit are placed."""
        self._reported = self._reported or self.quotas()
        while True:
            await clock.sleep(POLL_INTERVAL)
            if self.quotas() is not self._reported:
                self._reported = self.quotas()
                changed()

    def quotas(self) -> Quotas:
        """The present quotas; the last known ones while the accounts cannot be read."""
        try:
            directory = self._directory()
        except Unavailable as why:
            if not self._failure_logged:
                log.warning("the accounts cannot be read; their last known limits apply: %s", why)
            self._failure_logged = True
            return self._quotas
        self._failure_logged = False
        if directory is not self._quotas.directory:
            self._quotas = Quotas(directory)
        return self._quotas


class SubmitRateLimiter:
    """Limits the jobs that an account submits in a second."""

    def __init__(self, accounts: AccountPolicies, clock: Clock) -> None:
        self._accounts = accounts
        self._limiter = RateLimiter[AccountName](clock.now)

    def check(self, account: AccountName) -> None:
        """Count one job against `account` and every account above it.

        Raises Throttled, and then counts it against none of them.
        """
        limited = self._accounts.quotas().on(account)
        rates = {each.name: each.limits.submits for each in limited if each.limits.submits is not None}
        exceeded = self._limiter.take(rates) if rates else None
        if exceeded is not None:
            raise Throttled(f"Account {exceeded} may submit {rates[exceeded]:g} jobs per second: Rate exceeded")


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
        counts = {
            account.name: self._queued_below(account.name) for account in binding if account.limits.queued is not None
        }
        refused = (
            quota_exceeded(account, queued=counts[account.name], more=more)
            for account in binding
            if account.name in counts
        )
        why = next(filter(None, refused), None)
        if why is not None:
            raise LimitExceeded(why)
        self._with_admitted |= {name: number + more for name, number in counts.items()}

    def on_committed(self, committed: Committed) -> None:
        for before, after in committed.changes:
            if after.status not in QUEUED and (before is None or before.status not in QUEUED):
                continue
            if before is not None and before.status is after.status and before.array_state is after.array_state:
                continue
            more = queued_jobs(after) - (0 if before is None else queued_jobs(before))
            if more:
                account = after.spec.owner.account
                self.queued[account] += more
                if self.queued[account] <= 0:
                    del self.queued[account]
            if after.spec.depends_on:
                self.pending_dependencies += _pending_dependencies(after) - (
                    0 if before is None else _pending_dependencies(before)
                )
        self._unit = None

    def _queued_below(self, limited: AccountName) -> int:
        """The queued jobs of the account and of all accounts below it, computed once in a unit of work."""
        if limited in self._with_admitted:
            return self._with_admitted[limited]
        bound = (name for name in self.queued if any(above.name == limited for above in self._quotas.on(name)))
        return sum(self.queued[name] for name in bound)


def _pending_dependencies(job: Job) -> int:
    """The number of pending dependencies of a job; 0 for a damaged record."""
    return len(waits_for(job)) if waits(job) and not is_damaged(job) else 0
