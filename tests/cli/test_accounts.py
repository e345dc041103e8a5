"""`batchq account`, `batchq user` and `batchq key` on the files of the data."""

import json
import multiprocessing
import shutil
import stat
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from batchq.accounts import admin
from batchq.accounts.files import AccessKeyFile, AccountsFile
from batchq.audit import Journal
from batchq.cli.main import main


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHQ_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("BATCHQ_URL", raising=False)
    return tmp_path / "data"


@pytest.fixture
def batchq(data, capsys):
    """Run a command that must succeed. Returns its output."""

    def run(*words):
        assert main(words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(data, capsys):
    """Run a command that must fail and change nothing. Returns stderr."""

    def run(*words):
        before = AccountsFile(data).load(), AccessKeyFile(data).all(), Journal(data).read()
        assert main(words) == 1
        assert (AccountsFile(data).load(), AccessKeyFile(data).all(), Journal(data).read()) == before
        return capsys.readouterr().err

    return run


GROUP = (
    ("key", "create", "--user", "amy"),
    ("account", "add", "lab", "--volumes", "/data", "--queues", "default", "--vcpus", "8"),
    ("account", "add", "team", "--parent", "lab", "--queued", "100"),
    ("user", "add", "cora", "--account", "lab", "--coordinates", "lab"),
    ("user", "add", "ada", "--account", "team"),
)


@pytest.fixture(scope="module")
def group_files(tmp_path_factory):
    """The data directory that the commands of GROUP write."""
    directory = tmp_path_factory.mktemp("group") / "data"
    with pytest.MonkeyPatch.context() as environment, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        environment.setenv("BATCHQ_DATA", str(directory))
        environment.delenv("BATCHQ_URL", raising=False)
        assert [main(command) for command in GROUP] == [0] * len(GROUP)
    return directory


@pytest.fixture
def group(data, group_files):
    """An admin, a lab with a team in it, its coordinator, and a user of the team."""
    shutil.copytree(group_files, data)


def described(batchq, *words):
    return json.loads(batchq(*words, "-o", "json"))


def test_the_first_user_with_a_key_is_an_admin(data, batchq, capsys):
    assert main(["key", "create", "--user", "amy"]) == 0

    text = capsys.readouterr()
    assert text.err == "batchq: amy is the first user, with the role ADMIN\n"
    assert text.out.startswith("export AWS_ACCESS_KEY_ID=BQIA")
    assert described(batchq, "user", "list")["users"] == [
        {"name": "amy", "account": "root", "role": "ADMIN", "coordinates": []}
    ]


def test_an_empty_list_prints_nothing(group, data, batchq):
    assert batchq("key", "list", "--user", "ada") == ""
    assert batchq("audit", "--data", str(data), "--user", "unknown") == ""


def test_an_account_has_the_limits_of_its_parent_by_default(group, batchq):
    (team,) = described(batchq, "account", "show", "team")["accounts"]

    assert team["queues"] is team["allowance"] is None
    assert team["inEffect"]["queues"] == ["default"]
    assert team["inEffect"]["allowance"]["volumes"] == ["/data"]
    assert team["inEffect"]["allowance"]["root"] is False
    assert team["limits"] == {"queued": 100, "submits": None, "vcpus": None, "logMib": None}


def test_only_given_flags_change_settings_and_none_removes_one(group, batchq):
    batchq("account", "set", "team", "--job-vcpus", "2", "--queues", "", "--queued", "none", "--submits", "0.5")
    (text,) = described(batchq, "account", "show", "team")["accounts"]
    batchq("account", "set", "team", "--allowance", "none", "--queues", "none")
    (taken,) = described(batchq, "account", "show", "team")["accounts"]

    assert text["allowance"] == {
        "privileged": False,
        "devices": [],
        "volumes": ["/data"],
        "hostNetwork": False,
        "engineSocket": False,
        "execAllowed": True,
        "root": None,
        "vcpus": 2,
        "memoryMib": None,
        "logDrivers": [],
        "registries": None,
    }
    assert (text["queues"], text["parent"]) == ([], "lab")
    assert text["limits"] == {"queued": None, "submits": 0.5, "vcpus": None, "logMib": None}
    assert taken["allowance"] is taken["queues"] is None
    assert taken["limits"] == text["limits"]


def test_an_account_may_be_allowed_the_engine_socket_and_loses_it_again(group, batchq):
    batchq("account", "set", "lab", "--engine-socket", "yes")
    (lab,), (team,) = (described(batchq, "account", "show", name)["accounts"] for name in ("lab", "team"))
    batchq("account", "set", "lab", "--engine-socket", "no")
    (without,) = described(batchq, "account", "show", "lab")["accounts"]

    assert lab["allowance"]["engineSocket"] is True
    assert lab["allowance"]["volumes"] == ["/data"]
    assert team["inEffect"]["allowance"]["engineSocket"] is True
    assert without["allowance"]["engineSocket"] is False


def test_the_root_account_has_limits(group, batchq):
    assert batchq("account", "set", "root", "--vcpus", "64").startswith("root: all queues")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("account", "add", "lab"), "account lab already exists"),
        (("account", "add", "root"), "account root already exists"),
        (("account", "add", "new", "--parent", "gone"), "there is no account gone"),
        (("account", "add", "new", "--volumes", "data"), "data is not an absolute path without `..`"),
        (("account", "add", "new", "--volumes", "/data/../etc"), "/data/../etc is not an absolute path without `..`"),
        (("account", "set", "lab", "--parent", "team"), "account team is below lab, and cannot be above it"),
        (("account", "set", "gone", "--queued", "1"), "there is no account gone"),
        (("account", "set", "lab", "--queued", "-1"), "limits.queued: Input should be greater than or equal to 0"),
        (("account", "set", "lab", "--vcpus", "nan"), "limits.vcpus: Input should be a finite number"),
        (("account", "delete", "lab"), "account lab is not empty: account team, user cora"),
        (("account", "delete", "root"), "the account root is above all others, and stays"),
        (("user", "add", "ada"), "user ada already exists"),
        (("user", "add", "new", "--account", "gone"), "there is no account gone"),
        (("user", "set", "amy", "--role", "user"), "one user at least must be an ADMIN"),
        (("user", "delete", "amy"), "one user at least must be an ADMIN"),
        (("user", "delete", "gone"), "there is no user gone"),
        (("user", "show", "gone"), "there is no user gone"),
        (("key", "create", "--user", "eve"), "there is no user eve"),
        (("key", "delete", "gone"), "there is no key gone"),
    ],
)
def test_an_invalid_change_is_refused_in_one_line_and_changes_nothing(group, refused, words, text):
    assert refused(*words) == f"batchq: {text}\n"


@pytest.mark.fault("SE12")
@pytest.mark.parametrize(
    "name", ["", " ", "-x", "a b", "a\nb", "\x1b[31m", "<b>", "a/b", "..", "{}", "%s", "é", "a" * 65]
)
def test_an_invalid_name_is_refused_in_one_printable_line(group, data, capsys, name):
    before = AccountsFile(data).load()

    statuses = [main([what, "add", "--", name]) for what in ("user", "account")]

    assert statuses == [1, 1]
    text = capsys.readouterr().err
    assert text.count("\n") == 2
    assert "\x1b" not in text
    assert AccountsFile(data).load() == before


def test_a_new_user_does_not_inherit_the_keys_of_a_deleted_user_of_that_name(group, data, batchq):
    batchq("key", "create", "--user", "ada")

    batchq("user", "delete", "ada")
    batchq("user", "add", "ada", "--account", "team")

    assert [record.user for record in AccessKeyFile(data).all()] == ["amy"]


def test_the_number_of_keys_of_a_user_is_limited(group, data, batchq, refused):
    for _ in range(admin.MAX_KEYS):
        batchq("key", "create", "--user", "ada")

    assert "has 10 keys, the maximum" in refused("key", "create", "--user", "ada")
    assert len(described(batchq, "key", "list", "--user", "ada")["keys"]) == admin.MAX_KEYS


@pytest.mark.fault("SE14")
def test_files_are_private_and_not_used_once_others_may_write_them(group, data, capsys):
    assert {stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()} == {0o600}

    (data / "accounts.json").chmod(0o620)

    assert main(["user", "list"]) == 1
    assert "other users can read" in capsys.readouterr().err


def add_users(number):
    for each in range(10):
        assert main(["user", "add", f"user{number}-{each}", "--account", "team"]) == 0


@pytest.mark.process
def test_processes_that_write_at_the_same_time_lose_no_change(group, data):
    workers = [multiprocessing.get_context("spawn").Process(target=add_users, args=(index,)) for index in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()

    assert len(AccountsFile(data).load().users) == 3 + 30
    assert sum(entry.record.operation == "CreateUser" for entry in Journal(data).read()[0]) == 2 + 30


def test_each_change_has_an_audit_record_and_a_refused_one_has_none(group, data, batchq, refused):
    refused("user", "delete", "amy")
    batchq("user", "delete", "ada")

    records, _ = Journal(data).read()
    assert [(record.record.operation, record.record.resource) for record in records[1:]] == [
        ("CreateAccount", "account/lab"),
        ("CreateAccount", "account/team"),
        ("CreateUser", "user/cora"),
        ("CreateUser", "user/ada"),
        ("DeleteUser", "user/ada"),
    ]
    assert records[0].record.resource.startswith("key/BQIA")
    assert len({record.entry_id for record in records}) == len(records)


def test_a_change_without_an_audit_record_is_not_made(group, data, refused):
    (data / "audit.log").unlink()
    (data / "audit.log").mkdir()

    assert main(["user", "add", "eve"]) == 1

    assert "eve" not in AccountsFile(data).load().users


def test_an_incomplete_audit_record_is_skipped(group, data, batchq):
    whole, _ = Journal(data).read()
    with (data / "audit.log").open("ab") as file:
        file.write(b'\n{"mark":"cut off')

    batchq("user", "add", "eve")

    records, _ = Journal(data).read()
    assert records[:-1] == whole
    assert records[-1].record.resource == "user/eve"


@pytest.mark.parametrize(
    "server", [("--url", "http://127.0.0.1:1"), ("--config", "lab.toml")], ids=lambda pair: pair[0]
)
@pytest.mark.parametrize("command", [("user", "list"), ("audit",)], ids=" ".join)
def test_flags_that_name_both_files_and_a_server_are_refused(data, capsys, command, server):
    assert main([*command, "--data", str(data), *server]) == 2

    assert "give only one of them" in capsys.readouterr().err


def test_a_command_with_a_server_url_does_not_use_the_files(group, monkeypatch, capsys):
    monkeypatch.setenv("BATCHQ_URL", "http://127.0.0.1:1")

    assert main(["user", "list"]) == 3

    assert "cannot reach a batchq server at http://127.0.0.1:1" in capsys.readouterr().err


def test_a_recorded_change_that_cannot_be_written_is_recorded_as_failed(group, data, capsys):
    (data / "keys.json").unlink()
    (data / "keys.json").mkdir()

    assert main(["user", "delete", "ada"]) == 1

    assert "ada" in AccountsFile(data).load().users
    assert "keys.json" in capsys.readouterr().err
    assert [
        (entry.record.operation, entry.record.resource, entry.record.outcome) for entry in Journal(data).read()[0][-2:]
    ] == [("DeleteUser", "user/ada", "done"), ("DeleteUser", "user/ada", "failed")]
