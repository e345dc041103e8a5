"""Which jobs a user reaches: users, accounts in a tree, and roles. faults.md 3."""

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import (
    ROOT,
    Account,
    Caller,
    ContainerPolicy,
    Directory,
    Owner,
    Permission,
    Role,
    User,
    Visibility,
)

PEOPLE = Directory(
    accounts={
        "lab": Account(name="lab", allowance=ContainerPolicy(volumes=("/data",)), queues=("default",)),
        "team": Account(name="team", parent="lab"),
        "other": Account(name="other"),
    },
    users={
        "ada": User(name="ada", account="team"),
        "bob": User(name="bob", account="team"),
        "cora": User(name="cora", account="lab", coordinates=frozenset({"lab"})),
        "oda": User(name="oda", role=Role.OPERATOR),
        "amy": User(name="amy", role=Role.ADMIN),
    },
)
OWN, SAME, OTHER = (
    Owner(user=name, account=account) for name, account in [("ada", "team"), ("bob", "team"), ("eve", "other")]
)


def caller(name):
    return PEOPLE.caller(name)


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("ada", [True, False, False]),
        ("cora", [True, True, False]),
        ("oda", [True, True, True]),
        ("amy", [True, True, True]),
    ],
)
def test_each_role_reaches_its_jobs(name, reached):
    assert [caller(name).reaches(it) for it in (OWN, SAME, OTHER)] == reached


@pytest.mark.parametrize(
    ("name", "rights"),
    [
        ("ada", {Permission.SELF}),
        ("cora", {Permission.SELF, Permission.ACCOUNTS}),
        ("oda", {Permission.SELF, Permission.ACCOUNTS, Permission.CATALOG}),
        ("amy", set(Permission)),
    ],
)
def test_each_role_has_its_permissions(name, rights):
    assert {it for it in Permission if caller(name).has(it)} == rights


def test_a_coordinator_coordinates_the_accounts_below():
    assert caller("cora").coordinates == {"lab", "team"}
    assert caller("cora").visibility == Visibility(user="cora", accounts=frozenset({"lab", "team"}))
    assert caller("oda").visibility is None


def test_resources_of_accounts_above_may_be_used_and_not_changed():
    labs, roots = Owner(user="cora", account="lab"), Owner(user="amy")

    assert [caller("ada").may_use(it) for it in (labs, roots, SAME, OTHER)] == [True, True, True, False]
    assert not any(caller("ada").reaches(it) for it in (labs, roots))


def test_unset_settings_are_those_of_the_parents():
    assert PEOPLE.allowance("team") == ContainerPolicy(volumes=("/data",))
    assert PEOPLE.allowance("other") == ContainerPolicy()
    assert caller("ada").queues == {"default"}
    assert caller("amy").queues is None


def test_a_coordinator_sees_the_queues_of_the_coordinated_accounts():
    accounts = PEOPLE.accounts | {"team": Account(name="team", parent="lab", queues=("night",))}
    people = replace(PEOPLE, accounts=accounts)

    assert people.caller("cora").queues == {"default", "night"}
    assert people.caller("ada").queues == {"night"}


def test_a_deleted_account_is_a_child_of_the_root():
    assert [it.name for it in PEOPLE.lineage("gone")] == ["gone", ROOT]


def test_containers_of_a_deleted_account_have_the_least_permissions():
    generous = Directory(accounts={ROOT: Account(name=ROOT, parent=None, allowance=ContainerPolicy(privileged=True))})

    assert generous.allowance(ROOT) == ContainerPolicy(privileged=True)
    assert generous.allowance("gone") == ContainerPolicy()


def test_a_cycle_of_accounts_is_cut():
    round_about = Directory(accounts={"a": Account(name="a", parent="b"), "b": Account(name="b", parent="a")})

    assert [it.name for it in round_about.lineage("a")] == ["a", "b", ROOT]
    assert round_about.below("a") == {"a", "b"}


def test_an_unknown_user_is_no_caller():
    assert PEOPLE.caller("eve") is None


def test_a_callers_resources_belong_to_the_caller():
    assert Caller(user="ada", account="team").owner == OWN
