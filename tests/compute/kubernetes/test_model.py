"""The model of the API server and a real one answer as Kubernetes 1.36.2 did, by status and reason.

The real one is that of BATCHQ_TEST_KUBERNETES (`make test-kubernetes`). No kubelet takes part: the nodes do not exist.
"""

import json
from pathlib import Path

import aiohttp
import pytest

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.pod_spec import build_pod
from tests.kubernetes.conftest import cluster_reference
from tests.support.containers import launch, until
from tests.support.kubernetes import INSTANCE, served
from tests.support.kubernetes_api import ModelCluster

RECORDED = Path(__file__).parent / "recorded" / "1.36.2"
PODS = "/api/v1/namespaces/jobs/pods"
WRONG = "00000000-0000-0000-0000-000000000000"
MERGE = {"Content-Type": "application/merge-patch+json"}
UID_CHECKED = 27  # the minor version from which a binding's uid is checked


@pytest.fixture(params=["model", pytest.param("server", marks=pytest.mark.kubernetes)])
async def api(request):
    if request.param == "model":
        async with served(ModelCluster(kubelet=False)) as url, aiohttp.ClientSession(url) as http:
            yield http
    else:
        cluster = load_cluster(cluster_reference())
        headers = {"Authorization": f"Bearer {cluster.token.value}"}
        connector = aiohttp.TCPConnector(ssl=cluster.tls)
        async with aiohttp.ClientSession(cluster.server, headers=headers, connector=connector) as http:
            await create_namespace(http)
            yield http
            await remove_pods(http)


async def create_namespace(http):
    """The namespace of the pods, with its service account, which a controller creates."""
    metadata = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs"}}
    async with http.post("/api/v1/namespaces", json=metadata) as reply:
        assert reply.status in (201, 409)

    async def has_account():
        async with http.get("/api/v1/namespaces/jobs/serviceaccounts/default") as reply:
            return reply.status == 200

    await until(has_account)


async def remove_pods(http):
    async with http.get(PODS) as reply:
        pods = (await reply.json())["items"]
    for pod in pods:
        path = f"{PODS}/{pod['metadata']['name']}"
        await (await http.patch(path, json={"metadata": {"finalizers": []}}, headers=MERGE)).read()
        await (await http.delete(path, json={"gracePeriodSeconds": 0})).read()


async def created(http):
    body = build_pod(launch(), instance=INSTANCE, policy=PodPolicy(), namespace="jobs")
    async with http.post(PODS, json=body) as reply:
        return await reply.json()


def binding(pod, uid=None):
    metadata = {"name": pod["metadata"]["name"], "uid": uid or pod["metadata"]["uid"]}
    return {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}}


async def again(http, pod):
    path = f"{PODS}/{pod['metadata']['name']}/binding"
    async with http.post(path, json=binding(pod)) as first:
        assert first.status == json.loads((RECORDED / "reply-binding.json").read_text())["status"]
    return http.post(path, json=binding(pod))


async def wrong_uid(http, pod):
    return http.post(f"{PODS}/{pod['metadata']['name']}/binding", json=binding(pod, WRONG))


async def deleted(http, pod):
    await (await http.delete(f"{PODS}/{pod['metadata']['name']}", json={})).read()
    return http.post(f"{PODS}/{pod['metadata']['name']}/binding", json=binding(pod))


async def absent(http, pod):
    other = {"metadata": pod["metadata"] | {"name": "absent"}}
    return http.post(f"{PODS}/absent/binding", json=binding(other))


async def taken(http, pod):
    return http.post(PODS, json=pod | {"metadata": {"name": pod["metadata"]["name"]}})


async def delete_wrong_uid(http, pod):
    return http.delete(f"{PODS}/{pod['metadata']['name']}", json={"preconditions": {"uid": WRONG}})


async def patch_wrong_uid(http, pod):
    return http.patch(f"{PODS}/{pod['metadata']['name']}", json={"metadata": {"uid": WRONG}}, headers=MERGE)


@pytest.mark.parametrize(
    ("request_of", "name"),
    [
        (again, "binding-again"),
        (wrong_uid, "binding-wrong-uid"),
        (deleted, "binding-deleted"),
        (absent, "binding-absent"),
        (taken, "create-taken"),
        (delete_wrong_uid, "delete-wrong-uid"),
        (patch_wrong_uid, "patch-wrong-uid"),
    ],
)
async def test_the_model_and_a_server_answer_as_recorded(api, request_of, name):
    recorded = json.loads((RECORDED / f"reply-{name}.json").read_text())
    async with api.get("/version") as reply:
        minor = int((await reply.json())["minor"].rstrip("+"))
    if request_of is wrong_uid and minor < UID_CHECKED:
        pytest.skip("Kubernetes checks the uid of a binding since 1.27")

    async with await request_of(api, await created(api)) as reply:
        answer = await reply.json()

    assert (reply.status, answer["reason"]) == (recorded["status"], recorded["body"]["reason"])


async def test_a_deleted_pod_stays_until_its_finalizer_is_released(api):
    pod = await created(api)
    path = f"{PODS}/{pod['metadata']['name']}"
    async with api.delete(path, json={}) as reply:
        metadata = (await reply.json())["metadata"]

    unbound = json.loads((RECORDED / "deleted-unbound.json").read_text())["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == unbound["deletionGracePeriodSeconds"] == 0
    async with api.patch(path, json={"metadata": {"finalizers": []}}, headers=MERGE) as reply:
        assert reply.status == 200
    async with api.get(path) as reply:
        assert reply.status == 404
