"""A small day: nobody starves, nothing is overcommitted, and the shares get what is theirs."""

import pytest

from tests.schedule.day import live
from tests.schedule.work import LONGEST


@pytest.mark.exhaustive
async def test_two_thousand_jobs():
    sums = await live(2000, vcpus=64, seed=1)

    assert (sums.jobs, sums.unfinished) == (2000, 0)
    assert sums.delayed <= 2 * LONGEST + 60 + 120
    assert sums.utilisation > 0.8
    assert sums.share_error < 0.05
