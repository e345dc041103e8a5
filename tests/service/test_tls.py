"""`batchq serve` with a certificate: clients that trust it, that do not, and that do not use TLS."""

import json
import subprocess
from socket import create_connection

import pytest
from botocore.exceptions import SSLError

from batchq.cli.main import main
from tests.service.test_keys import Keys
from tests.service.test_serve_signals import PartialRequest, stops_listening
from tests.service.waiting import reaches, register
from tests.support.certificates import Authority
from tests.support.service import BATCHQ, BLOCKED, PATIENCE, Service, serving_forked

EXPECTED = ("there are no access keys", BLOCKED)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def served(tmp_path_factory, authority):
    """A server with keys on an address that other machines reach. No request of the tests is logged."""
    files = authority.issue()
    beyond = ["--host", "0.0.0.0", "--auth", "sigv4"]
    data = tmp_path_factory.mktemp("tls") / "data"
    with serving_forked(data, "--runtime", "simulated", *beyond, *files.flags(), bundle=files.bundle) as service:
        yield service
    lines = [line for line in service.log.read_text().splitlines() if " INFO " not in line]
    assert [line for line in lines if not any(text in line for text in EXPECTED)] == []
    assert service.blocked_by() == []


@pytest.fixture
def key(served):
    return Keys(served.data).create()


def address(service):
    host, port = service.url.removeprefix("https://").split(":")
    return host, int(port)


def test_boto3_with_the_authority_runs_a_job(served, key):
    batch = served.client(key=key)
    register(batch, "quick", "true")

    job = batch.submit_job(jobName="j", jobQueue="default", jobDefinition="quick")["jobId"]

    assert reaches(batch, job, "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"


def test_the_aws_cli_with_the_authority_runs_a_job(served, key, authority):
    signs = served.environment() | {"AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    signs.pop("AWS_CA_BUNDLE")
    command = [BATCHQ.parent / "aws", "--ca-bundle", authority.bundle, "batch", "describe-job-queues"]

    output = subprocess.run(command, capture_output=True, text=True, check=True, env=signs).stdout

    assert json.loads(output)["jobQueues"]


def test_batchq_commands_with_the_authority_work(served, authority, monkeypatch, capsys):
    monkeypatch.setenv("AWS_CA_BUNDLE", "")

    main(["doctor", "--data", str(served.data), "--url", served.url, "--ca-bundle", str(authority.bundle)])

    assert f"ok       server: a server responds at {served.url}: ok" in capsys.readouterr().out


def test_a_client_without_the_authority_sends_nothing(served, tmp_path):
    other = Authority(tmp_path).bundle
    untrusting = Service(served.data, bundle=other)
    untrusting.url = served.url

    with pytest.raises(SSLError, match="certificate verify failed"):
        untrusting.client(tries=1).describe_job_queues()


def test_sigterm_waits_for_requests_and_not_for_handshakes(tmp_path, authority):
    files = authority.issue("ending")
    with serving_forked(tmp_path / "data", "--runtime", "simulated", *files.flags(), bundle=files.bundle) as service:
        register(service.client(), "late", "true")
        request = PartialRequest(service)
        with create_connection(address(service)):
            service.health()  # now the server has begun to read the request

            service.process.terminate()

            stops_listening(service)
            assert request.finish()[0] == 200
            assert service.process.wait(PATIENCE) == 0
