"""Token buckets of several keys, and the rate limit for SubmitJob that uses them."""

from datetime import timedelta

import pytest

from batchq import throttling
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory
from batchq.engine.account_limits import AccountPolicies, SubmitRateLimiter
from batchq.errors import Throttled
from batchq.throttling import FailureLimit, RateLimiter
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


@pytest.fixture
def limiter(watch):
    return RateLimiter(watch.now)


def taken(limiter, times, **rates):
    """Whether a token was taken of all keys, `times` times."""
    return [limiter.take(rates) is None for _ in range(times)]


def test_a_bucket_holds_the_tokens_of_two_seconds_and_refills_at_its_rate(limiter, watch):
    assert taken(limiter, 5, a=2.0) == [True] * 4 + [False]
    watch.passes(0.4)
    assert taken(limiter, 1, a=2.0) == [False]
    watch.passes(0.1)
    assert taken(limiter, 2, a=2.0) == [True, False]
    watch.passes(3600)
    assert taken(limiter, 5, a=2.0) == [True] * 4 + [False]


def test_a_bucket_holds_one_token_at_least(limiter, watch):
    assert taken(limiter, 2, a=0.1) == [True, False]
    watch.passes(10)
    assert taken(limiter, 2, a=0.1) == [True, False]


def test_a_key_with_an_empty_bucket_does_not_limit_another(limiter):
    assert taken(limiter, 2, a=0.1) == [True, False]
    assert taken(limiter, 2, b=0.1) == [True, False]


def test_no_token_is_taken_unless_all_buckets_have_one(limiter):
    assert taken(limiter, 3, a=0.5, b=1.0) == [True, False, False]
    assert taken(limiter, 2, b=1.0) == [True, False]


def test_the_rate_of_a_bucket_may_change(limiter, watch):
    assert taken(limiter, 3, a=1.0) == [True, True, False]
    watch.passes(1)
    assert taken(limiter, 2, a=10.0) == [True, False]
    watch.passes(1)
    assert taken(limiter, 11, a=10.0) == [True] * 10 + [False]


def test_a_clock_that_is_set_back_adds_and_removes_no_tokens(limiter, watch):
    assert taken(limiter, 1, a=1.0) == [True]
    watch.passes(-3600)
    assert taken(limiter, 2, a=1.0) == [True, False]


@pytest.mark.fault("SE38")
def test_full_buckets_are_forgotten(monkeypatch, watch):
    monkeypatch.setattr(throttling, "MAX_BUCKETS", 10)
    limiter = RateLimiter(watch.now)

    for key in range(1000):
        limiter.take({key: 1.0})
        watch.passes(1)

    assert len(limiter) <= 11


def submit_limiter(watch, **rates):
    accounts = {it: Account(name=it, parent=None if it == ROOT else ROOT) for it in ("lab", "other", ROOT)}
    accounts |= {
        it: Account(name=it, parent=accounts[it].parent, limits=AccountLimits(submits=rates[it])) for it in rates
    }
    accounts["team"] = Account(name="team", parent="lab")
    people = Directory(accounts=accounts)
    return SubmitRateLimiter(AccountPolicies(directory=lambda: people, enforced=True), watch)


def test_a_submitted_job_counts_against_the_accounts_above_and_no_others(watch):
    limiter = submit_limiter(watch, lab=1.0)

    limiter.check("team")
    limiter.check("team")

    with pytest.raises(Throttled):
        limiter.check("lab")
    for _ in range(3):
        limiter.check("other")


def test_the_error_names_the_account_whose_rate_is_exceeded(watch):
    limiter = submit_limiter(watch, lab=0.5)
    limiter.check("team")

    with pytest.raises(Throttled, match=r"Account lab may submit 0\.5 jobs per second"):
        limiter.check("team")


def test_an_account_without_a_rate_is_not_limited(watch):
    limiter = submit_limiter(watch)

    for _ in range(1000):
        limiter.check("lab")


def test_failures_are_limited_within_a_window_for_each_key(watch):
    limit = FailureLimit(limit=3, window=timedelta(seconds=60))
    for _ in range(3):
        assert not limit.is_exceeded("a", watch.now())
        limit.record("a", watch.now())
        watch.passes(10)

    assert [limit.is_exceeded(it, watch.now()) for it in ("a", "b")] == [True, False]
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
