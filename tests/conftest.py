"""What every test may ask for."""

import gc
import os
from contextlib import closing

import docker
import pytest
from docker.errors import DockerException
from hypothesis import HealthCheck, settings

# A machine may be loaded: no example fails for the time that it took, nor for the time it took to make it up.
settings.register_profile("batchq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# That of `make check`, by --hypothesis-profile.
settings.register_profile("check", settings.get_profile("batchq"), max_examples=10)
settings.load_profile("batchq")


def pytest_collection_finish():
    """Exempt the tests and all imported modules from garbage collection: a tenth of the time of small tests."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """What a test proves of the catalogue of faults goes with its report, wherever that is read."""
    for item in items:
        item.user_properties += [("fault", row) for mark in item.iter_markers("fault") for row in mark.args]


@pytest.fixture(scope="session")
def docker_engine():
    """The address of the engine that answers; None is the SDK's default. Where none answers, tests fail, not skip."""
    try:
        with closing(docker.from_env()) as client:
            client.ping()
    except DockerException as why:
        pytest.fail(f"no Docker engine answers: run .ci/engine ({why})", pytrace=False)
    return os.environ.get("DOCKER_HOST")
