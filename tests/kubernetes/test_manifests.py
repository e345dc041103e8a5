"""The manifests of deploy/kubernetes: a cluster accepts them, and the settings in them are those of `batchq serve`."""

import asyncio
from argparse import Namespace
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from batchq.cli.server_settings import settings_of
from batchq.compute.kubernetes.connection import FixedToken, load_cluster
from batchq.compute.kubernetes.examination import examine_access
from batchq.compute.kubernetes.rest import MERGE_PATCH
from batchq.domain.container import TextFile
from batchq.errors import RuntimeUnknown
from batchq.settings import Auth
from batchq.system.clock import SystemClock
from tests.kubernetes.conftest import cluster_reference, on_cluster
from tests.support.containers import launch, new_tag, over, part_of, until, until_answered, wait_for_line
from tests.support.scripts import Script

NAMESPACE = "batchq-jobs"
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
GROUPS = {
    "v1": "/api/v1",
    "apps/v1": "/apis/apps/v1",
    "rbac.authorization.k8s.io/v1": "/apis/rbac.authorization.k8s.io/v1",
}


def documents(pattern="*.yaml"):
    return [manifest for file in sorted(MANIFESTS.glob(pattern)) for manifest in yaml.safe_load_all(file.read_text())]


def path_of(document, namespace=None):
    """The path at which an object is created."""
    namespace = namespace or document["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if "namespace" in document["metadata"] else ""
    return f"{GROUPS[document['apiVersion']]}{place}/{document['kind'].lower()}s"


@pytest.mark.kubernetes
async def test_a_cluster_accepts_the_manifests(admin):
    """A dry run on the server: nothing is created. The namespace of the test takes the place of theirs."""
    namespace = load_cluster(cluster_reference()).namespace
    for document in documents():
        path = path_of(document, namespace)
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = namespace
        reply = await admin.request("POST", path, body=document, query={"dryRun": "All", "fieldValidation": "Strict"})
        assert reply.ok, f"{document['kind']} {document['metadata']['name']}: {reply.message}"


@asynccontextmanager
async def applied(admin, manifests):
    """The documents exist for the test only, and their namespace too."""
    for document in manifests:
        reply = await admin.request("POST", path_of(document), body=document)
        assert reply.ok, reply.message
    try:
        yield
    finally:
        for document in reversed(manifests):
            await admin.request("DELETE", f"{path_of(document)}/{document['metadata']['name']}")

        async def is_removed():
            return not (await admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}")).ok

        await until(is_removed)


@pytest.fixture
async def access(admin):
    """The service account of the manifest."""
    async with applied(admin, documents("rights.yaml")):
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        reply = await admin.request("POST", f"{accounts}/batchq/token", body=request)
        assert reply.ok, reply.message

        async def has_default_account():
            return (await admin.request("GET", f"{accounts}/default")).ok

        await until(has_default_account)
        token = FixedToken(value=reply.body["status"]["token"])
        yield replace(load_cluster(cluster_reference()), namespace=NAMESPACE, token=token)


@pytest.mark.kubernetes
async def test_the_rights_of_the_manifest_suffice_for_tasks_secrets_signals_and_services(access):
    found = await examine_access(access, SystemClock())
    assert (found.denied, found.namespace_error) == ((), "")
    assert abs(found.clock_offset) < 5
    assert found.nodes > len(found.unusable_nodes)
    async with on_cluster(cluster=access) as runtime:
        files = (TextFile(path="/etc/x", content="text"),)
        ready = Script(seconds=None, on_term=7, output=("ready",))
        container = replace(part_of(new_tag(), "0/one", ready, beside=("two",), files=files), nodes=2)

        await until_started(runtime, container)
        await wait_for_line(runtime, container.tag, "ready")
        await runtime.signal_stop(container.tag)

        assert (await over(runtime, container.tag)).exit_code == 7
        assert (await runtime.identity()).id == found.id


@pytest.mark.kubernetes
async def test_pods_have_the_pull_secrets_of_the_default_service_account(access, admin):
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    secrets = [{"name": "registry"}]
    await admin.request("PATCH", account, body={"imagePullSecrets": secrets}, content_type=MERGE_PATCH)
    async with on_cluster(cluster=access) as runtime:
        await until_answered(lambda: runtime.create(launch()))
        pods = (await admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")).body["items"]

    assert [pod["spec"]["imagePullSecrets"] for pod in pods] == [secrets]


async def until_started(runtime, container):
    async with asyncio.timeout(60):
        while True:
            try:
                await runtime.create(container)
                return await runtime.start(container.tag)
            except RuntimeUnknown:
                await asyncio.sleep(0.1)


def test_the_server_of_the_manifest_starts_with_its_variables(monkeypatch):
    (deployment,) = [document for document in documents() if document["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])

    settings = settings_of(Namespace())

    assert (settings.kubernetes, settings.auth, settings.data) == (
        "in-cluster",
        Auth.SIGV4,
        Path("/var/lib/batchq/data"),
    )
    assert container["command"] == ["batchq", "serve"]
    assert container["ports"][0]["containerPort"] == settings.port
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
