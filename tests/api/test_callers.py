"""The caller of an access key, by the accounts, users and keys at the time of the request."""

import pytest

from batchq.api.authentication import Callers
from batchq.domain.access.accounts import Directory, Role, User, UserName

ADA = UserName("ada")


def people(*users):
    return Directory(users={it.name: it for it in users})


@pytest.mark.fault("SE07")
def test_changes_of_a_user_apply_to_the_next_request():
    now, key_of = [people(User(name=ADA, role=Role.ADMIN))], {"BQIA": ADA}
    callers = Callers(directory=lambda: now[-1], user_of=key_of.get)

    as_admin = callers.find("BQIA")
    now.append(people(User(name=ADA)))
    as_user = callers.find("BQIA")
    now.append(people())
    gone = callers.find("BQIA")

    assert (as_admin.role, as_user.role, gone) == (Role.ADMIN, Role.USER, None)


def test_a_user_added_later_is_found_at_once():
    now = [people()]
    callers = Callers(directory=lambda: now[-1], user_of={"BQIA": ADA}.get)

    unknown = callers.find("BQIA")
    now.append(people(User(name=ADA)))

    assert (unknown, callers.find("BQIA").user) == (None, ADA)
