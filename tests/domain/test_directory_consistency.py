"""The directory of accounts and users stays consistent after every change."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Account, Directory, Role, User
from batchq.domain.access.permissions import with_account, with_user, without_account, without_user
from batchq.errors import Invalid, NotFound

AMY = User(name="amy", role=Role.ADMIN)
PEOPLE = Directory(
    accounts={"lab": Account(name="lab"), "team": Account(name="team", parent="lab")},
    users={"amy": AMY, "ada": User(name="ada", account="team")},
)
NAMES = st.sampled_from(["a", "b", "c", "d", ROOT])
USERS = st.sampled_from(["ada", "bob", "amy"])
DEEDS = st.one_of(
    st.builds(
        lambda name, parent: lambda it: with_account(it, Account(name=name, parent=parent)),
        NAMES,
        st.one_of(NAMES, st.none()),
    ),
    st.builds(lambda name: lambda it: without_account(it, name), NAMES),
    st.builds(
        lambda name, account, role, also: (
            lambda it: with_user(it, User(name=name, account=account, role=role, coordinates=also))
        ),
        USERS,
        NAMES,
        st.sampled_from(Role),
        st.frozensets(NAMES, max_size=2),
    ),
    st.builds(lambda name: lambda it: without_user(it, name), USERS),
)


def done(deeds):
    people = Directory(users={"amy": AMY})
    for deed in deeds:
        with suppress(Invalid):
            people = deed(people)
    return people


@given(st.lists(DEEDS, max_size=30))
def test_the_directory_stays_consistent_in_every_history(deeds):
    people = done(deeds)

    climbs = {name: [it.name for it in people.lineage(name)] for name in people.accounts}
    above = {it.parent for it in people.accounts.values()} - {None}
    assert all(it[-1] == ROOT and len(it) == len(set(it)) for it in climbs.values())
    assert all(people.account(it) for it in above)
    assert all(people.account(it) for user in people.users.values() for it in {user.account, *user.coordinates})
    assert any(it.role is Role.ADMIN for it in people.users.values())


@given(st.lists(DEEDS, max_size=30), NAMES, NAMES)
def test_an_account_below_another_has_it_in_its_lineage(deeds, high, low):
    people = done(deeds)

    if low in people.accounts or low == high:
        assert (low in people.below(high)) == (high in [it.name for it in people.lineage(low)])


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda it: with_account(it, Account(name="lab", parent="team")), "team is below lab"),
        (lambda it: with_account(it, Account(name="lab", parent="lab")), "lab is below lab"),
        (lambda it: with_account(it, Account(name=ROOT, parent="lab")), "has no parent"),
        (lambda it: without_account(it, ROOT), "stays"),
        (lambda it: without_account(it, "lab"), "account lab is not empty: account team"),
        (lambda it: without_account(it, "team"), "account team is not empty: user ada"),
        (lambda it: without_user(it, "amy"), "one user at least must be an ADMIN"),
        (lambda it: with_user(it, replace(AMY, role=Role.OPERATOR)), "one user at least must be an ADMIN"),
    ],
)
def test_an_inconsistent_change_is_refused(deed, said):
    with pytest.raises(Invalid, match=said):
        deed(PEOPLE)


@pytest.mark.parametrize(
    "deed",
    [
        lambda it: with_account(it, Account(name="new", parent="gone")),
        lambda it: without_account(it, "gone"),
        lambda it: with_user(it, User(name="new", account="gone")),
        lambda it: with_user(it, User(name="new", coordinates=frozenset({"gone"}))),
        lambda it: without_user(it, "gone"),
    ],
)
def test_an_unknown_name_is_reported(deed):
    with pytest.raises(NotFound, match="gone"):
        deed(PEOPLE)


def test_a_former_name_is_stored_until_it_is_reused():
    gone = without_user(PEOPLE, "ada")

    assert (PEOPLE.deleted_users, gone.deleted_users) == (frozenset(), {"ada"})
    assert with_user(gone, User(name="ada")).deleted_users == frozenset()


def test_an_account_with_a_coordinator_is_not_deleted():
    people = with_user(without_user(PEOPLE, "ada"), replace(AMY, coordinates=frozenset({"team"})))

    with pytest.raises(Invalid, match="user amy"):
        without_account(people, "team")
