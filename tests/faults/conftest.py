"""An engine of their own for the tests of this folder, which all of them share."""

import pytest

from batchq.compute.docker.operation_pools import Limits
from tests.support import world as worlds
from tests.support.second_engine import second_engine

IMPATIENT = Limits(receive_timeout=2.0, container_timeout=1.0)  # so that calls time out within the test


@pytest.fixture(scope="package")
def engine():
    """Containers do not outlive its end."""
    with second_engine() as second:
        yield second


@pytest.fixture
async def world(engine, tmp_path):
    """The whole of batchq but its API, in this process, so that a fault falls where it is meant to."""
    async with worlds.docker(tmp_path, base_url=engine.url, limits=IMPATIENT, survey_interval=0.5) as living:
        yield living
