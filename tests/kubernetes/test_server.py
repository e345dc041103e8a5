"""`batchq serve --kubernetes` as a whole, on the model of the API server."""

import asyncio

import aiohttp
import pytest

from batchq.compute.kubernetes.pod_policy import NO_CHECKPOINTS
from batchq.errors import StartImpossible, UsageError
from batchq.server.bootstrap import serving
from batchq.server.engines import engines_of
from batchq.server.runtimes import check_engine
from batchq.settings import Runtime, Settings
from tests.support.kubernetes import kubeconfig, served
from tests.support.kubernetes_api import ModelCluster


async def post(http, url, path, body):
    async with http.post(f"{url}{path}", json=body) as reply:
        assert reply.status == 200, await reply.text()
        return await reply.json()


async def test_a_job_is_submitted_runs_as_a_pod_and_is_found_again_by_the_next_server(tmp_path):
    cluster = ModelCluster()
    script = {"name": "BATCHQ_SIMULATED", "value": '{"seconds": null, "on_term": 3, "output": ["ready"]}'}
    container = {"image": "busybox", "vcpus": 1, "memory": 64, "environment": [script]}
    definition = {"jobDefinitionName": "d", "type": "container", "containerProperties": container}
    async with served(cluster) as api, aiohttp.ClientSession() as http:
        settings = Settings(data=tmp_path / "data", port=0, kubernetes=kubeconfig(tmp_path, api))
        async with serving(settings) as server:
            url = server.urls[0]
            await post(http, url, "/v1/registerjobdefinition", definition)
            submitted = {"jobName": "j", "jobQueue": "default", "jobDefinition": "d"}
            job = (await post(http, url, "/v1/submitjob", submitted))["jobId"]
            await _status(http, url, job, "RUNNING")
            async with http.get(f"{url}/healthz") as reply:
                assert (await reply.json())["runtime"] == "kubernetes"
        async with serving(settings) as server:
            url = server.urls[0]
            await post(http, url, "/v1/terminatejob", {"jobId": job, "reason": "enough"})
            ended = await _status(http, url, job, "FAILED")

    assert (ended["statusReason"], ended["attempts"][0]["container"]["exitCode"]) == ("enough", 3)
    assert list(cluster.starts.values()) == [1]


async def test_a_job_that_kubernetes_can_never_run_is_refused_at_its_submission(tmp_path):
    ulimits = [{"name": "nofile", "softLimit": 1, "hardLimit": 2}]
    container = {"image": "busybox", "vcpus": 1, "memory": 64, "ulimits": ulimits}
    plain = {"jobDefinitionName": "plain", "type": "container", "containerProperties": container | {"ulimits": []}}
    definition = {"jobDefinitionName": "d", "type": "container", "containerProperties": container}
    submitted = {"jobName": "j", "jobQueue": "default", "jobDefinition": "d"}
    with_checkpoints = submitted | {"jobDefinition": "plain", "tags": {"batchq:checkpoints": "true"}}
    async with served(ModelCluster()) as api, aiohttp.ClientSession() as http:
        settings = Settings(data=tmp_path / "data", port=0, kubernetes=kubeconfig(tmp_path, api))
        async with serving(settings) as server:
            url = server.urls[0]
            for members in (definition, plain):
                await post(http, url, "/v1/registerjobdefinition", members)
            refusals = [await _refusal(http, url, members) for members in (submitted, with_checkpoints)]
            listed = await post(http, url, "/v1/listjobs", {"jobQueue": "default"})

    for refusal, what in zip(refusals, ("ulimits", NO_CHECKPOINTS), strict=True):
        assert f": {what} is not available on Kubernetes," in refusal
    assert listed["jobSummaryList"] == []


async def _refusal(http, url, submitted):
    async with http.post(f"{url}/v1/submitjob", json=submitted) as reply:
        assert reply.status == 400
        return (await reply.json())["message"]


async def _status(http, url, job, status):
    async with asyncio.timeout(30):
        while True:
            (found,) = (await post(http, url, "/v1/describejobs", {"jobs": [job]}))["jobs"]
            if found["status"] == status:
                return found
            await asyncio.sleep(0.05)


async def test_a_server_of_an_unsupported_version_is_refused_at_the_start(tmp_path):
    async with served(ModelCluster(minor=29)) as api:
        settings = Settings(data=tmp_path / "data", port=0, kubernetes=kubeconfig(tmp_path, api))

        with pytest.raises(StartImpossible, match=r"Kubernetes 1.29 is not supported: 1.30 or newer is needed"):
            async with serving(settings):
                pass


async def test_batchq_serves_while_the_cluster_does_not_answer(tmp_path):
    settings = Settings(data=tmp_path / "data", port=0, kubernetes=kubeconfig(tmp_path, "http://127.0.0.1:9"))

    async with serving(settings) as server, aiohttp.request("GET", f"{server.urls[0]}/healthz") as reply:
        health = await reply.json()

    assert health["status"] == "degraded"
    assert health["engine"] != "ok"


def test_a_kubeconfig_that_cannot_be_used_is_refused_before_a_data_directory_is_created(tmp_path):
    with pytest.raises(StartImpossible):
        check_engine(Settings(data=tmp_path / "data", kubernetes=str(tmp_path / "absent")))

    assert not (tmp_path / "data").exists()


def test_a_cluster_selects_the_runtime():
    assert Settings(kubernetes="file").runtime is Runtime.KUBERNETES
    assert Settings().runtime is Runtime.DOCKER
    with pytest.raises(ValueError, match="belong together"):
        Settings(kubernetes="file", runtime=Runtime.SIMULATED)
    with pytest.raises(ValueError, match="belong together"):
        Settings(runtime=Runtime.KUBERNETES)
    assert issubclass(StartImpossible, UsageError)


def test_docker_is_the_first_engine_beside_a_cluster():
    assert engines_of(Settings(kubernetes="file", docker=True)) == (Runtime.DOCKER, Runtime.KUBERNETES)
    assert engines_of(Settings(kubernetes="file")) == (Runtime.KUBERNETES,)
    assert engines_of(Settings()) == engines_of(Settings(docker=True)) == (Runtime.DOCKER,)
    with pytest.raises(StartImpossible, match="exclude each other"):
        check_engine(Settings(runtime=Runtime.SIMULATED, docker=True))


async def test_jobs_run_on_a_cluster_while_docker_does_not_answer(tmp_path, monkeypatch):
    """A queue on the cluster refuses what Kubernetes lacks, a queue on both engines does not."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    cluster = ModelCluster()
    script = {"name": "BATCHQ_SIMULATED", "value": '{"seconds": 0}'}
    container = {"image": "busybox", "vcpus": 1, "memory": 64, "environment": [script]}
    ulimits = container | {"ulimits": [{"name": "nofile", "softLimit": 1, "hardLimit": 2}]}
    async with served(cluster) as api, aiohttp.ClientSession() as http:
        settings = Settings(data=tmp_path / "data", port=0, kubernetes=kubeconfig(tmp_path, api), docker=True)
        async with serving(settings) as server:
            url = server.urls[0]
            tags = {"batchq:engine": "kubernetes"}
            environment = {"computeEnvironmentName": "far", "type": "UNMANAGED", "tags": tags}
            await post(http, url, "/v1/createcomputeenvironment", environment)
            for queue, names in (("far", ["far"]), ("both", ["far", "local"])):
                order = [{"order": index, "computeEnvironment": name} for index, name in enumerate(names)]
                body = {"jobQueueName": queue, "priority": 1, "computeEnvironmentOrder": order}
                await post(http, url, "/v1/createjobqueue", body)
            for name, properties in (("plain", container), ("limits", ulimits)):
                definition = {"jobDefinitionName": name, "type": "container", "containerProperties": properties}
                await post(http, url, "/v1/registerjobdefinition", definition)
            submitted = {"jobName": "j", "jobQueue": "far", "jobDefinition": "plain"}
            job = (await post(http, url, "/v1/submitjob", submitted))["jobId"]
            near = (await post(http, url, "/v1/submitjob", submitted | {"jobQueue": "default"}))["jobId"]
            refusal = await _refusal(http, url, submitted | {"jobDefinition": "limits"})
            await post(http, url, "/v1/submitjob", submitted | {"jobDefinition": "limits", "jobQueue": "both"})
            await _status(http, url, job, "SUCCEEDED")
            await _status(http, url, near, "RUNNABLE")

    assert ": ulimits is not available on Kubernetes," in refusal
