"""The manifests of deploy/kubernetes: a cluster accepts them, and the settings in them are those of `batchq serve`."""

from pathlib import Path

import pytest
import yaml

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.rest import RestClient
from batchq.settings import Auth, Settings
from batchq.system.clock import SystemClock
from tests.kubernetes.conftest import cluster_reference

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
GROUPS = {
    "v1": "/api/v1",
    "apps/v1": "/apis/apps/v1",
    "rbac.authorization.k8s.io/v1": "/apis/rbac.authorization.k8s.io/v1",
}


def documents():
    return [it for file in sorted(MANIFESTS.glob("*.yaml")) for it in yaml.safe_load_all(file.read_text())]


@pytest.mark.kubernetes
async def test_a_cluster_accepts_the_manifests():
    """A dry run on the server: nothing is created. The namespace of the test takes the place of theirs."""
    cluster = load_cluster(cluster_reference())
    rest = RestClient(cluster, SystemClock())
    try:
        for document in documents():
            kind, place = f"{document['kind'].lower()}s", ""
            if "namespace" in document["metadata"]:
                document["metadata"]["namespace"] = cluster.namespace
                place = f"/namespaces/{cluster.namespace}"
            query = {"dryRun": "All", "fieldValidation": "Strict"}
            reply = await rest.request(
                "POST", f"{GROUPS[document['apiVersion']]}{place}/{kind}", body=document, query=query
            )
            assert reply.ok, f"{document['kind']} {document['metadata']['name']}: {reply.message}"
    finally:
        await rest.close()


def test_the_server_of_the_manifest_starts_with_its_variables(monkeypatch):
    (deployment,) = [it for it in documents() if it["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])

    settings = Settings()

    assert (settings.kubernetes, settings.auth, settings.data) == (
        "in-cluster",
        Auth.SIGV4,
        Path("/var/lib/batchq/data"),
    )
    assert container["command"] == ["batchq", "serve"]
    assert container["ports"][0]["containerPort"] == settings.port
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
