"""The limits of accounts as the engine applies them: container policy, quotas, and the rate limit for SubmitJob."""

import logging
from collections.abc import Callable

from batchq.domain.access.accounts import AccountName, ContainerPolicy, Directory, Owner
from batchq.domain.scheduling.quotas import Quotas
from batchq.errors import Throttled, Unavailable
from batchq.ports.clock import Clock
from batchq.throttling import RateLimiter

POLL_INTERVAL = 2.5  # seconds between checks for changed quotas

log = logging.getLogger(__name__)


class AccountPolicies:
    """The present policies and limits of accounts."""

    def __init__(self, *, directory: Callable[[], Directory], enforced: bool) -> None:
        #: Reads the accounts; raises Unavailable, and then no job is started.
        self._directory = directory
        #: Whether container policies and separate networks of accounts are enforced.
        self._enforced = enforced
        #: The quotas when the accounts were last readable.
        self._quotas = Quotas(Directory())
        #: The quotas at the last call of `changed`.
        self._reported: Quotas | None = None
        #: Whether the present failure to read the accounts has been logged.
        self._failure_logged = False

    def container_policy(self, owner: Owner) -> ContainerPolicy | None:
        """The container policy of the owner's jobs; None: all that the server allows. Raises Unavailable."""
        return self._directory().container_policy_of_owner(owner) if self._enforced else None

    def network_account(self, owner: Owner) -> str:
        """The account whose jobs share networks with the owner's; empty if all accounts share them."""
        return owner.account if self._enforced else ""

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
        rates = {it.name: it.limits.submits for it in limited if it.limits.submits is not None}
        exceeded = self._limiter.take(rates) if rates else None
        if exceeded is not None:
            raise Throttled(f"Account {exceeded} may submit {rates[exceeded]:g} jobs per second: Rate exceeded")
