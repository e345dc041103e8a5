"""Snakemake with its aws-batch executor: workflow and results by way of S3, the rules as jobs that run Snakemake."""

import os
import socket
import subprocess
import time
from contextlib import closing
from ipaddress import ip_network

import boto3
import docker
import pytest

from tests.clients.client import BIN
from tests.kubernetes.bed.__main__ import CONTROL_PLANE
from tests.kubernetes.service import CLUSTER

HASTE = ("--seconds-between-status-checks", "1", "--latency-wait", "1")
WORKFLOW = """
rule writes:
    output: "written.txt"
    shell: "echo from a job > {output}"
"""
FAILING = """
rule fails:
    output: "never.txt"
    shell: "exit 3"
"""


@pytest.fixture
def storage(docker_engine):
    """An S3 of moto's for a test, at the one address that both jobs and this machine know."""
    host = CONTROL_PLANE if CLUSTER in os.environ else gateway_of_docker()
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    words = [BIN / "moto_server", "-H", host, "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield bucket(f"http://{host}:{port}")
    finally:
        server.terminate()
        server.wait(10)


def gateway_of_docker():
    """The address of this machine on Docker's bridge."""
    with closing(docker.from_env()) as engine:
        (bridge,) = engine.networks.get("bridge").attrs["IPAM"]["Config"]
    return bridge.get("Gateway") or str(next(ip_network(bridge["Subnet"]).hosts()))  # a restarted engine names none


def bucket(url):
    keys = {"aws_access_key_id": "A", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    made = boto3.resource("s3", endpoint_url=url, **keys).Bucket("work")
    host, port = url.removeprefix("http://").split(":")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                made.create()
                return made
    raise AssertionError(f"no S3 at {url}")


@pytest.fixture
def snakemake(client, image, storage):
    def run(workflow, status):
        (client.folder / "Snakefile").write_text(workflow)
        url = storage.meta.client.meta.endpoint_url
        where = ("--default-storage-provider", "s3", "--default-storage-prefix", "s3://work")
        keys = ("--storage-s3-access-key", "A", "--storage-s3-secret-key", "b", "--storage-s3-endpoint-url", url)
        batch = ("--aws-batch-region", "eu-central-1", "--aws-batch-job-queue", "default")
        role = ("--aws-batch-job-role", "arn:aws:iam::123456789012:role/jobs", "--container-image", image)
        return client.run(
            "snakemake", "-j", 2, "--executor", "aws-batch", *batch, *role, *where, *keys, *HASTE, status=status
        )

    return run


def test_snakemake_runs_a_rule_as_a_job_and_has_its_output(snakemake, storage, client):
    snakemake(WORKFLOW, status=0)

    assert storage.Object("written.txt").get()["Body"].read() == b"from a job\n"
    batch = client.service.client()
    listed = batch.list_jobs(jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["snakejob-writes-*"]}])
    assert [job["status"] for job in listed["jobSummaryList"]] == ["SUCCEEDED"]


def test_snakemake_tells_why_a_rule_failed_and_leaves_no_definition(snakemake, client):
    done = snakemake(FAILING, status=1)

    assert "AWS Batch job failed. Code: 1, Msg: Essential container in task exited" in done.stderr
    active = client.service.client().describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    assert [
        definition for definition in active if definition["jobDefinitionName"].startswith("snakejob-def-fails")
    ] == []
