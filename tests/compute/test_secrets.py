"""Where secrets come from, and that they go nowhere else."""

import json

import pytest

from batchq.compute.docker.secrets import NO_SECRETS, Secrets, environment_variable
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


def ask(secrets, value_from=ARN):
    return secrets.resolve((Secret(name="PASSWORD", value_from=value_from),))


def refused(secrets, value_from=ARN):
    with pytest.raises(StartRefused) as refusal:
        ask(secrets, value_from)
    assert refusal.value.certain
    assert refusal.value.reason.startswith("ResourceInitializationError: ")
    assert VALUE not in refusal.value.reason
    return refusal.value.reason


def test_a_secret_is_in_the_file(file):
    assert ask(Secrets(file=file, environment={})) == (("PASSWORD", VALUE),)


def test_the_file_is_read_anew(file):
    secrets = Secrets(file=file, environment={})
    ask(secrets)

    file.write_text(json.dumps({ARN: "changed"}))

    assert ask(secrets) == (("PASSWORD", "changed"),)


def test_what_is_not_in_the_file_is_in_the_environment(file):
    secrets = Secrets(file=file, environment={"BATCHQ_SECRET_TOKEN": VALUE})

    assert ask(secrets, "arn:aws:ssm:us-east-1:123456789012:parameter/prod/TOKEN") == (("PASSWORD", VALUE),)


def test_the_file_comes_first(file):
    assert ask(Secrets(file=file, environment={environment_variable(ARN): "other"})) == (("PASSWORD", VALUE),)


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


def test_no_other_variable_of_the_server_can_be_had():
    refused(Secrets(file=None, environment={"AWS_SECRET_ACCESS_KEY": VALUE}), "AWS_SECRET_ACCESS_KEY")


def test_one_that_is_nowhere_refuses_the_start_by_name():
    assert ARN in refused(NO_SECRETS)


@pytest.mark.parametrize("content", ["", "[]", f'{{"{ARN}": "{VALUE}"', '"text"'])
def test_a_file_that_is_no_json_object_refuses_the_start(file, content):
    file.write_text(content)

    refused(Secrets(file=file, environment={}))


@pytest.mark.fault("SE14")
def test_a_file_that_everybody_can_read_refuses_the_start(file):
    file.chmod(0o604)

    assert "can be read by every user" in refused(Secrets(file=file, environment={}))


def test_a_file_that_is_not_there_refuses_the_start(tmp_path):
    refused(Secrets(file=tmp_path / "none.json", environment={}))


@pytest.mark.parametrize("value", [5, None, {"a": VALUE}, f"{VALUE}\0"])
def test_what_no_variable_can_hold_refuses_the_start(file, value):
    file.write_text(json.dumps({ARN: value}))

    refused(Secrets(file=file, environment={}))


def test_who_asks_for_none_needs_no_file(tmp_path):
    assert Secrets(file=tmp_path / "none.json", environment={}).resolve(()) == ()
