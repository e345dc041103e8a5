"""Secrets reach only their containers, and nothing that batchq returns, stores or logs."""

import asyncio
import base64
import hashlib
import json
from http.client import HTTPConnection

import pytest

from tests.service.waiting import container, reaches
from tests.support.registry import PASSWORD, USER, registry
from tests.support.service import serving

pytestmark = pytest.mark.docker

BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
CANARIES = [b"c4n4ry", PASSWORD.encode(), BASIC.encode()]
ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:prod/db-AbCdEf"
FILE = {ARN: "c4n4ry-in-the-file", "option": "c4n4ry-option://nowhere", "broken": "c4n4ry\0with-a-nul"}
SIGNED = {
    "Content-Type": "application/json",
    "Authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261121/eu-central-1/batch/aws4_request, Signature=c4n4ry",
    "X-Amz-Security-Token": "c4n4ryT0ken",
}
SYSLOG = {"logDriver": "syslog", "secretOptions": [{"name": "syslog-address", "valueFrom": "option"}]}


@pytest.fixture
async def images(docker_engine):
    async with registry(docker_engine, private=True) as spec:
        yield spec


@pytest.fixture
def service(tmp_path, images, monkeypatch):
    """A server with secrets in a file, in its environment, and in the configuration of Docker."""
    secrets, config = tmp_path / "secrets.json", tmp_path / "config.json"
    secrets.touch(mode=0o600)
    secrets.write_text(json.dumps(FILE))
    config.write_text(json.dumps({"auths": {images.address: {"auth": BASIC}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("BATCHQ_SECRET_TOKEN", "c4n4ry-in-the-environment")
    with serving(tmp_path / "data", "--secrets-file", str(secrets)) as running:
        yield running
    running.remove_containers()


def secret(*names):
    return {"secrets": [{"name": f"SECRET_{number}", "valueFrom": name} for number, name in enumerate(names)]}


def jobs(images):
    """The containerProperties of each job by its name."""
    digest = hashlib.sha256(FILE[ARN].encode()).hexdigest()
    compare = f'test -n "$SECRET_1" -a "$(printf %s "$SECRET_0" | sha256sum | cut -c1-64)" = {digest}'
    knows = container("sh", "-c", compare, image=images.image())
    return {
        "knows": knows | secret(ARN, "TOKEN"),
        "missing": container("true") | secret(ARN, "nowhere"),
        "broken": container("true") | secret("broken"),
        "no-such-address": container("true") | {"logConfiguration": SYSLOG},
        "no-such-program": container("no-such-program") | secret(ARN),
        "no-such-image": container("true", image=f"{images.address}/none:latest") | secret(ARN),
    }


def run(service, images):
    """Submit the jobs. Returns their descriptions once all have ended."""
    batch = service.client()
    made = {}
    for name, properties in jobs(images).items():
        batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
        made[name] = batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]
    return {name: reaches(batch, job_id, "SUCCEEDED", "FAILED") for name, job_id in made.items()}


def ask(service, method, path, *, body=None, **headers):
    connection = HTTPConnection(service.url.removeprefix("http://"))
    connection.request(method, path, body, SIGNED | headers)
    answer = connection.getresponse()
    parts = answer.read(), str(answer.headers).encode()
    connection.close()
    return parts


def responses(service, ended):
    """Responses that could contain a secret, also those to requests that are refused."""
    batch = service.client()
    statuses = ["SUCCEEDED", "FAILED"]
    yield from (str(batch.list_jobs(jobQueue="default", jobStatus=status)).encode() for status in statuses)
    yield from (str(answer).encode() for answer in (ended, batch.describe_job_definitions(), service.health()))
    yield from ask(
        service, "POST", "/v1/describejobs", body=json.dumps({"jobs": [job["jobId"] for job in ended.values()]})
    )
    yield from ask(service, "POST", "/v1/submitjob", body="{}")
    yield from ask(service, "POST", "/v1/submitjob", body="{", Host="c4n4ry.example")
    yield from ask(service, "POST", "/v1/nothing", body="x" * 300_000)
    yield from ask(service, "GET", "/openapi.json")
    for job in ended.values():
        yield from ask(service, "GET", f"/v1/batchq/jobs/{job['jobId']}/history")


def stored(service):
    """The content of all files of the server."""
    yield service.log.read_bytes()
    yield from (path.read_bytes() for path in service.data.rglob("*") if path.is_file())


@pytest.mark.fault("SE11")
async def test_no_secret_is_returned_or_stored(service, images):
    ended = await asyncio.to_thread(run, service, images)

    texts = await asyncio.to_thread(lambda: [*responses(service, ended), *stored(service)])

    assert {name for name, job in ended.items() if job["status"] == "SUCCEEDED"} == {"knows"}
    assert [other_secret["valueFrom"] for other_secret in ended["knows"]["container"]["secrets"]] == [ARN, "TOKEN"]
    missing = ended["missing"]["attempts"][0]["container"]
    assert missing["reason"].startswith("ResourceInitializationError: ")
    assert ("nowhere" in missing["reason"], "exitCode" in missing) == (True, False)
    reasons = {name: str(job["attempts"][0]["container"].get("reason")) for name, job in ended.items()}
    assert "***" in reasons["no-such-address"]
    assert [canary for canary in CANARIES for text in texts if canary in text] == []
