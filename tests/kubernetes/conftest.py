"""Worlds on Kubernetes: on the model of the API server, and on a cluster (`make test-kubernetes`).

The cluster is the context of BATCHQ_TEST_KUBERNETES, `FILE` or `FILE#CONTEXT`. Its nodes have the test images
(tests/kubernetes/bed/images.py), and its namespace belongs to the tests.
"""

import asyncio
import os
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

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
from tests.support.world import World, running

REMOVAL = 300.0  # seconds for the removal of all pods, also by a kubelet that was killed
WORLDS = ("model", pytest.param("cluster", marks=pytest.mark.kubernetes))


def cluster_reference():
    """The context of the cluster; the test is skipped without one."""
    reference = os.environ.get(CLUSTER)
    if reference is None:
        pytest.skip(f"{CLUSTER} names no cluster (make test-kubernetes)")
    return reference


@asynccontextmanager
async def on_cluster(**changes):
    """A runtime on the cluster of BATCHQ_TEST_KUBERNETES. At the end its pods are removed."""
    reference = cluster_reference()
    usual = {
        "instance": f"t{uuid4().hex[:10]}",
        "cluster": load_cluster(reference),
        "clock": SystemClock(),
        "policy": PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE),
        "allow_old": True,
    }
    runtime = PlacedRuntime(**usual | changes)

    async def has_machine():
        try:
            open_machines = [machine.name for machine in await runtime.machines() if machine.is_open]
        except RuntimeUnknown:
            return False
        runtime.machine = open_machines[0] if open_machines else None
        return bool(open_machines)

    await until(has_machine)
    try:
        yield runtime
    finally:
        async with asyncio.timeout(REMOVAL):
            while await remove_all(runtime):  # noqa: ASYNC110 - a cluster sets no event
                await asyncio.sleep(POLL_INTERVAL)
        await runtime.close()


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


@pytest.fixture(params=WORLDS)
async def world(request, tmp_path):
    clock, shared = ShiftedClock(), tmp_path / "checkpoints"
    policy = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, checkpoints=str(shared))
    if request.param == "cluster":
        async with on_cluster(clock=clock, policy=policy) as runtime, world_on(runtime, clock, shared) as world:
            yield world
    else:
        async with kubernetes_runtime(clock=clock, policy=policy) as (runtime, model):
            runtime.model = model
            model.nodes = {
                name: node(name, TWO_CORES, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2")
            }
            async with world_on(runtime, clock, shared) as world:
                yield world
