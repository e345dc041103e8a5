"""A group's server: a coordinator adds users from another machine, and each user reads the audit log."""

import json
import shlex

import pytest
from botocore.exceptions import ClientError

from batchq.accounts.files import machine_user
from batchq.cli.main import main
from tests.service.job_queue import ENDLESS, playing
from tests.service.waiting import register
from tests.support.service import serving_forked


@pytest.fixture
def batchq(monkeypatch, capsys):
    """Runs a command, signed by a key where one is given; its status and what it prints."""

    def run(*words, key=()):
        signs = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), key, strict=False))
        with monkeypatch.context() as around:
            for name, value in signs.items():
                around.setenv(name, value)
            status = main([str(word) for word in words])
        text = capsys.readouterr()
        return status, text.out or text.err

    return run


def key_of(text):
    return [part.partition("=")[2] for part in shlex.split(text[1])[1:]]


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
        described = batchq("whoami", "-o", "json", *there, key=ada)
        listed = batchq("user", "list", "-o", "json", *there, key=cora)
        forbidden = batchq("user", "list", *there, key=ada)

        made = service.client(key=ada)
        register(made, "a", "true")
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
    assert [user["name"] for user in json.loads(listed[1])["users"]] == ["ada", "cora"]
    assert forbidden == (1, "batchq: User ada is not authorized to perform DescribeUsers.\n")
    assert all(seen.values())


def records(printed):
    status, out = printed
    assert status == 0, out
    return [(load["user"], load["operation"], load["resource"]) for load in reversed(json.loads(out))]


@pytest.fixture
def group(tmp_path, batchq):
    """The keys of an admin, a coordinator, and two users of two accounts."""
    here = ("--data", tmp_path / "data")
    keys = {"amy": key_of(batchq("key", "create", "--user", "amy", *here))}
    batchq("account", "add", "lab", *here)
    batchq("account", "add", "other", *here)
    batchq("user", "add", "cora", "--account", "lab", "--coordinates", "lab", *here)
    batchq("user", "add", "ada", "--account", "lab", *here)
    batchq("user", "add", "eve", "--account", "other", *here)
    return keys | {name: key_of(batchq("key", "create", "--user", name, *here)) for name in ("cora", "ada", "eve")}


def test_each_user_gets_the_audit_records_that_they_may_see(tmp_path, batchq, group):
    data = tmp_path / "data"
    with serving_forked(data, "--runtime", "simulated", "--auth", "sigv4") as service:
        there = ("--url", service.url)
        ada, eve = service.client(key=group["ada"]), service.client(key=group["eve"])
        ada.register_job_definition(jobDefinitionName="a", type="container", containerProperties=playing(ENDLESS))
        job = ada.submit_job(jobName="a", jobQueue="default", jobDefinition="a")["jobId"]
        ada.tag_resource(resourceArn=ada.describe_jobs(jobs=[job])["jobs"][0]["jobArn"], tags={"a": "b"})
        with pytest.raises(ClientError):
            ada.create_scheduling_policy(name="fair")
        amy = service.client(key=group["amy"])
        amy.create_scheduling_policy(name="fair")
        amy.terminate_job(jobId=job, reason="secret words")
        eve.terminate_job(jobId=job, reason="not hers")

        def audit(user, *words):
            return records(batchq("audit", "-o", "json", *words, *there, key=group[user]))

        of_ada = [
            ("ada", "RegisterJobDefinition", "job-definition/a"),
            ("ada", "SubmitJob", f"job/{job}"),
            ("ada", "TagResource", f"job/{job}"),
        ]
        of_amy = [("amy", "CreateSchedulingPolicy", "scheduling-policy/fair"), ("amy", "TerminateJob", f"job/{job}")]
        assert audit("cora", "--user", "ada") == of_ada
        assert audit("ada") == audit("cora") == [*of_ada, of_amy[1]], "with the records of others about her job"
        assert audit("ada", "--job", job) == [*of_ada[1:], of_amy[1]], "ada sees every record of her job"
        assert audit("eve") == audit("eve", "--job", job) == []
        everything = audit("amy")
        assert everything[-5:] == [*of_ada, *of_amy]
        assert audit("amy", "--operation", "CreateUser") == [
            (machine_user(), "CreateUser", f"user/{name}") for name in ("cora", "ada", "eve")
        ]
        assert audit("amy", "--limit", "2") == of_amy
        assert audit("amy", "--since", "2999-01-01") == []
        as_lines = batchq("audit", *there, key=group["amy"])[1]
        assert "secret words" not in as_lines
        assert len(as_lines.splitlines()) == len(everything)
        service.kill()
        service.start()
        assert audit("amy") == everything, "records of the files are ingested once"
        batchq("user", "delete", "eve", "--data", data)
        beside = records(batchq("audit", "-o", "json", "--data", data))
    at_rest = records(batchq("audit", "-o", "json", "--data", data, "--since", "2026-01-01"))
    assert beside == [*everything, (machine_user(), "DeleteUser", "user/eve")]
    assert at_rest == beside
    assert records(batchq("audit", "-o", "json", "--data", data, "--job", job)) == [*of_ada[1:], of_amy[1]]


def test_without_authentication_the_user_of_the_server_is_recorded(tmp_path, batchq):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        service.client().create_scheduling_policy(name="fair")

        assert main(["user", "add", "amy", "--role", "admin", "--data", str(service.data)]) == 0
        batchq("whoami", "--url", service.url)

        assert records(batchq("audit", "-o", "json", "--url", service.url)) == [
            (machine_user(), "CreateSchedulingPolicy", "scheduling-policy/fair"),
            (machine_user(), "CreateUser", "user/amy"),
        ]
