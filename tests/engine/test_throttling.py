"""Token buckets of several keys, and the rate limit for SubmitJob that uses them."""

from datetime import timedelta

import pytest

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory
from batchq.engine.account_limits import AccountPolicies, SubmitRateLimiter
from batchq.errors import Throttled
from batchq.system import throttling
from batchq.system.throttling import MAX_FAILED_KEYS, FailureLimit, RateLimiter
from tests.support.builders import NOON


class Watch:
    def __init__(self):
        self.time = NOON

    def now(self):
        return self.time

    def passes(self, seconds):
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def watch():
    return Watch()


FIVE_OF_TWO = ({"a": 2.0}, [True] * 4 + [False])
BUCKETS = {
    "the tokens of two seconds and refills at its rate": [
        FIVE_OF_TWO,
        0.4,
        ({"a": 2.0}, [False]),
        0.1,
        ({"a": 2.0}, [True, False]),
        3600,
        FIVE_OF_TWO,
    ],
    "one token at least": [({"a": 0.1}, [True, False]), 10, ({"a": 0.1}, [True, False])],
    "tokens of its key only": [({"a": 0.1}, [True, False]), ({"b": 0.1}, [True, False])],
    "all tokens unless all buckets have one": [
        ({"a": 0.5, "b": 1.0}, [True, False, False]),
        ({"b": 1.0}, [True, False]),
    ],
    "tokens of its present rate": [
        ({"a": 1.0}, [True, True, False]),
        1,
        ({"a": 10.0}, [True, False]),
        1,
        ({"a": 10.0}, [True] * 10 + [False]),
    ],
    "the same tokens when the clock is set back": [({"a": 1.0}, [True]), -3600, ({"a": 1.0}, [True, False])],
}


@pytest.mark.parametrize("steps", BUCKETS.values(), ids=BUCKETS)
def test_a_bucket_holds(watch, steps):
    """A step is the time that passes in seconds, or the rates and whether each of several requests takes its tokens."""
    limiter = RateLimiter(watch.now)
    for step in steps:
        if isinstance(step, tuple):
            rates, taken = step
            assert [limiter.take(rates) is None for _ in taken] == taken
        else:
            watch.passes(step)


@pytest.mark.fault("SE38")
def test_full_buckets_are_forgotten(monkeypatch, watch):
    monkeypatch.setattr(throttling, "MAX_BUCKETS", 10)
    limiter = RateLimiter(watch.now)

    for key in range(1000):
        limiter.take({key: 1.0})
        watch.passes(1)

    assert len(limiter) <= 11


def submit_limiter(watch, **rates):
    accounts = {name: Account(name=name, parent=None if name == ROOT else ROOT) for name in ("lab", "other", ROOT)}
    accounts |= {
        rate: Account(name=rate, parent=accounts[rate].parent, limits=AccountLimits(submits=rates[rate]))
        for rate in rates
    }
    accounts["team"] = Account(name="team", parent="lab")
    people = Directory(accounts=accounts)
    return SubmitRateLimiter(AccountPolicies(directory=lambda: people, enforced=True), watch)


def test_a_submitted_job_counts_against_the_accounts_above_and_no_others(watch):
    limiter = submit_limiter(watch, lab=0.5)

    limiter.check("team")

    with pytest.raises(Throttled, match=r"Account lab may submit 0\.5 jobs per second"):
        limiter.check("team")
    for _ in range(1000):
        limiter.check("other")


def test_failures_are_limited_within_a_window_for_each_key(watch):
    limit = FailureLimit(limit=3, window=timedelta(seconds=60))
    for _ in range(3):
        assert not limit.is_exceeded("a", watch.now())
        limit.record("a", watch.now())
        watch.passes(10)

    assert [limit.is_exceeded(name, watch.now()) for name in ("a", "b")] == [True, False]
    watch.passes(29)
    assert limit.is_exceeded("a", watch.now())
    watch.passes(1)
    assert not limit.is_exceeded("a", watch.now())
    limit.record("a", watch.now())
    assert limit.is_exceeded("a", watch.now())


def test_keys_whose_failures_are_over_are_forgotten(watch):
    limit = FailureLimit(limit=3, window=timedelta(seconds=60))
    for number in range(1000):
        limit.record(number, watch.now())
        watch.passes(1)

    assert len(limit) == 60


@pytest.mark.fault("SE78")
def test_failures_of_ever_new_keys_take_bounded_memory():
    limit = FailureLimit(limit=3, window=timedelta(seconds=60))
    for key in range(MAX_FAILED_KEYS + 5):
        limit.record(key, NOON)
    assert len(limit) == MAX_FAILED_KEYS
