"""The pods of environments that refuse drains are not evicted, and their budget exists as long as they do."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.errors import RuntimeUnknown
from batchq.settings import Privileged
from tests.compute.kubernetes.conftest import name_of
from tests.support.containers import launch, launched
from tests.support.kubernetes import kubernetes_runtime, runtime_at, served
from tests.support.kubernetes_api import ModelCluster
from tests.support.scripts import Script

LASTING = Script(seconds=None, on_term=7)
REFUSING = PodPolicy(privileged=Privileged.ALLOW, refuses_drains=("gpu",))


def on(environment):
    """A launch in a compute environment."""
    return replace(launch(LASTING), placed_on=environment)


def refusing(minor=36):
    return kubernetes_runtime(ModelCluster(minor=minor), policy=REFUSING, allow_old=True)


async def eviction_status(runtime, tag):
    """The status of the reply to an eviction, as a drain requests it."""
    name = name_of(tag)
    body = {"metadata": {"name": name}}
    try:
        return (await runtime._rest.request("POST", f"{runtime._pods.path}/{name}/eviction", body=body)).status
    except RuntimeUnknown:
        return 429


@pytest.mark.parametrize("minor", [36, 20])
async def test_only_the_pods_of_environments_that_refuse_drains_are_not_evicted(minor):
    async with refusing(minor) as (runtime, cluster):
        kept = await launched(runtime, on("gpu"))
        other = await launched(runtime, on("cpu"))

        assert await eviction_status(runtime, kept) == 429
        assert await eviction_status(runtime, other) == 201
        (budget,) = cluster.budgets.values()
        assert budget["apiVersion"] == ("policy/v1" if minor == 36 else "policy/v1beta1")


async def test_the_budget_is_removed_with_the_last_pod_and_created_again():
    async with refusing() as (runtime, cluster):
        for _ in range(2):
            tag = await launched(runtime, on("gpu"))
            await runtime.survey()
            assert len(cluster.budgets) == 1

            await runtime.remove(tag)
            async with asyncio.timeout(10):
                while cluster.budgets:
                    await runtime.survey()


async def test_a_pod_that_is_created_within_a_survey_keeps_its_budget():
    async with refusing() as (runtime, cluster):
        await runtime.create(on("gpu"))
        await runtime._budgets.begin_survey(is_old=False)
        await runtime.create(on("gpu"))

        await runtime._budgets.end_survey(is_old=False)

        assert len(cluster.budgets) == 1


async def test_the_next_server_without_the_setting_removes_the_budget():
    cluster = ModelCluster()
    async with served(cluster) as url:
        first, second = runtime_at(url, policy=REFUSING), runtime_at(url)
        tag = await launched(first, on("gpu"))

        await second.survey()

        assert cluster.budgets == {}
        assert await eviction_status(second, tag) == 201
        await first.close()
        await second.close()


async def test_a_survey_without_the_right_to_list_budgets_is_logged_once(caplog):
    async with refusing() as (runtime, cluster):
        cluster.fault = lambda _method, path: (403, "forbidden") if "poddisruptionbudgets" in path else None

        assert [await runtime.survey() for _ in range(2)] == [(), ()]

        assert caplog.text.count("the PodDisruptionBudgets are not compared with the pods") == 1


async def test_without_the_setting_the_right_to_list_budgets_is_not_needed():
    async with kubernetes_runtime() as (runtime, cluster):
        cluster.fault = lambda _method, path: (403, "forbidden") if "poddisruptionbudgets" in path else None

        assert await runtime.survey() == ()


async def test_a_job_waits_for_the_right_to_create_its_budget():
    async with refusing() as (runtime, cluster):
        cluster.fault = lambda _method, path: (403, "forbidden") if "poddisruptionbudgets" in path else None

        with pytest.raises(RuntimeUnknown, match="create a PodDisruptionBudget: forbidden"):
            await runtime.create(on("gpu"))
