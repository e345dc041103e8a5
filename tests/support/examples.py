"""How many examples a test has: all of them in `make test`, some of them in `make check`."""

from itertools import product

import pytest
from hypothesis import settings

FULL = 100  # of a test without a number, in `make test`; the default of hypothesis


def examples(number):
    """The `max_examples` of a test that has `number` examples in `make test`: a tenth in `make check`, at least 1."""
    return max(1, number * settings.default.max_examples // FULL)


def quick_seeds(quick, *, of):
    """The seeds of a test of random runs; `make check` runs the first `quick` ones."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(quick, of))]


def pairs(members, *, offset):
    """All pairs of these members; in `make check` a third, with each member at both places. `offset`: which third."""
    numbered = product(enumerate(members), repeat=2)
    has_all = examples(FULL) == FULL
    return [(one, two) for (first, one), (second, two) in numbered if has_all or (first + second) % 3 == offset % 3]
