"""`batchq serve --auth sigv4`: boto3 and the AWS CLI with keys of `batchq key`, and revoked keys."""

import json
import shlex
import subprocess
import urllib.request
from contextlib import closing, redirect_stdout
from http import HTTPStatus
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from urllib.error import HTTPError

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from batchq.cli.main import main
from tests.service.waiting import container
from tests.support.service import BATCHQ, ForkedService


class Keys:
    """Runs `batchq key` on a data directory."""

    def __init__(self, data: Path):
        self.data = data

    def create(self, user="ada"):
        """The id and the secret, as a shell reads them."""
        _, *given = shlex.split(self("create", "--user", user))
        return [text.partition("=")[2] for text in given]

    def __call__(self, *words):
        with redirect_stdout(StringIO()) as printed:
            assert main(["key", *words, "--data", str(self.data)]) == 0
        return printed.getvalue()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    data = tmp_path_factory.mktemp("signed") / "data"
    limits = ["--requests-per-second", "5"]
    service = ForkedService(data, "--runtime", "simulated", "--auth", "sigv4", *limits).start()
    yield service
    service.stop()


@pytest.fixture
def keys(served):
    return Keys(served.data)


def code_of(call, **members):
    with pytest.raises(ClientError) as why:
        call(**members)
    return why.value.response["Error"]["Code"]


def test_boto3_is_admitted_with_a_key(served, keys):
    batch = served.client(key=keys.create())

    made = batch.register_job_definition(
        jobDefinitionName="signed",
        type="container",
        containerProperties=container("true"),
        tags={"a name": "with spaces, ünd öther things +/="},
    )

    assert batch.list_tags_for_resource(resourceArn=made["jobDefinitionArn"])["tags"]
    assert batch.describe_job_queues()["jobQueues"]
    assert served.client("logs", key=keys.create()).describe_log_groups()["logGroups"]


@pytest.mark.fault("SE40")
def test_admins_are_logged_at_the_start(tmp_path):
    Keys(tmp_path).create("mallory")
    service = ForkedService(tmp_path, "--runtime", "simulated", "--auth", "sigv4").start()
    service.stop()

    assert "users with the role ADMIN: mallory" in service.log.read_text()


@pytest.mark.fault("SE03")
def test_no_body_is_parsed_before_the_signature_is_verified(served):
    json_like = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{served.url}/v1/submitjob", data=b"{ not json", headers=json_like)

    with pytest.raises(HTTPError) as why:
        urllib.request.urlopen(request)

    with why.value as answer:
        assert (answer.code, answer.headers["x-amzn-ErrorType"]) == (403, "MissingAuthenticationTokenException")


@pytest.mark.fault("SE07")
def test_a_key_that_is_disabled_or_deleted_is_refused_at_once(served, keys):
    first, second = keys.create(), keys.create()
    assert served.client(key=first).describe_job_queues()["jobQueues"]
    assert served.client(key=second).describe_job_queues()["jobQueues"], "both keys are valid during a rotation"

    keys("disable", first[0])
    keys("delete", second[0])

    refused = [code_of(served.client(key=key).describe_job_queues) for key in (first, second)]
    assert refused == ["InvalidSignatureException"] * 2
    keys("enable", first[0])
    assert served.client(key=first).describe_job_queues()["jobQueues"]


@pytest.mark.fault("SE06", "SE07")
def test_the_aws_cli_gets_one_error_for_unknown_wrong_and_disabled_keys(served, keys):
    key, disabled = keys.create(), keys.create()
    keys("disable", disabled[0])

    assert aws(served, key)[0] == 0
    wrong, unknown = aws(served, (key[0], "not this")), aws(served, ("BQIAUNKNOWNUNKNOWN22", key[1]))

    assert wrong == unknown == aws(served, disabled)
    assert wrong[0] != 0
    assert "InvalidSignatureException" in wrong[1]


def aws(served, key):
    """The exit status of a command of the AWS CLI, and stdout with stderr."""
    environment = served.environment() | {"AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    command = [BATCHQ.parent / "aws", "batch", "describe-job-queues", "--query", "jobQueues[].jobQueueName"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.fault("SE49")
def test_a_key_is_accepted_as_a_bearer_token_until_it_is_disabled(served, keys):
    identity, secret = keys.create()
    request = urllib.request.Request(
        f"{served.url}/v2/training/jobs", headers={"Authorization": f"Bearer {identity}.{secret}"}
    )

    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["jobs"] == []
    keys("disable", identity)
    with pytest.raises(HTTPError) as why:
        urllib.request.urlopen(request)

    body = json.load(why.value)
    assert (why.value.code, body["error"]) == (401, "UNAUTHORIZED")
    assert body["request_id"] == why.value.headers["X-Request-Id"]
    assert secret not in served.log.read_text()


def test_a_secret_is_shown_once_and_stored_in_a_private_file(served, keys):
    key_id, secret = keys.create()

    listed = keys("list")

    assert key_id in listed
    assert "ada" in listed
    assert secret not in listed
    assert (served.data / "keys.json").stat().st_mode & 0o777 == 0o600
    assert secret not in served.log.read_text()


def test_an_unauthenticated_caller_does_not_learn_why_keys_are_unreadable(served, keys):
    file = served.data / "keys.json"
    key = keys.create()
    file.chmod(0o644)
    described = served.client(key=key, tries=1).describe_job_queues

    with pytest.raises(ClientError) as why:
        described()

    file.chmod(0o600)
    assert why.value.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "cannot read" in why.value.response["Error"]["Message"]
    assert str(served.data) not in str(why.value)
    assert "chmod 600" in served.log.read_text()
    assert described()


@pytest.mark.fault("SE15")
def test_a_user_above_the_rate_is_throttled_and_others_are_not(served, keys):
    assert main(["user", "add", "ben", "--data", str(keys.data)]) == 0
    greedy, modest = keys.create("ada"), keys.create("ben")

    answers = statuses(served, greedy)

    assert next(answers) == HTTPStatus.OK
    assert next(answer for answer in answers if answer != HTTPStatus.OK) == HTTPStatus.TOO_MANY_REQUESTS
    assert next(statuses(served, modest)) == HTTPStatus.OK


def statuses(service, key):
    """The responses to one signed request that is repeated as fast as possible."""
    body, headers = b'{"jobs": []}', {"Content-Type": "application/json"}
    request = AWSRequest("POST", f"{service.url}/v1/describejobs", headers=headers, data=body)
    SigV4Auth(Credentials(*key), "batch", "us-east-1").add_auth(request)
    with closing(HTTPConnection(service.url.removeprefix("http://"))) as connection:
        while True:
            yield answered(connection, body, dict(request.headers.items()))


def answered(connection, body, headers):
    connection.request("POST", "/v1/describejobs", body, headers)
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def test_a_command_with_foreign_keys_gets_advice(served, keys, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.create()[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of another cloud")

    status = main(["leave-safe-mode", "--url", served.url])

    assert status == 1
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key of `batchq key create`" in capsys.readouterr().err


def test_a_command_without_a_key_gets_advice(served, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")

    assert main(["terminate", "-t", "all", "--url", served.url]) == 2
    assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().err


def test_the_doctor_with_wrong_keys_reports_a_running_server(served, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFANOTHERCLOUD22")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of another cloud")

    main(["doctor", "--url", served.url, "--data", str(served.data)])

    assert f"ok       server: a server responds at {served.url}: ok" in capsys.readouterr().out


def test_without_a_signature_health_has_the_status_only(served):
    assert list(served.health()) == ["status"]


@pytest.mark.fault("SE13")
def test_with_keys_a_server_may_listen_on_other_addresses(tmp_path):
    service = ForkedService(tmp_path / "data", "--runtime", "simulated", "--auth", "sigv4", "--host", "0.0.0.0")

    service.start()

    assert service.stop() == 0
    assert service.log.read_text().count("requests to 0.0.0.0 and their responses are not encrypted") == 1
