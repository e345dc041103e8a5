"""`batchq cancel` and `batchq terminate` by users with keys: who may stop which jobs."""

import json
from types import SimpleNamespace

import pytest

from tests.service.job_queue import NUMBERS, JobQueue, batchq, create_key, run
from tests.support.service import serving_forked

USERS = {
    "amy": (),
    "olga": ("--role", "operator"),
    "cora": ("--account", "lab", "--coordinates", "lab"),
    "ada": ("--account", "team"),
    "bob": ("--account", "team"),
    "eve": ("--account", "elsewhere"),
}
STAFF = ["olga", "amy"]
OWNERS = ["ada", "bob", "eve"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server, the keys of its users, and a queue with room for all of their jobs."""
    data = tmp_path_factory.mktemp("users") / "data"
    keys = {"amy": create_key("amy", data)}
    for name, parent in (("lab", "root"), ("team", "lab"), ("elsewhere", "root")):
        run("account", "add", name, "--parent", parent, "--data", data)
    for name, text in list(USERS.items())[1:]:
        run("user", "add", name, *text, "--data", data)
        keys[name] = create_key(name, data)
    with serving_forked(data, "--runtime", "simulated", "--auth", "sigv4", "--stop-grace", "1") as service:
        yield SimpleNamespace(service=service, keys=keys, queue=JobQueue(service, room=64, key=keys["amy"]))


@pytest.fixture(autouse=True)
def here(lab, monkeypatch):
    monkeypatch.setenv("BATCHQ_URL", lab.service.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(lab.service.data))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")


@pytest.fixture
def name():
    """A name for the jobs of one test."""
    return f"of-{next(NUMBERS)}"


@pytest.fixture
def jobs(lab, name):
    """A running job of each owner."""
    ids = {owner: lab.queue.submit(name, key=lab.keys[owner]) for owner in OWNERS}
    for identifier in ids.values():
        lab.queue.reach(identifier, "RUNNING")
    return ids


@pytest.fixture
def caller(lab, monkeypatch):
    """Run a command, signed with the key of a user."""

    def run(name, *words):
        key_id, secret = lab.keys[name]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        return batchq(*words)

    return run


def stopped(lab, jobs):
    return {name for name, job_id in jobs.items() if lab.queue.describe(job_id).get("isTerminated")}


def test_the_owner_of_a_job_sees_who_stopped_it_and_others_see_nothing(jobs, caller):
    caller("cora", "terminate", jobs["ada"], "--reason", "too hot")

    seen = json.loads("\n".join(caller("ada", "history", jobs["ada"], "-o", "json").out))
    orders = [entry["stopOrder"] for entry in seen["history"] if "stopOrder" in entry]
    assert {(order["kind"], order["user"], order["reason"]) for order in orders} == {("TERMINATE", "cora", "too hot")}
    again = caller("ada", "terminate", jobs["ada"]).out
    assert any("by cora ('too hot')" in line or "is already FAILED" in line for line in again)
    assert caller("eve", "history", jobs["ada"], "-o", "json").status != 0


@pytest.mark.fault("SE08")
@pytest.mark.parametrize(("user", "owner"), [("ada", "bob"), ("ada", "eve"), ("cora", "eve")])
def test_the_job_of_another_user_does_not_exist(lab, jobs, caller, user, owner):
    done = caller(user, "terminate", jobs["ada"], jobs[owner])

    assert done.status == 1
    assert f"{jobs[owner]}  not found" in done.out
    assert stopped(lab, jobs) == {"ada"}


def test_without_a_key_nothing_is_stopped_and_advice_is_printed(lab, jobs):
    done = batchq("terminate", "-t", "all")

    assert (done.status, done.out) == (2, [])
    assert "AWS_ACCESS_KEY_ID" in done.err
    assert stopped(lab, jobs) == set()


def test_a_key_may_be_in_a_private_file(lab, jobs, tmp_path):
    key_id, secret = lab.keys["ada"]
    file = tmp_path / "config.toml"
    file.touch(mode=0o600)
    file.write_text(f'url = "{lab.service.url}"\nkey_id = "{key_id}"\nsecret = "{secret}"\n')

    done = batchq("terminate", jobs["ada"], jobs["bob"], "--config", file)

    assert done.status == 1
    assert stopped(lab, jobs) == {"ada"}
