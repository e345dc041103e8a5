"""A secret reaches its container, and is found nowhere else."""

import hashlib
import json

import pytest

from tests.service.waiting import container, reaches
from tests.support.service import serving

pytestmark = pytest.mark.docker

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:prod/db-AbCdEf"
NOWHERE = "arn:aws:ssm:eu-central-1:123456789012:parameter/prod/none"
VALUE = "c4n4ry-that-nobody-may-see"


@pytest.fixture(scope="module")
def service(docker_engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "secrets.json").touch(mode=0o600)
    (folder / "secrets.json").write_text(json.dumps({ARN: VALUE}))
    with serving(folder / "data", "--secrets-file", str(folder / "secrets.json")) as running:
        yield running


def submit(batch, value_from, *command):
    properties = container(*command) | {"secrets": [{"name": "PASSWORD", "valueFrom": value_from}]}
    name = hashlib.sha256(value_from.encode()).hexdigest()[:12]
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    return batch.submit_job(jobName="j", jobQueue="default", jobDefinition=name)["jobId"]


@pytest.mark.fault("SE11")
def test_a_secret_reaches_the_container_and_nothing_else(service):
    batch = service.client()
    knows = f'test "$(printf %s "$PASSWORD" | sha256sum | cut -c1-64)" = {hashlib.sha256(VALUE.encode()).hexdigest()}'

    done = reaches(batch, submit(batch, ARN, "sh", "-c", knows), "SUCCEEDED", "FAILED")

    assert done["status"] == "SUCCEEDED"
    assert done["container"]["secrets"] == [{"name": "PASSWORD", "valueFrom": ARN}]
    shown = [done, batch.describe_job_definitions(), batch.list_jobs(jobQueue="default", jobStatus="SUCCEEDED")]
    assert VALUE not in str(shown)
    kept = [it for it in service.data.rglob("*") if it.is_file()]
    assert [it for it in [*kept, service.log] if VALUE.encode() in it.read_bytes()] == []


def test_a_missing_secret_fails_the_attempt_with_awss_reason(service):
    batch = service.client()

    done = reaches(batch, submit(batch, NOWHERE, "true"), "FAILED")

    (attempt,) = done["attempts"]
    assert attempt["container"]["reason"].startswith("ResourceInitializationError: ")
    assert NOWHERE in attempt["container"]["reason"]
    assert "exitCode" not in attempt["container"]
