"""The implementations that the contracts are held on: the product's store in memory, and each container runtime."""

import pytest

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.container import Resources
from batchq.domain.machines import one_machine
from batchq.system.clock import SystemClock
from tests.kubernetes.conftest import on_cluster
from tests.support.combined import two_engines
from tests.support.containers import docker_runtime
from tests.support.inline import InlineStore
from tests.support.kubernetes import kubernetes_runtime
from tests.support.scripts import Script

HOST = Resources(millicpus=4000, memory_mib=4096)
LONG = Script(seconds=None, on_term=7, output=("ready",))
QUICK = Script(seconds=0, output=("one", "two"))
NO_IMAGE, NO_REGISTRY = "batchq-test:none", "127.0.0.1:1/none:latest"

ENGINES = ("simulated", pytest.param("docker", marks=pytest.mark.docker))
CLUSTER = pytest.param("cluster", marks=[pytest.mark.kubernetes, pytest.mark.timeout(300)])
NO_PULL = "The node pulls the image during the start."
NO_FAILURE_FILE = "A failure file cannot be read from a pod, so that a job with one is refused."
NO_SHARED_NETWORK = "Pods are on the network of the cluster, and batchq creates none."


def engines_only(reason):
    """The mark of a rule that Kubernetes does not have, with the reason."""
    assert reason
    return pytest.mark.parametrize("runtime", ENGINES, indirect=True)


@pytest.fixture
async def store():
    store = InlineStore()
    yield store
    await store.close()


@pytest.fixture(params=[*ENGINES, "kubernetes", CLUSTER, "combined"])
async def runtime(request):
    if request.param == "docker":
        async with docker_runtime(request.getfixturevalue("docker_engine")) as runtime:
            yield runtime
    elif request.param == "kubernetes":
        async with kubernetes_runtime() as (runtime, cluster):
            runtime.model = cluster
            cluster.missing_images |= {NO_IMAGE: "not found", NO_REGISTRY: "connection refused"}
            yield runtime
    elif request.param == "cluster":
        async with on_cluster() as runtime:
            yield runtime
    else:
        runtime = SimulatedRuntime(clock=SystemClock(), machines=one_machine(HOST))
        if request.param == "combined":
            runtime = two_engines(SystemClock(), HOST)
            await runtime.survey()
        runtime.engine.missing_images[NO_IMAGE] = None
        runtime.engine.missing_images[NO_REGISTRY] = "connection refused"
        yield runtime
        await runtime.close()
