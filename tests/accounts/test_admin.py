"""Changes of accounts, users and keys by concurrent callers."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from msgspec import json
from msgspec.structs import replace

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.files import ACCOUNTS_FILE, KeyState, new_key
from batchq.domain.access.accounts import ROOT, Account, Caller, Directory, User
from batchq.domain.enums import Role
from batchq.errors import Forbidden
from batchq.system.private_file import locked_file, replace_file
from tests.support.builders import NOON

CORA = User(name="cora", account="lab", coordinates=frozenset({"lab"}))
ADA = User(name="ada", account="lab")


@pytest.mark.parametrize("change", ["disable", "delete"])
def test_a_permission_that_is_lost_while_a_key_change_waits_is_not_used(tmp_path, change):
    directory = Directory(accounts={"lab": Account(name="lab", parent=ROOT)}, users={"cora": CORA, "ada": ADA})
    admin = AccountAdmin(tmp_path, now=lambda: NOON)
    admin.accounts.change(lambda _: directory)
    key = new_key("ada", NOON)
    admin.keys.add(key)
    caller = Caller(user="cora", account="lab", coordinates=CORA.coordinates)
    promoted = replace(directory, users={"cora": CORA, "ada": replace(ADA, role=Role.ADMIN)})

    with ThreadPoolExecutor() as threads:
        with locked_file(tmp_path / ACCOUNTS_FILE):
            if change == "disable":
                changing = threads.submit(admin.set_key, key.id, KeyState.DISABLED, caller)
            else:
                changing = threads.submit(admin.delete_key, key.id, caller)
            wait([changing], timeout=0.3)
            replace_file(tmp_path / ACCOUNTS_FILE, json.encode(promoted))

        with pytest.raises(Forbidden, match="whose role is ADMIN"):
            changing.result()

    assert admin.keys.all() == (key,)
