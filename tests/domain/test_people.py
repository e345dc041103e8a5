"""Who reaches what: users, accounts in a tree, and the roles above them. faults.md 3."""

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
def test_a_user_reaches_his_own_a_coordinator_his_accounts_and_others_everything(name, reached):
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
def test_each_role_has_its_rights(name, rights):
    assert {it for it in Permission if caller(name).has(it)} == rights


def test_a_coordinator_of_an_account_is_one_of_those_below():
    assert caller("cora").coordinates == {"lab", "team"}
    assert caller("cora").visibility == Visibility(user="cora", accounts=frozenset({"lab", "team"}))
    assert caller("oda").visibility is None


def test_what_is_of_the_accounts_above_may_be_used_and_is_not_reached():
    labs, roots = Owner(user="cora", account="lab"), Owner(user="amy")

    assert [caller("ada").may_use(it) for it in (labs, roots, SAME, OTHER)] == [True, True, True, False]
    assert not any(caller("ada").reaches(it) for it in (labs, roots))


def test_what_an_account_does_not_say_its_parents_do():
    assert PEOPLE.allowance("team") == ContainerPolicy(volumes=("/data",))
    assert PEOPLE.allowance("other") == ContainerPolicy()
    assert caller("ada").queues == {"default"}
    assert caller("amy").queues is None


def test_a_coordinator_sees_the_queues_of_his_accounts():
    accounts = PEOPLE.accounts | {"team": Account(name="team", parent="lab", queues=("night",))}
    people = replace(PEOPLE, accounts=accounts)

    assert people.caller("cora").queues == {"default", "night"}
    assert people.caller("ada").queues == {"night"}


def test_an_account_that_is_gone_stands_right_below_the_root():
    assert [it.name for it in PEOPLE.lineage("gone")] == ["gone", ROOT]


def test_containers_of_an_account_that_is_gone_may_have_least():
    generous = Directory(accounts={ROOT: Account(name=ROOT, parent=None, allowance=ContainerPolicy(privileged=True))})

    assert generous.allowance(ROOT) == ContainerPolicy(privileged=True)
    assert generous.allowance("gone") == ContainerPolicy()


def test_accounts_that_go_round_in_a_circle_end():
    round_about = Directory(accounts={"a": Account(name="a", parent="b"), "b": Account(name="b", parent="a")})

    assert [it.name for it in round_about.lineage("a")] == ["a", "b", ROOT]
    assert round_about.below("a") == {"a", "b"}


def test_nobody_is_a_user_who_is_not_there():
    assert PEOPLE.caller("eve") is None


def test_who_asks_is_whose_what_he_makes_is():
    assert Caller(user="ada", account="team").owner == OWN
