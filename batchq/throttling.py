"""How much one caller may ask for: so many requests a second, and so many at the same time.

Both forget a key as soon as nothing is known of it that a new one would not have, so memory is bounded by those who
are held back now.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from batchq.errors import TooOften

BURST = 2.0  # seconds' worth of tokens that may be taken at once, and one token at least
MAX_BUCKETS = 1000  # in memory, before the full ones are looked for

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    tokens: float
    at: datetime
    rate: float

    def now(self, now: datetime) -> float:
        return min(capacity(self.rate), self.tokens + max(0.0, (now - self.at).total_seconds()) * self.rate)


def capacity(rate: float) -> float:
    """The tokens of a full bucket."""
    return max(1.0, rate * BURST)


class TokenBuckets(Generic[K]):
    """A token bucket a key, full at first. Kept in memory: a server that has just begun knows of no request."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._buckets: dict[K, _Bucket] = {}
        self._most = MAX_BUCKETS

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, rates: Mapping[K, float]) -> K | None:
        """A token of each of these keys, whose rates are in tokens a second; or of none, and a key that has none."""
        now = self._now()
        left = {}
        for key, rate in rates.items():
            bucket = self._buckets.get(key)
            left[key] = capacity(rate) if bucket is None else min(capacity(rate), bucket.now(now))
            if left[key] < 1:
                return key
        self._buckets |= {key: _Bucket(tokens=left[key] - 1, at=now, rate=rate) for key, rate in rates.items()}
        if len(self._buckets) > self._most:
            self._forget(now)
        return None

    def _forget(self, now: datetime) -> None:
        """A full bucket is as good as none."""
        self._buckets = {key: it for key, it in self._buckets.items() if it.now(now) < capacity(it.rate)}
        self._most = max(MAX_BUCKETS, 2 * len(self._buckets))


@dataclass(slots=True)
class _Users:
    free: asyncio.Semaphore
    count: int = field(default=0)


class ConcurrencyLimit(Generic[K]):
    """So many at the same time for each key; so many more wait for their turn, first come, first served."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most = at_once + waiting
        self._users: dict[K, _Users] = {}

    @asynccontextmanager
    async def of(self, key: K) -> AsyncIterator[None]:
        """Raises TooOften."""
        users = self._users.setdefault(key, _Users(asyncio.Semaphore(self._at_once)))
        if users.count >= self._most:
            raise TooOften(f"{users.count} requests of this kind are under way already: Rate exceeded")
        users.count += 1
        try:
            async with users.free:
                yield
        finally:
            users.count -= 1
            if users.count == 0:
                del self._users[key]
