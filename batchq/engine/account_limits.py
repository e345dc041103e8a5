"""The limits of accounts as the engine applies them: container policy, quotas, and the rate limit for SubmitJob."""

import logging
from collections.abc import Callable

from batchq.domain.access.accounts import AccountName, ContainerPolicy, Directory, Owner
from batchq.domain.scheduling.quotas import Quotas
from batchq.errors import Throttled, Unavailable
from batchq.ports.clock import Clock
from batchq.throttling import RateLimiter

LOOK_EVERY = 2.5  # seconds between checks for changed quotas

log = logging.getLogger(__name__)


class Accounts:
    """The present policies and limits of accounts."""

    def __init__(self, *, people: Callable[[], Directory], held: bool) -> None:
        #: Reads the accounts; raises Unavailable, and then no job is started.
        self._people = people
        #: Whether container policies and separate networks of accounts are enforced.
        self._held = held
        #: The quotas when the accounts were last readable.
        self._quotas = Quotas(Directory())
        #: The quotas at the last call of `changed`.
        self._told: Quotas | None = None
        #: Whether the present failure to read the accounts has been logged.
        self._complained = False

    def allowance(self, owner: Owner) -> ContainerPolicy | None:
        """The container policy of the owner's jobs; None: all that the server allows. Raises Unavailable."""
        return self._people().held_to(owner) if self._held else None

    def network_account(self, owner: Owner) -> str:
        """The account whose jobs share networks with the owner's; empty if all accounts share them."""
        return owner.account if self._held else ""

    async def watch(self, clock: Clock, changed: Callable[[], None]) -> None:
        """Call `changed` when the quotas have changed, so that jobs which waited for a limit are placed."""
        self._told = self._told or self.quotas()
        while True:
            await clock.sleep(LOOK_EVERY)
            if self.quotas() is not self._told:
                self._told = self.quotas()
                changed()

    def quotas(self) -> Quotas:
        """The present quotas; the last known ones while the accounts cannot be read."""
        try:
            people = self._people()
        except Unavailable as why:
            if not self._complained:
                log.warning("limits of accounts hold as they were: %s", why)
            self._complained = True
            return self._quotas
        self._complained = False
        if people is not self._quotas.people:
            self._quotas = Quotas(people)
        return self._quotas


class SubmitRateLimiter:
    """Limits the jobs that an account submits in a second."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
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
            raise Throttled(f"Account {exceeded} may submit {rates[exceeded]:g} jobs a second: Rate exceeded")
