"""Collections of garbage between simulated runs do not examine the objects of earlier tests."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """Exempt all present objects from later collections.

    `simulate` collects garbage after some runs. To examine the objects of other tests would take longer than the runs.
    """
    gc.collect()
    gc.freeze()
