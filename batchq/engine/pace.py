"""How often jobs are submitted to an account and all below it: so many a second on average, and a few at once."""

from datetime import datetime

from batchq.domain.people import AccountName
from batchq.engine.accounts import Accounts
from batchq.errors import TooOften
from batchq.ports import Clock

BURST = 2.0  # seconds' worth that may come at once, and one at least


class Pace:
    """Kept in memory: a server that has just begun takes what may come at once."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._left: dict[AccountName, tuple[float, datetime]] = {}

    def submit(self, account: AccountName) -> None:
        """Raises TooOften, and then none of the accounts above has spent anything."""
        limited = self._accounts.quotas().on(account)
        if not limited:
            return
        now, left = self._clock.now(), {}
        for it in limited:
            if it.limits.submits is not None:
                left[it.name] = self._now_left(it.name, it.limits.submits, now)
                if left[it.name] < 1:
                    raise TooOften(f"Account {it.name} may submit {it.limits.submits:g} jobs a second: Rate exceeded")
        self._left |= {name: (there - 1, now) for name, there in left.items()}

    def _now_left(self, name: AccountName, rate: float, now: datetime) -> float:
        most = max(1.0, rate * BURST)
        left, at = self._left.get(name, (most, now))
        return min(most, left + (now - at).total_seconds() * rate)
