"""Which jobs a user reaches: users, accounts in a tree, and roles. faults.md 3."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Account, ContainerPolicy, Directory, Owner, Permission, User, Visibility
from batchq.domain.access.permissions import (
    manages,
    may_name_user,
    may_see_user,
    may_store_account,
    may_store_user,
    with_account,
    with_user,
    without_account,
    without_user,
)
from batchq.domain.enums import Role
from batchq.errors import Invalid, NotFound

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


def test_a_coordinator_coordinates_the_accounts_below():
    assert caller("cora").coordinates == {"lab", "team"}
    assert caller("cora").visibility == Visibility(user="cora", accounts=frozenset({"lab", "team"}))
    assert caller("oda").visibility is None


def test_resources_of_accounts_above_may_be_used_and_not_changed():
    labs, roots = Owner(user="cora", account="lab"), Owner(user="amy")

    assert [caller("ada").may_use(resource) for resource in (labs, roots, SAME, OTHER)] == [True, True, True, False]
    assert not any(caller("ada").reaches(job_id) for job_id in (labs, roots))


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


def test_the_lineage_of_an_account_ends_at_the_root():
    circle = Directory(accounts={"a": Account(name="a", parent="b"), "b": Account(name="b", parent="a")})

    assert [item.name for item in PEOPLE.lineage("gone")] == ["gone", ROOT]
    assert [item.name for item in circle.lineage("a")] == ["a", "b", ROOT]
    assert circle.below("a") == {"a", "b"}


def test_containers_of_a_deleted_account_have_the_least_permissions():
    generous = Directory(accounts={ROOT: Account(name=ROOT, parent=None, allowance=ContainerPolicy(privileged=True))})

    assert generous.allowance(ROOT) == ContainerPolicy(privileged=True)
    assert generous.allowance("gone") == ContainerPolicy()


def test_an_unknown_user_is_no_caller():
    assert PEOPLE.caller("eve") is None


IN_TEAM = User(name="new", account="team")
USERS = {
    "of the team": IN_TEAM,
    "of another account": User(name="new", account="other"),
    "coordinator below": replace(IN_TEAM, coordinates=frozenset({"team"})),
    "coordinator elsewhere": replace(IN_TEAM, coordinates=frozenset({"other"})),
    "operator": replace(IN_TEAM, role=Role.OPERATOR),
    "admin": replace(IN_TEAM, role=Role.ADMIN),
}


PLAIN = {"of the team", "of another account", "coordinator below", "coordinator elsewhere"}


@pytest.mark.parametrize(
    ("name", "permissions", "reached", "managed", "stored"),
    [
        ("ada", {Permission.SELF}, [OWN], set(), set()),
        (
            "cora",
            {Permission.SELF, Permission.ACCOUNTS},
            [OWN, SAME],
            {"of the team", "coordinator below"},
            {"of the team"},
        ),
        ("oda", set(Permission) - {Permission.MAINTENANCE}, [OWN, SAME, OTHER], PLAIN, PLAIN),
        ("amy", set(Permission), [OWN, SAME, OTHER], set(USERS), set(USERS)),
    ],
)
def test_each_role_has_its_permissions_and_reaches_its_jobs_and_users(name, permissions, reached, managed, stored):
    by = caller(name)

    assert {permission for permission in Permission if by.has(permission)} == permissions
    assert [job_id for job_id in (OWN, SAME, OTHER) if by.reaches(job_id)] == reached
    assert {what for what, user in USERS.items() if manages(by, user)} == managed
    for before in (None, IN_TEAM):
        assert {what for what, user in USERS.items() if may_store_user(by, user, before)} == stored


@pytest.mark.parametrize("name", ["ada", "cora", "oda"])
def test_only_an_admin_changes_an_admin(name):
    assert not may_store_user(caller(name), IN_TEAM, USERS["admin"])


def test_a_coordinator_sees_the_users_of_the_accounts_and_a_user_only_themselves():
    assert may_see_user(caller("cora"), USERS["admin"])
    assert not may_see_user(caller("cora"), USERS["of another account"])
    assert may_see_user(caller("ada"), User(name="ada", account="team"))
    assert not may_see_user(caller("ada"), IN_TEAM)


def test_a_former_user_name_is_reused_only_by_those_who_reach_its_jobs():
    assert [may_name_user(caller(name), "bob", {"bob"}) for name in ("cora", "oda", "amy")] == [False, True, True]
    assert may_name_user(caller("cora"), "new", {"bob"})


def test_container_policies_are_set_by_admins_and_other_settings_by_operators():
    before, limited = Account(name="lab"), Account(name="lab", queues=("night",))
    given = replace(before, allowance=ContainerPolicy(privileged=True))

    for account, permitted in ((limited, ["oda", "amy"]), (given, ["amy"])):
        assert [
            name for name in ("ada", "cora", "oda", "amy") if may_store_account(caller(name), account, before)
        ] == permitted
    assert not may_store_account(caller("oda"), before, given), "nor may an operator remove it"


AMY = User(name="amy", role=Role.ADMIN)
CONSISTENT = Directory(
    accounts={"lab": Account(name="lab"), "team": Account(name="team", parent="lab")},
    users={"amy": AMY, "ada": User(name="ada", account="team")},
)
NAMES = st.sampled_from(["a", "b", "c", "d", ROOT])
USER_NAMES = st.sampled_from(["ada", "bob", "amy"])
CHANGES = st.one_of(
    st.builds(
        lambda name, parent: lambda value: with_account(value, Account(name=name, parent=parent)),
        NAMES,
        st.one_of(NAMES, st.none()),
    ),
    st.builds(lambda name: lambda directory: without_account(directory, name), NAMES),
    st.builds(
        lambda name, account, role, also: (
            lambda value: with_user(value, User(name=name, account=account, role=role, coordinates=also))
        ),
        USER_NAMES,
        NAMES,
        st.sampled_from(Role),
        st.frozensets(NAMES, max_size=2),
    ),
    st.builds(lambda name: lambda directory: without_user(directory, name), USER_NAMES),
)


def changed(changes):
    people = Directory(users={"amy": AMY})
    for change in changes:
        with suppress(Invalid):
            people = change(people)
    return people


@given(st.lists(CHANGES, max_size=30))
def test_the_directory_stays_consistent_in_every_history(changes):
    people = changed(changes)

    climbs = {name: [item.name for item in people.lineage(name)] for name in people.accounts}
    above = {account.parent for account in people.accounts.values()} - {None}
    assert all(climb[-1] == ROOT and len(climb) == len(set(climb)) for climb in climbs.values())
    assert all(people.account(name) for name in above)
    assert all(people.account(name) for user in people.users.values() for name in {user.account, *user.coordinates})
    assert any(user.role is Role.ADMIN for user in people.users.values())


@given(st.lists(CHANGES, max_size=30), NAMES, NAMES)
def test_an_account_below_another_has_it_in_its_lineage(changes, high, low):
    people = changed(changes)

    if low in people.accounts or low == high:
        assert (low in people.below(high)) == (high in [item.name for item in people.lineage(low)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: with_account(value, Account(name="lab", parent="team")), "team is below lab"),
        (lambda value: with_account(value, Account(name="lab", parent="lab")), "lab is below lab"),
        (lambda value: with_account(value, Account(name=ROOT, parent="lab")), "has no parent"),
        (lambda directory: without_account(directory, ROOT), "stays"),
        (lambda directory: without_account(directory, "lab"), "account lab is not empty: account team"),
        (lambda directory: without_account(directory, "team"), "account team is not empty: user ada"),
        (
            lambda value: without_account(with_user(value, replace(AMY, coordinates=frozenset({"team"}))), "team"),
            "account team is not empty: user ada, user amy",
        ),
        (lambda directory: without_user(directory, "amy"), "one user at least must be an ADMIN"),
        (lambda value: with_user(value, replace(AMY, role=Role.OPERATOR)), "one user at least must be an ADMIN"),
    ],
)
def test_an_inconsistent_change_is_refused(change, message):
    with pytest.raises(Invalid, match=message):
        change(CONSISTENT)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: with_account(value, Account(name="new", parent="gone")),
        lambda directory: without_account(directory, "gone"),
        lambda value: with_user(value, User(name="new", account="gone")),
        lambda value: with_user(value, User(name="new", coordinates=frozenset({"gone"}))),
        lambda directory: without_user(directory, "gone"),
    ],
)
def test_an_unknown_name_is_reported(change):
    with pytest.raises(NotFound, match="gone"):
        change(CONSISTENT)


def test_a_former_name_is_stored_until_it_is_reused():
    gone = without_user(CONSISTENT, "ada")

    assert (CONSISTENT.deleted_users, gone.deleted_users) == (frozenset(), {"ada"})
    assert with_user(gone, User(name="ada")).deleted_users == frozenset()
