"""The rate limit for SubmitJob of each account."""

from batchq.domain.people import AccountName
from batchq.engine.accounts import Accounts
from batchq.errors import TooOften
from batchq.ports import Clock
from batchq.throttling import RateLimiter


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
