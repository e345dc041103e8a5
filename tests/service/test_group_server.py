"""A group's server: an admin sets it up, a coordinator adds users from another machine."""

import json
import shlex

import pytest
from botocore.exceptions import ClientError

from batchq.cli.main import main
from tests.support.service import serving_forked

CONTAINER = {
    "image": "x",
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "4"}],
}


@pytest.fixture
def batchq(monkeypatch, capsys):
    """Runs a command, signed by a key where one is given; its status and what it prints."""

    def run(*words, key=()):
        signs = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), key, strict=False))
        with monkeypatch.context() as around:
            for name, value in signs.items():
                around.setenv(name, value)
            status = main([str(it) for it in words])
        text = capsys.readouterr()
        return status, text.out or text.err

    return run


def key_of(text):
    return [it.partition("=")[2] for it in shlex.split(text[1])[1:]]


def test_a_coordinator_adds_users_who_have_their_own_jobs(tmp_path, batchq):
    data = tmp_path / "data"
    here = ("--data", data)
    amy = key_of(batchq("key", "create", "--user", "amy", *here))
    batchq("account", "add", "lab", *here)
    batchq("user", "add", "cora", "--account", "lab", "--coordinates", "lab", *here)
    cora = key_of(batchq("key", "create", "--user", "cora", *here))

    with serving_forked(data, "--runtime", "simulated", "--auth", "sigv4") as service:
        there = ("--url", service.url)
        added = batchq("user", "add", "ada", "--account", "lab", *there, key=cora)
        assert added == (0, "ada               USER      lab\n")
        assert batchq("user", "set", "ada", "--account", "root", *there, key=cora) == (
            1,
            "batchq: there is no account root\n",
        )
        ada = key_of(batchq("key", "create", "--user", "ada", *there, key=cora))
        described = batchq("whoami", "--json", *there, key=ada)
        listed = batchq("user", "list", "--json", *there, key=cora)
        forbidden = batchq("user", "list", *there, key=ada)

        made = service.client(key=ada)
        made.register_job_definition(jobDefinitionName="a", type="container", containerProperties=CONTAINER)
        job = made.submit_job(jobName="a", jobQueue="default", jobDefinition="a")["jobId"]
        seen = {
            name: service.client(key=key).describe_jobs(jobs=[job])["jobs"]
            for name, key in {"ada": ada, "cora": cora, "amy": amy}.items()
        }

        assert batchq("user", "delete", "ada", *there, key=cora)[0] == 0
        with pytest.raises(ClientError, match="InvalidSignature"):
            made.describe_jobs(jobs=[job])

    me = json.loads(described[1])
    assert (me["user"], me["account"], me["role"]) == ("ada", "lab", "USER")
    assert [it["name"] for it in json.loads(listed[1])["users"]] == ["ada", "cora"]
    assert forbidden == (1, "batchq: User ada is not authorized to perform DescribeUsers.\n")
    assert all(seen.values())
