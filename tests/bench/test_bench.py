"""Each group of the bench runs, with the smallest numbers."""

import os

import pytest

from tests.bench import slots
from tests.bench.figures import TINY, Figure, at_least, at_most_more, interleaved, within
from tests.bench.groups import GROUPS
from tests.bench.groups.kubernetes import CLUSTER
from tests.support.clock import VirtualLoop

ON_DOCKER = {"containers", "ends", "stop", "use", "million"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=pytest.mark.docker if group in ON_DOCKER else ())
        for group in GROUPS
        if group != "kubernetes" or CLUSTER in os.environ
    ],
)
def test_a_group_measures_all_its_figures(group, tmp_path):
    figures = list(GROUPS[group](TINY, tmp_path))

    assert figures
    assert all(str(figure).count("|") == str(figures[0]).count("|") for figure in figures)


def test_pairs_are_interleaved():
    done = []

    baseline, measured = interleaved(2, lambda: done.append("A") or 1, lambda: done.append("B") or 2)

    assert (done, baseline, measured) == (["A", "B", "A", "B"], [1, 1], [2, 2])


def test_each_pair_is_compared_and_the_median_must_reach_the_goal():
    # the ratio of the medians would be 2
    line = str(Figure(name="rate", against="bare", measured=[9, 10, 30], baseline=[10, 10, 5], goal=at_least(1)))

    assert (
        line
        == "| rate | 10.0 (9.00 to 30.0) | bare: 10.0 (5.00 to 10.0) | 1.00 (0.90 to 6.00) | at least 1 | reached |"
    )


def test_a_goal_that_is_not_reached_names_the_page_that_explains_it():
    more = Figure(name="ms", against="bare", measured=[25], baseline=[10], goal=at_most_more(10))
    longer = Figure(name="s", measured=[3.5], goal=within(3))

    assert "| 15.0 | at most 10 more | not: see docs/performance.md |" in str(more)
    assert "| s | 3.50 |  |  | at most 3 | not:" in str(longer)


def test_jobs_run_on_slots_on_the_virtual_clock():
    loop = VirtualLoop()

    hours = loop.run_until_complete(slots.run(30, 10))
    loop.close()

    assert hours > slots.SHORTEST / 3600
