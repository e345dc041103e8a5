"""Mutants that are of no code any more kill nobody's time."""

import pytest

from tests.domain.mutants import MUTANTS
from tests.house.rooms import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.breaks)
def test_the_text_a_mutant_changes_is_there_once(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
