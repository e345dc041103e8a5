"""Limits of rates, of concurrency and of failures for each key: an account, a user, an address.

They drop a key whose state equals that of a new one, so memory is bounded by the number of keys limited at present.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Generic, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.errors import Throttled

BURST = 2.0  # seconds: the capacity of a bucket is what its rate adds in this time, and at least one token
MAX_BUCKETS = 1000  # in memory, before full buckets are removed
MAX_FAILED_KEYS = 10_000  # whose failures are counted at the same time

K = TypeVar("K", bound=Hashable)


class TokenBucket(Struct, frozen=True, kw_only=True):
    """A token bucket at a point in time."""

    #: Tokens a second.
    rate: float
    #: Tokens in the bucket at `updated_at`; not more than its capacity.
    tokens: float
    #: When `tokens` was computed.
    updated_at: datetime

    @classmethod
    def full(cls, rate: float, now: datetime) -> Self:
        return cls(rate=rate, tokens=max(1.0, rate * BURST), updated_at=now)

    def refilled(self, rate: float, now: datetime) -> Self:
        """The bucket at `now`, which from then on fills at `rate`. A clock that was set back adds nothing."""
        elapsed = max(0.0, (now - self.updated_at).total_seconds())
        tokens = min(self.tokens + elapsed * self.rate, self.full(rate, now).tokens)
        return type(self)(rate=rate, tokens=tokens, updated_at=now)

    def is_full(self, now: datetime) -> bool:
        full = self.full(self.rate, now)
        return self.refilled(self.rate, now) == full


class RateLimiter(Generic[K]):
    """A token bucket for each key, full at first. Buckets are in memory only: a restart fills them."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._buckets: dict[K, TokenBucket] = {}
        self._max_buckets = MAX_BUCKETS

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, rates: Mapping[K, float]) -> K | None:
        """Take a token of every key in `rates` (tokens a second), or take none and return a key without a token."""
        now = self._now()
        buckets = {key: self._bucket(key, rate, now) for key, rate in rates.items()}
        empty = next((key for key, bucket in buckets.items() if bucket.tokens < 1), None)
        if empty is not None:
            return empty
        self._buckets |= {key: replace(bucket, tokens=bucket.tokens - 1) for key, bucket in buckets.items()}
        if len(self._buckets) > self._max_buckets:
            self._forget_full_buckets(now)
        return None

    def _bucket(self, key: K, rate: float, now: datetime) -> TokenBucket:
        bucket = self._buckets.get(key)
        return TokenBucket.full(rate, now) if bucket is None else bucket.refilled(rate, now)

    def _forget_full_buckets(self, now: datetime) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.is_full(now)}
        self._max_buckets = max(MAX_BUCKETS, 2 * len(self._buckets))


class _Users(Struct):
    free: asyncio.Semaphore
    count: int = 0


class ConcurrencyLimit(Generic[K]):
    """`at_once` users of each key at the same time; `waiting` more wait, first come, first served."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._max_users = at_once + waiting
        self._users: dict[K, _Users] = {}

    @asynccontextmanager
    async def of(self, key: K) -> AsyncIterator[None]:
        """Raises Throttled when `waiting` users of `key` wait already."""
        users = self._users.setdefault(key, _Users(asyncio.Semaphore(self._at_once)))
        if users.count >= self._max_users:
            raise Throttled(f"Rate exceeded: {users.count} requests of this kind are already in progress")
        users.count += 1
        try:
            async with users.free:
                yield
        finally:
            users.count -= 1
            if users.count == 0:
                del self._users[key]


class FailureLimit(Generic[K]):
    """Counts the failures of each key: at most `limit` within `window`, and then no further attempt is allowed.

    Callers may choose the keys, so with more than MAX_FAILED_KEYS the one that failed longest ago is dropped.
    """

    def __init__(self, *, limit: int, window: timedelta) -> None:
        self._limit = limit
        self._window = window
        #: The times of the latest failures, oldest first; keys in the order of their latest failure.
        self._failures: dict[K, tuple[datetime, ...]] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def is_exceeded(self, key: K, now: datetime) -> bool:
        times = self._failures.get(key, ())
        return len(times) >= self._limit and now < times[0] + self._window

    def record(self, key: K, now: datetime) -> None:
        times = (*self._failures.pop(key, ()), now)[-self._limit :]
        self._failures[key] = times
        while self._failures:
            oldest = next(iter(self._failures))
            if len(self._failures) <= MAX_FAILED_KEYS and now < self._failures[oldest][-1] + self._window:
                break
            del self._failures[oldest]
