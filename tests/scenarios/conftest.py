"""Every scenario is told twice: with pretended containers and a clock that costs nothing, and on real Docker.

There its jobs are on the host's network, which takes no time to be made, unless the file says NETWORK.
"""

import asyncio

import pytest

from batchq.domain.catalog import Network
from tests.support import world as worlds
from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook


@pytest.fixture(params=["pretended", pytest.param("real", marks=pytest.mark.docker)])
async def world(request, tmp_path):
    if request.param == "pretended":
        async with worlds.pretended() as living:
            yield living
    else:
        asyncio.get_running_loop().live_really()
        network = getattr(request.module, "NETWORK", Network.HOST)
        async with worlds.real(tmp_path, network=network) as living:
            yield living
