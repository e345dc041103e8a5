"""Rates and concurrency are limited for each key, and memory is bounded by the keys that are held back."""

from datetime import timedelta

import pytest

from batchq import throttling
from batchq.throttling import TokenBuckets
from tests.support.builders import NOON


@pytest.mark.fault("SE38")
def test_full_buckets_are_forgotten(monkeypatch):
    monkeypatch.setattr(throttling, "MAX_BUCKETS", 10)
    now = [NOON]
    buckets = TokenBuckets[int](lambda: now[0])

    for key in range(1000):
        buckets.take({key: 1.0})
        now[0] += timedelta(seconds=1)

    assert len(buckets) <= 11
