"""What earlier tests left is exempt from the collections of garbage between simulated runs."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """`simulate` collects garbage after some runs. In a worker that has run other tests each collection would also
    examine their objects, which takes longer than the runs.
    """
    gc.collect()
    gc.freeze()
