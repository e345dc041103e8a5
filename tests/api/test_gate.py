"""Who a key makes somebody: by what is said of accounts, users and keys in the moment of the request."""

import pytest

from batchq.api.authentication import Callers
from batchq.domain.access.accounts import Directory, Role, User, UserName

ADA = UserName("ada")


def people(*users):
    return Directory(users={it.name: it for it in users})


@pytest.mark.fault("SE07")
def test_what_is_changed_of_a_user_holds_from_his_next_request_on():
    now, key_of = [people(User(name=ADA, role=Role.ADMIN))], {"BQIA": ADA}
    callers = Callers(directory=lambda: now[-1], user_of=key_of.get)

    as_admin = callers.find("BQIA")
    now.append(people(User(name=ADA)))
    as_user = callers.find("BQIA")
    now.append(people())
    gone = callers.find("BQIA")

    assert (as_admin.role, as_user.role, gone) == (Role.ADMIN, Role.USER, None)


def test_a_user_who_was_not_there_is_known_as_soon_as_he_is():
    now = [people()]
    callers = Callers(directory=lambda: now[-1], user_of={"BQIA": ADA}.get)

    unknown = callers.find("BQIA")
    now.append(people(User(name=ADA)))

    assert (unknown, callers.find("BQIA").user) == (None, ADA)
