"""Changes of accounts, users and keys: each is atomic, and its audit record is in the journal before it is made."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from batchq.accounts.access_keys import AccessKey, AccessKeyFile, KeyState, new_key, no_key
from batchq.accounts.accounts_file import AccountsFile
from batchq.audit.journal import Journal
from batchq.domain.access.accounts import ROOT, AccountName, Caller, Directory, Role, User, UserName
from batchq.domain.access.audit import DONE, FAILED, act
from batchq.domain.access.permissions import knows_account, knows_user, manages
from batchq.errors import Forbidden, NotFound, Unavailable

T = TypeVar("T")

MOST_KEYS = 10  # of one user: enough to replace keys with an overlap, too few to fill the file


class AccountAdmin:
    """Administration of the accounts, users and keys of a data directory. Methods block, and are thread-safe."""

    def __init__(self, data: Path, *, now: Callable[[], datetime]) -> None:
        self.people = AccountsFile(data)
        self.keys = AccessKeyFile(data)
        self._journal = Journal(data)
        self._now = now

    def change(
        self,
        caller: Caller,
        about: str,
        change: Callable[[Directory], Directory],
        *,
        then: Callable[[], None] | None = None,
    ) -> Directory:
        """Replace the directory by `change(directory)`, with an audit record about `about`, and return the new one.

        `then` is called after the record is written and before the change is visible; if it raises, there is no change.
        """
        return self._noted(caller, about, lambda first: self.people.change(change, first=first), then=then)

    def _noted(
        self,
        caller: Caller,
        about: str,
        change: Callable[[Callable[[], None]], T],
        *,
        outcome: str = DONE,
        then: Callable[[], None] | None = None,
    ) -> T:
        """Run `change` with a callback that it calls after its validation and before it writes.

        The callback appends the audit record and calls `then`. If the change fails after that, a second record with
        the outcome `failed` is appended.
        """
        noted = False

        def first() -> None:
            nonlocal noted
            self._note(caller, about, outcome)
            noted = True
            if then is not None:
                then()

        try:
            return change(first)
        except Unavailable:
            if noted:
                with suppress(Unavailable):
                    self._note(caller, about, FAILED)
            raise

    def _note(self, caller: Caller, about: str, outcome: str) -> None:
        self._journal.note(act(caller, at=self._now(), about=about, outcome=outcome))

    def give_key(self, name: UserName, caller: Caller) -> tuple[AccessKey, bool]:
        """Create a key of a user. Return it, and whether the user was created with it, as the first user, an admin.

        It holds the lock of the accounts file, so that a user who is being deleted gets no key. Raises NotFound,
        Forbidden.
        """
        key, first = new_key(name, self._now()), False

        def check(people: Directory) -> Directory:
            nonlocal first
            first = not people.users and caller.role is Role.ADMIN
            if first:
                return replace(people, users={name: User(name=name, account=ROOT, role=Role.ADMIN)})
            self.must_hold(people, name, caller)
            if sum(it.user == name for it in self.keys.all()) >= MOST_KEYS:
                raise Forbidden(f"user {name} has {MOST_KEYS} keys, the maximum: delete one of them first")
            return people

        self.change(caller, f"key/{key.id}", check, then=lambda: self.keys.add(key))
        return key, first

    def must_hold(self, people: Directory, name: UserName, caller: Caller) -> None:
        """Raise unless the caller may create, enable, disable and delete the keys of user `name`.

        Callers may do so for themselves and for users whom they manage. Raises NotFound if the caller may not see the
        user, else Forbidden.
        """
        user = must_know_user(people, name, caller)
        if name != caller.user and not manages(caller, user):
            raise Forbidden(f"you may not manage the keys of user {name}, whose role is {user.role}")

    def must_know_key(self, key_id: str, caller: Caller) -> AccessKey:
        """The key of this id. Raises NotFound, also for a key that the caller may not see."""
        key = next((it for it in self.keys.all() if it.id == key_id), None)
        if key is None or not self.knows_key(self.people.now(), key, caller):
            raise no_key(key_id)
        return key

    def knows_key(self, people: Directory, key: AccessKey, caller: Caller) -> bool:
        """Whether the caller may see a key. Keys of a user who does not exist are visible to operators and admins."""
        user = people.users.get(key.user)
        return caller.reaches_all if user is None else knows_user(caller, user)

    def set_key(self, key_id: str, state: KeyState, caller: Caller) -> None:
        """Enable or disable a key. Raises NotFound, Forbidden.

        A user cannot enable an own key, because a manager may have disabled it; callers who manage themselves can.
        """
        key = self._must_hold_key(key_id, caller)
        if state is KeyState.ACTIVE and key.user == caller.user and not self._manages(key.user, caller):
            raise Forbidden(f"you may not enable your own key {key_id}: ask a manager of your account")
        about, outcome = f"key/{key_id}", state.lower()
        self._noted(caller, about, lambda first: self.keys.set_state(key_id, state, first=first), outcome=outcome)

    def delete_key(self, key_id: str, caller: Caller) -> None:
        self._must_hold_key(key_id, caller)
        self._noted(caller, f"key/{key_id}", lambda first: self.keys.delete(key_id, first=first))

    def _must_hold_key(self, key_id: str, caller: Caller) -> AccessKey:
        key, people = self.must_know_key(key_id, caller), self.people.now()
        if key.user in people.users:
            self.must_hold(people, key.user, caller)
        return key

    def _manages(self, name: UserName, caller: Caller) -> bool:
        user = self.people.now().users.get(name)
        return user is None or manages(caller, user)


def must_know_user(people: Directory, name: UserName, caller: Caller) -> User:
    """The user of this name. Raises NotFound, also for a user whom the caller may not see."""
    user = people.users.get(name)
    if user is None or not knows_user(caller, user):
        raise NotFound(f"there is no user {name}")
    return user


def must_know_account(people: Directory, name: AccountName, caller: Caller) -> None:
    """Raise NotFound for an account that does not exist, or that the caller may not see."""
    if people.account(name) is None or not knows_account(caller, name):
        raise NotFound(f"there is no account {name}")
