"""The Kubernetes runtime on a model of the API server."""

from contextlib import asynccontextmanager

import yaml
from aiohttp import web
from msgspec.structs import replace

from batchq.compute.kubernetes.connection import ClusterAccess, FixedToken
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.runtime import KubernetesRuntime
from batchq.settings import Privileged
from batchq.system.clock import SystemClock
from tests.support.kubernetes_api import ModelCluster

INSTANCE = "i1"


class PlacedRuntime(KubernetesRuntime):
    """Places each container without a machine on `machine`, as the scheduler does in a server."""

    machine = "n1"

    async def create(self, launch):
        return await super().create(launch if launch.machine else replace(launch, machine=self.machine))


@asynccontextmanager
async def served(cluster):
    """The URL of the model, which is served on loopback."""
    runner = web.AppRunner(cluster.app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await cluster.close()
        await runner.cleanup()


def kubeconfig(tmp_path, url):
    """A kubeconfig of the server at the URL, in a file."""
    file = tmp_path / "config"
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "namespace": "jobs"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


def runtime_at(url, **changes):
    """A runtime on the server at the URL."""
    usual = {
        "instance": INSTANCE,
        "cluster": ClusterAccess(server=url, namespace="jobs", token=FixedToken(value="secret")),
        "clock": SystemClock(),
        "policy": PodPolicy(privileged=Privileged.ALLOW),
    }
    return PlacedRuntime(**usual | changes)


@asynccontextmanager
async def kubernetes_runtime(cluster=None, **changes):
    """A runtime, and the model cluster that it uses."""
    cluster = cluster or ModelCluster()
    async with served(cluster) as url:
        runtime = runtime_at(url, **changes)
        try:
            yield runtime, cluster
        finally:
            await runtime.close()
