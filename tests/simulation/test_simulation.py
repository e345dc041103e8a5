"""Many short lives in a bad world: every promise of `oracles` is kept in each. `make simulate` lives thousands more."""

import pytest

from tests.house.rooms import ROOT
from tests.simulation.choices import Choices
from tests.simulation.mutants import MUTANTS
from tests.simulation.operator_scenario import OperatorScenario
from tests.simulation.run import run_checked, run_seed, simulate

SEEDS, ATTENDED, PER_TEST = 2000, 200, 25


def every(number):
    """The first seed of each test. `make check` runs the first of these tests alone."""
    return [0, *(pytest.param(first, marks=pytest.mark.exhaustive) for first in range(PER_TEST, number, PER_TEST))]


@pytest.mark.parametrize("first", every(SEEDS))
def test_whatever_goes_wrong_every_promise_is_kept(first):
    results = [run_checked(seed) for seed in range(first, first + PER_TEST)]

    assert sum(it.counts["crashes"] for it in results) > PER_TEST
    assert sum(it.counts["containers started"] for it in results) > PER_TEST


@pytest.mark.parametrize("first", every(ATTENDED))
def test_nor_is_one_broken_by_who_force_fails_nor_by_forgetting(first):
    results = [simulate(Choices(seed), OperatorScenario) for seed in range(first, first + PER_TEST)]

    assert [it.failure for it in results if it.failure] == []
    assert sum(it.counts["forced"] for it in results) > PER_TEST
    assert sum(it.counts["forgotten"] for it in results) > PER_TEST / 10


def test_a_seed_tells_the_same_story_again():
    once, again = run_seed(7), run_seed(7)

    assert again.lines == once.lines
    assert again.digest == once.digest


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.breaks)
def test_the_text_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
