"""Scenarios of `world` run twice: with simulated containers on a virtual clock, and on Docker.

On Docker its jobs use the host's network, for which nothing has to be created, unless the file defines NETWORK.
"""

import asyncio

import pytest

from batchq.domain.catalog import Network
from tests.support import world as worlds
from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook


@pytest.fixture
async def simulated():
    """The simulated world alone, for scenarios that Docker cannot run or has no part in."""
    async with worlds.simulated() as running:
        yield running


@pytest.fixture(params=["simulated", pytest.param("docker", marks=pytest.mark.docker)])
async def world(request, tmp_path):
    if request.param == "simulated":
        async with worlds.simulated() as running:
            yield running
    else:
        asyncio.get_running_loop().live_really()
        network = getattr(request.module, "NETWORK", Network.HOST)
        async with worlds.docker(tmp_path, network=network) as running:
            yield running
