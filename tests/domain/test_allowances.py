"""What the containers of an account may have of the machine: faults.md 3, SE09."""

import pytest

from batchq.domain.allowances import below, check, refusal, runs_as_root
from batchq.domain.container import Device, Mount
from batchq.domain.people import ROOT, Account, Allowance, Caller, Owner, People, Role, User
from batchq.errors import Invalid
from tests.support.builders import container, definition, gang, spec, task, task_container

STRICT = Allowance()
GENEROUS = Allowance(privileged=True, devices=("/dev/dri",), volumes=("/data/lab",))


def mounting(path):
    return container(mounts=(Mount(container_path="/v", host_path=path),))


def using(path):
    return container(devices=(Device(host_path=path, container_path=path),))


OF_THE_MACHINE = {
    "A privileged container": container(privileged=True),
    "Device '/dev/dri/card0' of the host": using("/dev/dri/card0"),
    "Host path '/data/lab/in'": mounting("/data/lab/in"),
}


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("what", OF_THE_MACHINE)
def test_nothing_of_the_machine_is_given_unless_it_is_allowed(what):
    asked = spec(container=OF_THE_MACHINE[what])

    assert refusal(asked, STRICT, "lab") == f"{what} is not allowed to account lab."
    assert refusal(asked, GENEROUS, "lab") is None
    assert refusal(asked, None, "lab") is None


@pytest.mark.fault("SE09")
@pytest.mark.parametrize(
    "path", ["/data/lab/../other", "/data/lab/../../etc", "/data/labour", "/data", "//data", "/data/lab/x/../../y"]
)
def test_a_path_is_allowed_by_where_it_leads_not_by_how_it_begins(path):
    assert "is not allowed" in refusal(spec(container=mounting(path)), GENEROUS, "lab")


@pytest.mark.parametrize("path", ["/data/lab", "/data/lab/", "//data/lab/x", "/data/./lab/x", "/../data/lab/x/../y"])
def test_what_lies_below_an_allowed_path_is_allowed(path):
    assert refusal(spec(container=mounting(path)), GENEROUS, "lab") is None
    assert below(path, ["/"])


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("allowance", [None, Allowance(volumes=("/",))], ids=["an admin", "an account that may all"])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/x/..",
        "/proc",
        "/proc/1/root",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/../dev/mem",
        "/run",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
    ],
)
def test_the_engine_and_the_kernel_are_nobodys_to_mount(path, allowance):
    assert "which no job may mount" in refusal(spec(container=mounting(path)), allowance, ROOT)


def test_what_is_beside_the_engine_may_be_mounted():
    asked = [spec(container=mounting(path)) for path in ("/var", "/run/user/1000", "/devices", "/proc.txt")]

    assert [refusal(it, None, ROOT) for it in asked] == [None] * len(asked)


@pytest.mark.parametrize(
    "user", ["", "root", "0", "00", "+0", "-0", "0:1000", "app", "toor", "1e3", "1000 ", "\u0661", ":1000", "0x3e8"]
)
def test_whoever_is_not_a_number_above_zero_may_be_root(user):
    assert runs_as_root(user)
    assert "by number another than root" in refusal(spec(container=container(user=user)), Allowance(root=False), "lab")
    assert refusal(spec(container=container(user=user)), STRICT, "lab") is None


@pytest.mark.parametrize("user", ["1", "1000", "1000:0", "65534:staff"])
def test_a_number_above_zero_is_not_root(user):
    assert refusal(spec(container=container(user=user)), Allowance(root=False), "lab") is None


def test_a_user_that_nobody_said_is_for_the_start_to_see():
    assert refusal(spec(container=container()), Allowance(root=False), "lab") is None


@pytest.mark.parametrize(
    ("asked", "most", "why"),
    [
        ({"container": container(millicpus=2500)}, {"vcpus": 2.0}, "2.5 vCPUs are more than the 2 that are allowed"),
        ({"container": container(memory_mib=65)}, {"memory_mib": 64}, "65 MiB of memory are more than the 64"),
        ({"task": task(task_container("a"), task_container("b"))}, {"vcpus": 1.5}, "2 vCPUs are more than the 1.5"),
        ({"nodes": gang(4)}, {"vcpus": 3.0}, "4 vCPUs are more than the 3"),
    ],
)
def test_a_job_as_a_whole_asks_for_no_more_than_its_account_may(asked, most, why):
    assert why in refusal(spec(**asked), Allowance(**most), "lab")


def test_as_much_as_is_allowed_may_be_asked_for():
    exactly = Allowance(vcpus=4.0, memory_mib=512)

    assert refusal(spec(nodes=gang(4)), exactly, "lab") is None


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("of", ["task", "nodes"])
def test_each_container_of_a_job_is_judged(of):
    whole = task(task_container("app"), task_container("side", privileged=True))
    asked = {"task": {"task": whole}, "nodes": {"nodes": gang(2, leader=task(), each=whole)}}[of]

    assert "privileged" in refusal(definition(**asked), STRICT, "lab")


@pytest.mark.fault("SE09")
def test_a_caller_is_held_to_his_account_and_an_admin_to_none():
    asked = definition(container=container(privileged=True))

    check(asked, Caller(user="amy", account="lab", role=Role.ADMIN))
    check(asked, Caller(user="ada", account="lab", allowance=GENEROUS))
    with pytest.raises(Invalid, match="A privileged container is not allowed to account lab"):
        check(asked, Caller(user="ada", account="lab"))
    with pytest.raises(Invalid, match="is not allowed to account root"):
        check(asked, Caller(user="oda", role=Role.OPERATOR))


@pytest.mark.fault("SE10")
def test_a_job_is_held_to_what_is_said_of_its_account_and_its_owner_now():
    lab = People(
        accounts={"lab": Account(name="lab", allowance=GENEROUS), "team": Account(name="team", parent="lab")},
        users={"amy": User(name="amy", role=Role.ADMIN), "ada": User(name="ada", account="lab")},
    )

    assert lab.held_to(Owner(user="amy", account="lab")) is None
    assert lab.held_to(Owner(user="ada", account="team")) == GENEROUS
    assert lab.held_to(Owner(user="gone", account="team")) == GENEROUS
    assert lab.held_to(Owner(user="gone", account="gone")) == STRICT
    assert lab.caller("ada").held_to == GENEROUS
    assert lab.caller("amy").held_to is None
