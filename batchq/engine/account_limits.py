"""What accounts mean to the engine: what their jobs may have of the machine, and the limits that hold them.

The rate limit for SubmitJob of each account.
"""

import logging
from collections.abc import Callable

from batchq.domain.access.accounts import AccountName, ContainerPolicy, Directory, Owner
from batchq.domain.scheduling.quotas import Quotas
from batchq.errors import TooOften, Unavailable
from batchq.ports.clock import Clock
from batchq.throttling import RateLimiter

LOOK_EVERY = 2.5  # seconds

log = logging.getLogger(__name__)


class Accounts:
    """`people` raises Unavailable; then no job is started. While not `held` none is held to what its account may."""

    def __init__(self, *, people: Callable[[], Directory], held: bool) -> None:
        self._people = people
        self._held = held
        self._quotas = Quotas(Directory())
        self._told: Quotas | None = None
        self._complained = False

    def allowance(self, owner: Owner) -> ContainerPolicy | None:
        """What this owner's jobs may have now, None whatever the server gives. Raises Unavailable."""
        return self._people().held_to(owner) if self._held else None

    def network_account(self, owner: Owner) -> str:
        """The account whose jobs share networks with this owner's; empty where those of all accounts do."""
        return owner.account if self._held else ""

    async def watch(self, clock: Clock, changed: Callable[[], None]) -> None:
        """Call `changed` when limits may have become others: who waits for one need not wait for somebody else."""
        self._told = self._told or self.quotas()
        while True:
            await clock.sleep(LOOK_EVERY)
            if self.quotas() is not self._told:
                self._told = self.quotas()
                changed()

    def quotas(self) -> Quotas:
        """As they are now; while that cannot be told, as they were last."""
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
    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._limiter = RateLimiter[AccountName](clock.now)

    def check(self, account: AccountName) -> None:
        """Count one job against `account` and every account above it. Raises TooOften, and then counts it nowhere."""
        limited = self._accounts.quotas().on(account)
        rates = {it.name: it.limits.submits for it in limited if it.limits.submits is not None}
        exceeded = self._limiter.take(rates) if rates else None
        if exceeded is not None:
            raise TooOften(f"Account {exceeded} may submit {rates[exceeded]:g} jobs a second: Rate exceeded")
