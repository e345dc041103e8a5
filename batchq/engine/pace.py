"""How often jobs are submitted to an account and all below it: so many a second on average, and a few at once."""

from batchq.domain.people import AccountName
from batchq.engine.accounts import Accounts
from batchq.errors import TooOften
from batchq.ports import Clock
from batchq.throttling import TokenBuckets


class Pace:
    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._buckets = TokenBuckets[AccountName](clock.now)

    def submit(self, account: AccountName) -> None:
        """Raises TooOften, and then none of the accounts above has spent anything."""
        limited = self._accounts.quotas().on(account)
        rates = {it.name: it.limits.submits for it in limited if it.limits.submits is not None}
        lacking = self._buckets.take(rates) if rates else None
        if lacking is not None:
            raise TooOften(f"Account {lacking} may submit {rates[lacking]:g} jobs a second: Rate exceeded")
