"""What the tests on a real engine stand on."""

from contextlib import closing

import docker
import pytest

from tests.support.containers import docker_runtime


@pytest.fixture
async def runtime(docker_engine):
    async with docker_runtime(docker_engine) as it:
        yield it


@pytest.fixture
def engine(docker_engine):
    """The SDK, as somebody else uses it."""
    with closing(docker.APIClient(base_url=docker_engine, version="1.41")) as client:
        yield client
