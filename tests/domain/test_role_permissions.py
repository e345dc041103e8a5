"""No user gives another one more permissions than they have, nor the key of one who has more."""

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, ContainerPolicy, Role, User
from batchq.domain.access.permissions import (
    manages,
    may_name_user,
    may_see_user,
    may_store_account,
    may_store_user,
)
from tests.domain.test_visibility import caller

IN_TEAM = User(name="new", account="team")
USERS = {
    "of the team": IN_TEAM,
    "of another account": User(name="new", account="other"),
    "coordinator below": replace(IN_TEAM, coordinates=frozenset({"team"})),
    "coordinator elsewhere": replace(IN_TEAM, coordinates=frozenset({"other"})),
    "operator": replace(IN_TEAM, role=Role.OPERATOR),
    "admin": replace(IN_TEAM, role=Role.ADMIN),
}


@pytest.mark.parametrize(
    ("name", "managed"),
    [
        ("ada", set()),
        ("cora", {"of the team", "coordinator below"}),
        ("oda", {"of the team", "of another account", "coordinator below", "coordinator elsewhere"}),
        ("amy", set(USERS)),
    ],
)
def test_roles_that_may_administer_a_user(name, managed):
    assert {what for what, user in USERS.items() if manages(caller(name), user)} == managed


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("ada", set()),
        ("cora", {"of the team"}),
        ("oda", {"of the team", "of another account", "coordinator below", "coordinator elsewhere"}),
        ("amy", set(USERS)),
    ],
)
def test_roles_that_may_be_given_by_a_role(name, made):
    assert {what for what, user in USERS.items() if may_store_user(caller(name), user, None)} == made
    assert {what for what, user in USERS.items() if may_store_user(caller(name), user, IN_TEAM)} == made


@pytest.mark.parametrize("name", ["ada", "cora", "oda"])
def test_only_an_admin_changes_an_admin(name):
    assert not may_store_user(caller(name), IN_TEAM, USERS["admin"])


def test_a_coordinator_sees_the_users_of_the_accounts_and_a_user_only_themselves():
    assert may_see_user(caller("cora"), USERS["admin"])
    assert not may_see_user(caller("cora"), USERS["of another account"])
    assert may_see_user(caller("ada"), User(name="ada", account="team"))
    assert not may_see_user(caller("ada"), IN_TEAM)


def test_a_former_user_name_is_reused_only_by_those_who_reach_its_jobs():
    assert [may_name_user(caller(it), "bob", {"bob"}) for it in ("cora", "oda", "amy")] == [False, True, True]
    assert may_name_user(caller("cora"), "new", {"bob"})


def test_container_policies_are_set_by_admins_and_other_settings_by_operators():
    before, limited = Account(name="lab"), Account(name="lab", queues=("night",))
    given = replace(before, allowance=ContainerPolicy(privileged=True))

    assert [may_store_account(caller(it), limited, before) for it in ("ada", "cora", "oda", "amy")] == [
        False,
        False,
        True,
        True,
    ]
    assert [may_store_account(caller(it), given, before) for it in ("ada", "cora", "oda", "amy")] == [
        False,
        False,
        False,
        True,
    ]
    assert not may_store_account(caller("oda"), before, given), "nor does he take it away"
