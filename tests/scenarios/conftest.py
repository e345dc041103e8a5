"""Scenarios of `world` run with simulated containers on a virtual clock, on Docker, and on Kubernetes.

On Kubernetes they run on the model of the API server and on a cluster (`make test-kubernetes`), except those that
tests/kubernetes/exclusions.py lists. On Docker the jobs use the host's network, for which nothing has to be created,
unless the file defines NETWORK.
"""

import asyncio

import pytest

from batchq.domain.catalog import Network
from tests.kubernetes.conftest import KUBERNETES_WORLDS, HostRuntime, kubernetes_world
from tests.kubernetes.exclusions import is_excluded
from tests.support import world as worlds
from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook
from tests.support.training_client import TrainingClient


def pytest_collection_modifyitems(config, items):
    """Deselect the scenarios that do not run on Kubernetes."""
    excluded = {item for item in items if is_excluded(item)}
    config.hook.pytest_deselected(items=[*excluded])
    items[:] = [item for item in items if item not in excluded]


@pytest.fixture
async def simulated():
    """The simulated world alone, for scenarios that Docker cannot run or has no part in."""
    async with worlds.simulated() as running:
        yield running


@pytest.fixture
def slow_loops(monkeypatch):
    """Loops that look for changes work once an hour; otherwise 40,000 times in 12 hours of virtual time."""
    for interval in (
        "account_limits.POLL_INTERVAL",
        "budgets.CHECK_INTERVAL",
        "scheduling.blocked.SCAN_INTERVAL",
        "store_monitor.CHECK_INTERVAL",
    ):
        monkeypatch.setattr(f"batchq.engine.{interval}", 3600.0)


@pytest.fixture(params=["simulated", pytest.param("docker", marks=pytest.mark.docker), *KUBERNETES_WORLDS])
async def world(request):
    if request.param == "simulated":
        async with worlds.simulated() as running:
            yield running
        return
    asyncio.get_running_loop().live_really()
    tmp_path = request.getfixturevalue("tmp_path")
    if request.param == "docker":
        network = getattr(request.module, "NETWORK", Network.HOST)
        async with worlds.docker(tmp_path, network=network) as running:
            yield running
    else:
        async with kubernetes_world(request.param, tmp_path, runtime_kind=HostRuntime) as running:
            yield running


@pytest.fixture
async def training(world):
    client = TrainingClient(world)
    yield client
    assert client.undescribed == [], "a response is not as /openapi.json describes it"
