"""What every test may ask for."""

import os
from contextlib import closing

import docker
import pytest
from docker.errors import DockerException


@pytest.fixture(scope="session")
def docker_engine():
    """The address of the engine that answers; None is the SDK's default. Where none answers, tests fail, not skip."""
    try:
        with closing(docker.from_env(timeout=10)) as client:
            client.ping()
    except DockerException as why:
        pytest.fail(f"no Docker engine answers: run .ci/engine ({why})", pytrace=False)
    return os.environ.get("DOCKER_HOST")
