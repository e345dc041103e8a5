"""How often an account submits."""

from datetime import timedelta

import pytest

from batchq.domain.people import ROOT, Account, Limits, People
from batchq.engine.accounts import Accounts
from batchq.engine.pace import Pace
from batchq.errors import TooOften
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


def pace(watch, **rates):
    accounts = {it: Account(name=it, parent=None if it == ROOT else ROOT) for it in ("lab", "other", ROOT)}
    accounts |= {it: Account(name=it, parent=accounts[it].parent, limits=Limits(submits=rates[it])) for it in rates}
    accounts["team"] = Account(name="team", parent="lab")
    people = People(accounts=accounts)
    return Pace(Accounts(people=lambda: people, held=True), watch)


def taken(its, times, account="lab"):
    return [_takes(its, account) for _ in range(times)]


def _takes(its, account):
    try:
        its.submit(account)
    except TooOften:
        return False
    return True


def test_two_seconds_worth_may_come_at_once_and_then_as_many_as_time_brings(watch):
    its = pace(watch, lab=2.0)

    assert taken(its, 5) == [True] * 4 + [False]
    watch.passes(0.4)
    assert taken(its, 1) == [False]
    watch.passes(0.1)
    assert taken(its, 2) == [True, False]
    watch.passes(3600)
    assert taken(its, 5) == [True] * 4 + [False]


def test_one_at_least_may_come_however_low_the_rate(watch):
    its = pace(watch, lab=0.1)

    assert taken(its, 2) == [True, False]
    watch.passes(10)
    assert taken(its, 2) == [True, False]


def test_an_account_spends_of_those_above_it_and_not_of_others(watch):
    its = pace(watch, lab=1.0)

    assert taken(its, 2, "team") == [True, True]
    assert taken(its, 1) == [False]
    assert taken(its, 3, "other") == [True, True, True]


def test_one_that_is_refused_spends_nothing(watch):
    its = pace(watch, lab=0.5, root=1.0)

    assert taken(its, 3) == [True, False, False]
    assert taken(its, 2, "other") == [True, False]


def test_it_says_whose_limit_it_is(watch):
    its = pace(watch, lab=0.5)
    its.submit("team")

    with pytest.raises(TooOften, match=r"Account lab may submit 0\.5 jobs a second"):
        its.submit("team")


def test_where_no_rate_is_set_everything_is_taken(watch):
    assert taken(pace(watch), 1000) == [True] * 1000
