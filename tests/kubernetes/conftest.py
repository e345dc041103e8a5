"""Worlds on Kubernetes: on the model of the API server, and on a cluster (`make test-kubernetes`).

The cluster is the context of BATCHQ_TEST_KUBERNETES, `FILE` or `FILE#CONTEXT`. Its nodes have the test images
(tests/kubernetes/bed/images.py), and its namespace belongs to the tests.
"""

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.catalog import Network
from batchq.errors import RuntimeUnknown
from batchq.settings import Privileged
from batchq.store.checkpoint_files import CheckpointFiles
from batchq.system.clock import SystemClock
from tests.kubernetes.service import CLUSTER, remove
from tests.support.clock import ShiftedClock
from tests.support.containers import POLL_INTERVAL, until
from tests.support.inline import InlineLogFiles, InlineStore
from tests.support.kubernetes import PlacedRuntime, kubernetes_runtime
from tests.support.kubernetes_api import TWO_CORES, node
from tests.support.world import HOST, World, running

REMOVAL = 300.0  # seconds for the removal of all pods, also by a kubelet that was killed
HOST_NODE = {"cpu": "4", "memory": "4Gi", "pods": "110"}  # as HOST
NOWHERE = "127.0.0.1:1/none:latest"  # an image whose registry does not exist
CPU_DIVISOR = 20  # of the requests of scenarios, several of which share a node
MODEL, CLUSTER_WORLD = "kubernetes", "cluster"
#: The parameters of worlds on Kubernetes.
KUBERNETES_WORLDS = (
    pytest.param(MODEL, marks=pytest.mark.exhaustive),
    pytest.param(CLUSTER_WORLD, marks=[pytest.mark.kubernetes, pytest.mark.timeout(300)]),
)


class HostRuntime(PlacedRuntime):
    """Shows one node as the machine HOST. Pods request a part of the CPU, so that several scenarios share a node."""

    async def machines(self):
        return tuple(
            replace(machine, resources=HOST) for machine in await super().machines() if machine.name == self.machine
        )

    async def create(self, launch):
        beside = tuple(replace(container, spec=_smaller(container.spec)) for container in launch.beside)
        return await super().create(replace(launch, spec=_smaller(launch.spec), beside=beside))


def _smaller(spec):
    return replace(spec, resources=replace(spec.resources, millicpus=spec.resources.millicpus // CPU_DIVISOR))


def cluster_reference():
    """The context of the cluster; the test is skipped without one."""
    reference = os.environ.get(CLUSTER)
    if reference is None:
        pytest.skip(f"{CLUSTER} names no cluster (make test-kubernetes)")
    return reference


@asynccontextmanager
async def on_cluster(kind=PlacedRuntime, **changes):
    """A runtime on the cluster of BATCHQ_TEST_KUBERNETES. At the end its pods are removed."""
    reference = cluster_reference()
    usual = {
        "instance": f"t{uuid4().hex[:10]}",
        "cluster": load_cluster(reference),
        "clock": SystemClock(),
        "policy": PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE),
        "allow_old": True,
    }
    runtime = kind(**usual | changes)

    async def has_machine():
        try:
            open_machines = [machine.name for machine in await PlacedRuntime.machines(runtime) if machine.is_open]
        except RuntimeUnknown:
            return False
        runtime.machine = open_machines[worker_number() % len(open_machines)] if open_machines else None
        return bool(open_machines)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(runtime.close)
        await until(has_machine)
        try:
            yield runtime
        finally:
            async with asyncio.timeout(REMOVAL):
                while await remove_all(runtime):  # noqa: ASYNC110 - a cluster sets no event
                    await asyncio.sleep(POLL_INTERVAL)


def worker_number():
    """The number of this worker of pytest-xdist; 0 without workers."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.fixture
async def admin():
    """Requests to the API server with the credentials of the tests."""
    rest = RestClient(load_cluster(cluster_reference()), SystemClock())
    yield rest
    await rest.close()


async def remove_all(runtime):
    """Request the removal of all pods. Returns whether some may be left."""
    try:
        found = await runtime.survey()
    except RuntimeUnknown:
        return True
    await remove(runtime, found)
    return found != ()


@asynccontextmanager
async def world_on(runtime, clock, checkpoints):
    """`checkpoints`: the directory that the server and the nodes share."""
    world = World(
        store=InlineStore(),
        runtime=runtime,
        archive=InlineLogFiles(),
        clock=clock,
        survey_interval=1.0,
        checkpoints=CheckpointFiles(checkpoints),
    )
    async with running(world):
        yield world


@asynccontextmanager
async def kubernetes_world(kind, directory, *, runtime_kind=PlacedRuntime, nodes=("n1",), allocatable=HOST_NODE):
    """A booted world on the model of the API server, or on the cluster.

    `runtime_kind`: of the runtime on the cluster. `nodes`, `allocatable`: of the model.
    """
    clock, shared = ShiftedClock(), directory / "checkpoints"
    policy = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, checkpoints=str(shared))
    if kind == CLUSTER_WORLD:
        async with (
            on_cluster(runtime_kind, clock=clock, policy=policy) as runtime,
            world_on(runtime, clock, shared) as world,
        ):
            yield world
    else:
        async with kubernetes_runtime(clock=clock, policy=policy) as (runtime, model):
            runtime.model = model
            model.missing_images[NOWHERE] = "connection refused"
            model.nodes = {name: node(name, allocatable, labels={"kubernetes.io/hostname": name}) for name in nodes}
            async with world_on(runtime, clock, shared) as world:
                yield world


@pytest.fixture(params=["model", pytest.param(CLUSTER_WORLD, marks=pytest.mark.kubernetes)])
async def world(request, tmp_path):
    async with kubernetes_world(request.param, tmp_path, nodes=("n1", "n2"), allocatable=TWO_CORES) as world:
        yield world
