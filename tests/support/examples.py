"""How many examples a test has: all of them in `make test`, some of them in `make check`."""

from itertools import product

import pytest
from hypothesis import settings

FULL = 100  # of a test without a number, in `make test`; the default of hypothesis


def examples(number):
    """The number for `max_examples` of a test that has so many in `make test`. At least 1: a tenth in `make check`."""
    return max(1, number * settings.default.max_examples // FULL)


def quick_seeds(quick, *, of):
    """The seeds of a test of random runs; `make check` runs the first `quick` ones."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(quick, of))]


def pairs(members, *, offset):
    """All pairs of these members; in `make check` a third, with each member at both places. `offset`: which third."""
    every = product(enumerate(members), repeat=2)
    is_full = examples(FULL) == FULL
    return [(one, two) for (first, one), (second, two) in every if is_full or (first + second) % 3 == offset % 3]
