"""Fixtures of the tests on a real engine."""

from contextlib import closing

import pytest

from tests.support.containers import docker_runtime
from tests.support.docker_api import docker_api


@pytest.fixture
async def runtime(docker_engine):
    async with docker_runtime(docker_engine) as spec:
        yield spec


@pytest.fixture
def engine(docker_engine):
    """Another client of the engine."""
    with closing(docker_api(docker_engine)) as client:
        yield client
