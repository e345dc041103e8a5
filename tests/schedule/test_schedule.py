"""A small workload: no job starves, nothing is overcommitted, and the shares get what they are entitled to."""

import pytest

from tests.schedule.run import LONGEST, run_workload


@pytest.mark.exhaustive
async def test_two_thousand_jobs():
    metrics = await run_workload(2000, vcpus=64, seed=1)

    assert (metrics.jobs, metrics.unfinished) == (2000, 0)
    assert metrics.longest_delay <= 2 * LONGEST + 60 + 120
    assert metrics.utilisation > 0.8
    assert metrics.share_error < 0.05
