"""The rights of a caller while a long session lasts: as the files of keys and accounts are at present."""

import pytest

from batchq.accounts.files import AccessKeyFile, AccountsFile, new_key
from batchq.domain.access.accounts import Account, Caller, ContainerPolicy, Directory, User
from batchq.domain.enums import KeyState
from batchq.server.listeners import caller_reader
from batchq.settings import Auth, Settings
from tests.support.builders import NOON

LAB = Directory(accounts={"lab": Account(name="lab")}, users={"ada": User(name="ada", account="lab")})


@pytest.fixture
def key(tmp_path):
    key = new_key("ada", NOON)
    AccessKeyFile(tmp_path).add(key)
    AccountsFile(tmp_path).change(lambda _: LAB)
    return key


def test_a_caller_has_the_present_rights(tmp_path, key):
    present = caller_reader(Settings(data=tmp_path, auth=Auth.SIGV4))
    caller = LAB.caller("ada", key=key.id)
    assert present(caller) == caller

    stricter = ContainerPolicy(exec_allowed=False)
    AccountsFile(tmp_path).change(
        lambda directory: Directory(accounts={"lab": Account(name="lab", allowance=stricter)}, users=directory.users)
    )

    assert present(caller).allowance == stricter


def test_a_caller_whose_key_is_disabled_or_whose_user_is_deleted_is_none(tmp_path, key):
    present = caller_reader(Settings(data=tmp_path, auth=Auth.SIGV4))
    by_key, by_socket = LAB.caller("ada", key=key.id), LAB.caller("ada")

    AccessKeyFile(tmp_path).set_state(key.id, KeyState.DISABLED)
    assert (present(by_key), present(by_socket)) == (None, by_socket)

    AccountsFile(tmp_path).change(lambda _: Directory())
    assert present(by_socket) is None


def test_without_accounts_a_caller_stays_as_it_is(tmp_path):
    caller = Caller(user="root")

    assert caller_reader(Settings(data=tmp_path, auth=Auth.NONE))(caller) is caller
