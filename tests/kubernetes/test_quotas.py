"""A quota of the jobs' namespace on a real cluster: pods wait for room in it."""

from uuid import uuid4

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.connection import load_cluster
from batchq.domain.container import Resources
from batchq.errors import RuntimeUnknown, StartHadNoEffect, StartRefused
from tests.kubernetes.conftest import cluster_reference, on_cluster
from tests.support.containers import launch, launched, until
from tests.support.scripts import LASTING

SMALL, LARGE = Resources(millicpus=20, memory_mib=40), Resources(millicpus=20, memory_mib=100)


@pytest.fixture
async def limited(admin):
    """The access to a namespace of its own in which one small pod has room."""
    name = f"quota-{uuid4().hex[:8]}"
    path = f"/api/v1/namespaces/{name}"
    await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.memory": "64Mi"}}}
    await admin.request("POST", f"{path}/resourcequotas", body=quota)

    async def is_ready():
        found = (await admin.get(f"{path}/resourcequotas/team")).body
        return (await admin.get(f"{path}/serviceaccounts/default")).ok and "hard" in found.get("status", {})

    await until(is_ready)
    yield replace(load_cluster(cluster_reference()), namespace=name)
    await admin.request("DELETE", path)


@pytest.mark.kubernetes
async def test_a_pod_waits_until_another_one_leaves_it_room(limited):
    async with on_cluster(cluster=limited) as runtime:
        first, second = await launched(runtime, launch(LASTING, resources=SMALL)), launch(LASTING, resources=SMALL)
        with pytest.raises(StartHadNoEffect, match="exceeded quota: team"):
            await runtime.create(second)
        with pytest.raises(StartRefused, match="exceeded quota: team"):
            await runtime.create(launch(LASTING, resources=LARGE))
        await runtime.remove(first)

        async def has_started():
            try:
                return await launched(runtime, second)
            except RuntimeUnknown:
                return False

        await until(has_started)
