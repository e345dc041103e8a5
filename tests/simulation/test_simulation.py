"""Many short lives in a bad world: every promise of `oracles` is kept in each. `make simulate` lives thousands more."""

import pytest

from tests.house.rooms import ROOT
from tests.simulation.attended import Attended
from tests.simulation.dice import Dice
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import check, live, tell

SEEDS, ATTENDED, PER_TEST = 2000, 200, 25


def every(number):
    """The first seed of each test. `make check` runs the first of these tests alone."""
    return [0, *(pytest.param(first, marks=pytest.mark.exhaustive) for first in range(PER_TEST, number, PER_TEST))]


@pytest.mark.parametrize("first", every(SEEDS))
def test_whatever_goes_wrong_every_promise_is_kept(first):
    told = [check(seed) for seed in range(first, first + PER_TEST)]

    assert sum(it.counts["crashes"] for it in told) > PER_TEST
    assert sum(it.counts["containers started"] for it in told) > PER_TEST


@pytest.mark.parametrize("first", every(ATTENDED))
def test_nor_is_one_broken_by_who_force_fails_nor_by_forgetting(first):
    told = [live(Dice(seed), Attended) for seed in range(first, first + PER_TEST)]

    assert [it.broken for it in told if it.broken] == []
    assert sum(it.counts["forced"] for it in told) > PER_TEST
    assert sum(it.counts["forgotten"] for it in told) > PER_TEST / 10


def test_a_seed_tells_the_same_story_again():
    once, again = tell(7), tell(7)

    assert again.lines == once.lines
    assert again.digest == once.digest


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.breaks)
def test_the_text_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
