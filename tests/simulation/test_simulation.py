"""Every invariant holds in random runs with faults. `make simulate` runs thousands more seeds."""

import inspect

import pytest

from batchq.engine import loop
from tests.house.rooms import ROOT
from tests.simulation.choices import Choices
from tests.simulation.mutants import MUTANTS
from tests.simulation.operator_scenario import OperatorScenario
from tests.simulation.run import run_checked, run_seed, simulate
from tests.simulation.run_log import MESSAGE_REJECTED

SEEDS, ATTENDED, PER_TEST = 2000, 200, 25
QUICK = 5  # seeds of `make check`


def every(number):
    """The seeds of each test; `make check` runs only the first QUICK seeds."""
    exhaustive = [range(first, first + PER_TEST) for first in range(0, number, PER_TEST)]
    return [range(QUICK), *(pytest.param(it, marks=pytest.mark.exhaustive) for it in exhaustive)]


@pytest.mark.parametrize("seeds", every(SEEDS), ids=str)
def test_every_invariant_holds_with_random_faults(seeds):
    results = [run_checked(seed) for seed in seeds]

    assert sum(it.counts["crashes"] for it in results) > len(seeds)
    assert sum(it.counts["containers started"] for it in results) > len(seeds)


@pytest.mark.parametrize("seeds", every(ATTENDED), ids=str)
def test_every_invariant_holds_with_force_fail_and_deletion(seeds):
    results = [simulate(Choices(seed), OperatorScenario) for seed in seeds]

    assert [it.failure for it in results if it.failure] == []
    assert sum(it.counts["forced"] for it in results) > len(seeds)
    assert sum(it.counts["forgotten"] for it in results) > len(seeds) / 10


def test_a_seed_repeats_its_run():
    once, again = run_seed(7), run_seed(7)

    assert again.lines == once.lines
    assert again.digest == once.digest


def test_a_run_fails_when_the_engine_logs_a_rejected_message():
    assert f'"{MESSAGE_REJECTED}%s"' in inspect.getsource(loop)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.breaks)
def test_the_text_of_each_mutant_occurs_once(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
