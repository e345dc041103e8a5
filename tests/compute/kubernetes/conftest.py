"""A runtime on a model of the API server, whose statuses the test writes or whose kubelets run scripts."""

import asyncio

import pytest

from batchq.compute.kubernetes import pod_start
from tests.support.kubernetes import INSTANCE, kubernetes_runtime
from tests.support.kubernetes_api import ModelCluster


@pytest.fixture
async def model():
    """A runtime and a cluster whose kubelets run scripts."""
    async with kubernetes_runtime() as (runtime, cluster):
        yield runtime, cluster


@pytest.fixture
async def manual(monkeypatch):
    """A runtime and a cluster without kubelets. A start waits only briefly for its container."""
    monkeypatch.setattr(pod_start, "START_WAIT", 0.3)
    async with kubernetes_runtime(ModelCluster(kubelet=False)) as (runtime, cluster):
        yield runtime, cluster


def name_of(tag):
    return f"bq-{INSTANCE}-{tag.job_id}-{tag.attempt}"


async def bound(cluster, name):
    """Wait until the pod is bound to a node."""
    async with asyncio.timeout(10):
        while "nodeName" not in cluster.pods.get(name, {"spec": {}})["spec"]:  # noqa: ASYNC110 - the model sets no event
            await asyncio.sleep(0.005)
