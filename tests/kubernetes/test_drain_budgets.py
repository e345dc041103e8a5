"""A drain of a real cluster waits for the pods of an environment that refuses drains."""

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.domain.catalog import Network
from batchq.errors import RuntimeUnknown
from batchq.settings import Privileged
from tests.kubernetes.conftest import on_cluster
from tests.support.containers import launch, launched, until
from tests.support.scripts import LASTING

POLICY = PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE, refuses_drains=("gpu",))


@pytest.mark.kubernetes
async def test_an_eviction_is_refused_while_the_pod_exists(admin):
    async with on_cluster(policy=POLICY) as runtime:
        tag = await launched(runtime, replace(launch(LASTING), placed_on="gpu"))
        name, version = runtime._pods.name_of(tag), "v1beta1" if runtime._is_old else "v1"
        eviction = {"apiVersion": f"policy/{version}", "kind": "Eviction", "metadata": {"name": name}}

        with pytest.raises(RuntimeUnknown, match="disruption budget"):
            await admin.request("POST", f"{admin.namespaced}/pods/{name}/eviction", body=eviction)

        await runtime.remove(tag)
        budgets = admin.namespaced.replace("/api/v1", f"/apis/policy/{version}") + "/poddisruptionbudgets"

        async def is_removed():
            await runtime.survey()
            return (await admin.get(budgets)).body["items"] == []

        await until(is_removed)
