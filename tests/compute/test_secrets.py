"""Sources of secrets, and that they reach nothing else."""

import json

import pytest

from batchq.compute.secrets import NO_SECRETS, Secrets, environment_variable
from batchq.domain.container import Secret
from batchq.errors import StartRefused

ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf"
VALUE = "c4n4ry"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "secrets.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({ARN: VALUE}))
    return path


def resolve_one(secrets, value_from=ARN):
    return secrets.resolve((Secret(name="PASSWORD", value_from=value_from),))


def refused(secrets, value_from=ARN):
    with pytest.raises(StartRefused) as refusal:
        resolve_one(secrets, value_from)
    assert refusal.value.certain
    assert refusal.value.reason.startswith("ResourceInitializationError: ")
    assert VALUE not in refusal.value.reason
    return refusal.value.reason


@pytest.mark.parametrize(
    ("environment", "value_from"),
    [
        ({}, ARN),
        ({environment_variable(ARN): "other"}, ARN),
        ({"BATCHQ_SECRET_TOKEN": VALUE}, "arn:aws:ssm:us-east-1:123456789012:parameter/prod/TOKEN"),
    ],
    ids=["file", "file before the environment", "environment"],
)
def test_a_secret_is_read_from_the_file_or_else_from_the_environment(file, environment, value_from):
    assert resolve_one(Secrets(file=file, environment=environment), value_from) == (("PASSWORD", VALUE),)


def test_the_file_is_read_each_time(file):
    secrets = Secrets(file=file, environment={})
    resolve_one(secrets)

    file.write_text(json.dumps({ARN: "changed"}))

    assert resolve_one(secrets) == (("PASSWORD", "changed"),)


@pytest.mark.parametrize(
    ("value_from", "name"),
    [
        ("arn:aws:ssm:us-east-1:123456789012:parameter/a/b", "BATCHQ_SECRET_b"),
        ("arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbCdEf", "BATCHQ_SECRET_db_AbCdEf"),
        ("plain", "BATCHQ_SECRET_plain"),
        ("ünï", "BATCHQ_SECRET__n_"),
    ],
)
def test_the_variable_is_named_by_the_last_part(value_from, name):
    assert environment_variable(value_from) == name


def test_no_other_variable_of_the_server_can_be_read():
    refused(Secrets(file=None, environment={"AWS_SECRET_ACCESS_KEY": VALUE}), "AWS_SECRET_ACCESS_KEY")


def test_a_missing_secret_refuses_the_start_by_name():
    assert ARN in refused(NO_SECRETS)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", f'{{"{ARN}": "{VALUE}"', '"text"'),
        *(json.dumps({ARN: secret}) for secret in (5, None, {"a": VALUE}, f"{VALUE}\0")),
    ],
)
def test_an_invalid_file_or_value_refuses_the_start(file, content):
    file.write_text(content)

    refused(Secrets(file=file, environment={}))


@pytest.mark.fault("SE14")
def test_a_world_readable_file_refuses_the_start(file):
    file.chmod(0o604)

    assert "can be read by every user" in refused(Secrets(file=file, environment={}))


def test_a_missing_file_refuses_the_start(tmp_path):
    refused(Secrets(file=tmp_path / "none.json", environment={}))


def test_a_job_without_secrets_needs_no_file(tmp_path):
    assert Secrets(file=tmp_path / "none.json", environment={}).resolve(()) == ()
