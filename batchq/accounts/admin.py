"""Changes of accounts, users and keys: each is atomic, and is made after its audit record is in the journal."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from batchq.accounts.files import AccessKey, AccessKeyFile, AccountsFile, key_not_found, new_key
from batchq.audit import Journal
from batchq.domain.access.accounts import ROOT, AccountName, Caller, Directory, User, UserName
from batchq.domain.access.audit import DONE, FAILED, record_of
from batchq.domain.access.permissions import manages, may_see_account, may_see_user
from batchq.domain.enums import KeyState, Role
from batchq.errors import BatchqError, Forbidden, NotFound, Unavailable

MAX_KEYS = 10  # of one user: enough to replace keys with an overlap, too few to fill the file


class AccountAdmin:
    """Administration of the accounts, users and keys of a data directory. Methods block, and are thread-safe.

    Every change holds the lock of the accounts file, so that permissions cannot change between their check and the
    change, and a user who is being deleted gets no key.
    """

    def __init__(self, data: Path, *, now: Callable[[], datetime]) -> None:
        self.accounts = AccountsFile(data)
        self.keys = AccessKeyFile(data)
        self._journal = Journal(data)
        self._now = now

    def change(
        self,
        caller: Caller,
        resource: str,
        change: Callable[[Directory], Directory],
        *,
        outcome: str = DONE,
        then: Callable[[], None] | None = None,
    ) -> Directory:
        """Replace the directory by `change(directory)`, with an audit record about `resource`, and return the new one.

        `then` is called after the record is written and before the change is visible; if it raises, there is no change.
        If the change fails after the record, a second record with the outcome `failed` is appended.
        """
        is_recorded = False

        def before_write() -> None:
            nonlocal is_recorded
            self._record(caller, resource, outcome)
            is_recorded = True
            if then is not None:
                then()

        try:
            return self.accounts.change(change, before_write=before_write)
        except BatchqError:
            if is_recorded:
                with suppress(Unavailable):
                    self._record(caller, resource, FAILED)
            raise

    def _record(self, caller: Caller, resource: str, outcome: str) -> None:
        self._journal.append(record_of(caller, at=self._now(), resource=resource, outcome=outcome))

    def create_key(self, name: UserName, caller: Caller) -> tuple[AccessKey, bool]:
        """Create a key of a user. Return it, and whether the user was created with it, as the first user, an admin.

        Raises NotFound, Forbidden.
        """
        key, is_first = new_key(name, self._now()), False

        def check(directory: Directory) -> Directory:
            nonlocal is_first
            is_first = not directory.users and caller.role is Role.ADMIN
            if is_first:
                return replace(directory, users={name: User(name=name, account=ROOT, role=Role.ADMIN)})
            require_key_access(directory, name, caller)
            if sum(key.user == name for key in self.keys.all()) >= MAX_KEYS:
                raise Forbidden(f"user {name} has {MAX_KEYS} keys, the maximum: delete one of them first")
            return directory

        self.change(caller, f"key/{key.id}", check, then=lambda: self.keys.add(key))
        return key, is_first

    def set_key(self, key_id: str, state: KeyState, caller: Caller) -> None:
        """Enable or disable a key. Raises NotFound, Forbidden.

        A user cannot enable an own key, because a manager may have disabled it; callers who manage themselves can.
        """

        def check(directory: Directory) -> Directory:
            key = self._require_key(directory, key_id, caller)
            owner = directory.users.get(key.user)
            is_own = key.user == caller.user and owner is not None and not manages(caller, owner)
            if state is KeyState.ACTIVE and is_own:
                raise Forbidden(f"you may not enable your own key {key_id}: ask a manager of your account")
            return directory

        resource, outcome = f"key/{key_id}", state.lower()
        self.change(caller, resource, check, outcome=outcome, then=lambda: self.keys.set_state(key_id, state))

    def delete_key(self, key_id: str, caller: Caller) -> None:
        """Delete a key. Raises NotFound, Forbidden."""

        def check(directory: Directory) -> Directory:
            self._require_key(directory, key_id, caller)
            return directory

        self.change(caller, f"key/{key_id}", check, then=lambda: self.keys.delete(key_id))

    def _require_key(self, directory: Directory, key_id: str, caller: Caller) -> AccessKey:
        """The key of this id, if the caller may change it.

        Raises NotFound, also for a key that the caller may not see, and Forbidden.
        """
        key = next((key for key in self.keys.all() if key.id == key_id), None)
        if key is None or not can_see_key(directory, key, caller):
            raise key_not_found(key_id)
        if key.user in directory.users:
            require_key_access(directory, key.user, caller)
        return key


def require_key_access(directory: Directory, name: UserName, caller: Caller) -> None:
    """Raise unless the caller may create, enable, disable and delete the keys of user `name`.

    Callers may do so for themselves and for users whom they manage. Raises NotFound if the caller may not see the
    user, else Forbidden.
    """
    user = require_visible_user(directory, name, caller)
    if name != caller.user and not manages(caller, user):
        raise Forbidden(f"you may not manage the keys of user {name}, whose role is {user.role}")


def can_see_key(directory: Directory, key: AccessKey, caller: Caller) -> bool:
    """Whether the caller may see a key. Keys of a user who does not exist are visible to operators and admins."""
    user = directory.users.get(key.user)
    return caller.reaches_all if user is None else may_see_user(caller, user)


def require_visible_user(directory: Directory, name: UserName, caller: Caller) -> User:
    """The user of this name. Raises NotFound, also for a user whom the caller may not see."""
    user = directory.users.get(name)
    if user is None or not may_see_user(caller, user):
        raise NotFound(f"there is no user {name}")
    return user


def require_visible_account(directory: Directory, name: AccountName, caller: Caller) -> None:
    """Raise NotFound for an account that does not exist, or that the caller may not see."""
    if directory.account(name) is None or not may_see_account(caller, name):
        raise NotFound(f"there is no account {name}")
