"""batchq itself in the cluster: the manifests of deploy/kubernetes on the bed, with the image of packaging/Dockerfile.

The bed has no kube-scheduler, no image registry and no storage class. The test binds the pod of the Deployment, loads
the image, and creates a volume that both nodes have.
"""

import asyncio
import json
import re
import shutil
import socket
import time

import boto3
import pytest

from tests.house.test_wheel import built
from tests.image.build import NAME, build_image
from tests.kubernetes.bed.__main__ import STATE, load_image
from tests.kubernetes.test_manifests import NAMESPACE, applied, documents
from tests.service.waiting import container, reaches
from tests.support.containers import until

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
VOLUME = STATE / "batchq-data"
USER = 1000  # of the manifest
PORT = 22824
PATIENCE = 180.0  # seconds until a pod of batchq is ready
STATUS = 3  # the channel of a command's exit code; the others are its output
pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.process, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def image(docker_engine, tmp_path_factory):
    """The image of batchq, on the nodes."""
    if not STATE.exists():
        pytest.skip("the cluster is not the bed of these tests")
    folder = tmp_path_factory.mktemp("image")
    (context := folder / "context").mkdir()
    build_image(built(folder), context)
    load_image(NAME)
    return NAME


def prepared(image):
    """The documents of the manifests, and the volume, as an administrator of the bed applies them."""
    VOLUME.mkdir(exist_ok=True)
    shutil.chown(VOLUME, USER, USER)
    claim, deployment, service = documents("batchq.yaml")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    server["image"] = image
    server["env"].append({"name": "BATCHQ_KUBERNETES_UNSUPPORTED", "value": "true"})  # the bed can be of 1.20
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "batchq-data"},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "hostPath": {"path": str(VOLUME)},
        },
    }
    return [*documents("rights.yaml"), volume, claim, deployment, service]


async def server_pod(admin, node, *, other_than=""):
    """The ready pod of the Deployment. The test binds the pod to the node."""
    end = time.monotonic() + PATIENCE
    while True:
        pods = (await admin.get(PODS, {"labelSelector": "app=batchq"})).body["items"]
        for pod in pods:
            if pod["metadata"]["name"] == other_than:
                continue
            if not pod["spec"].get("nodeName"):
                await bind(admin, pod["metadata"]["name"], node)
            if is_ready(pod):
                return pod
        assert time.monotonic() < end, [pod["status"] for pod in pods]
        await asyncio.sleep(0.5)


async def bind(admin, name, node):
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await admin.request("POST", f"{PODS}/{name}/binding", body=binding)


def is_ready(pod):
    conditions = pod["status"].get("conditions") or ()
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


async def no_pod_remains(admin):
    """Wait until the pods of jobs are removed: their finalizers would keep the namespace."""

    async def is_removed():
        pods = (await admin.get(PODS)).body["items"]
        return all(pod["metadata"]["labels"].get("app") == "batchq" for pod in pods)

    await until(is_removed)


async def run_in(admin, pod, *command):
    """What the command writes in the pod of batchq, as `kubectl exec` shows it."""
    query = [("container", "batchq"), ("stdout", "true"), ("stderr", "true"), *(("command", text) for text in command)]
    written = b""
    async with admin.exec(f"{PODS}/{pod['metadata']['name']}/exec", query) as connection:
        async for message in connection:
            channel, content = message.data[0], message.data[1:]
            if channel == STATUS:
                assert json.loads(content)["status"] == "Success", (written, content)
                break
            written += content
    return written.decode()


def client_of(keys):
    """boto3 at the Service's name: `batchq` in the namespace."""
    key, secret = re.search(r"AWS_ACCESS_KEY_ID=(\S+) AWS_SECRET_ACCESS_KEY=(\S+)", keys).groups()
    return boto3.client(
        "batch",
        endpoint_url=f"http://batchq:{PORT}",
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


async def test_batchq_runs_in_the_cluster_and_its_next_pod_finds_the_jobs_of_the_first(image, admin, monkeypatch):
    address, look_up = {}, socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *given, **named: look_up(address.get(host, host), *given, **named)
    )
    async with applied(admin, prepared(image)):
        first = await server_pod(admin, "bed-n1")
        address["batchq"] = first["status"]["podIP"]
        batch = client_of(await run_in(admin, first, "batchq", "key", "create", "--user", "ada"))
        batch.register_job_definition(
            jobDefinitionName="d", type="container", containerProperties=container("sh", "-c", "sleep 20")
        )
        job = batch.submit_job(jobName="j", jobQueue="default", jobDefinition="d")["jobId"]
        await asyncio.to_thread(reaches, batch, job, "RUNNING")

        reply = await admin.request("DELETE", f"{PODS}/{first['metadata']['name']}")
        assert reply.ok, reply.message
        second = await server_pod(admin, "bed-n2", other_than=first["metadata"]["name"])
        address["batchq"] = second["status"]["podIP"]
        await asyncio.to_thread(reaches, batch, job, "SUCCEEDED")
        (ended,) = batch.describe_jobs(jobs=[job])["jobs"]
        await no_pod_remains(admin)

    assert len(ended["attempts"]) == 1
