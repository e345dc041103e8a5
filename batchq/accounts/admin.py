"""Where accounts, users and keys are changed: each change is noted in the journal first, and is whole or not at all."""

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

MOST_KEYS = 10  # that a user may have: enough to change one for another, too few to fill the file


class AccountAdmin:
    """The people of a data directory, their keys, and the journal. It blocks; threads may share it."""

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
        """`then` is done with the change, before it can be seen."""
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
        """A change calls what it is given when all is well and nothing is written yet. One that then fails says so."""
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
        """A new key, and whether its user is the first: there was none before, and he is an admin.

        Under the lock of the users, so that no user who is being deleted gets one. Raises NotFound, Forbidden.
        """
        key, first = new_key(name, self._now()), False

        def check(people: Directory) -> Directory:
            nonlocal first
            first = not people.users and caller.role is Role.ADMIN
            if first:
                return replace(people, users={name: User(name=name, account=ROOT, role=Role.ADMIN)})
            self.must_hold(people, name, caller)
            if sum(it.user == name for it in self.keys.all()) >= MOST_KEYS:
                raise Forbidden(f"user {name} has {MOST_KEYS} keys, and no more: delete one")
            return people

        self.change(caller, f"key/{key.id}", check, then=lambda: self.keys.add(key))
        return key, first

    def must_hold(self, people: Directory, name: UserName, caller: Caller) -> None:
        """Raises NotFound and Forbidden unless his keys are the caller's own, or his to give out."""
        user = must_know_user(people, name, caller)
        if name != caller.user and not manages(caller, user):
            raise Forbidden(f"the keys of user {name}, who is {user.role}, are not yours to give out or take back")

    def must_know_key(self, key_id: str, caller: Caller) -> AccessKey:
        """Raises NotFound for one of whom the caller does not know, too."""
        key = next((it for it in self.keys.all() if it.id == key_id), None)
        if key is None or not self.knows_key(self.people.now(), key, caller):
            raise no_key(key_id)
        return key

    def knows_key(self, people: Directory, key: AccessKey, caller: Caller) -> bool:
        user = people.users.get(key.user)
        return caller.reaches_all if user is None else knows_user(caller, user)

    def set_key(self, key_id: str, state: KeyState, caller: Caller) -> None:
        """Who was forbidden to use one of his keys does not take it into use again with another."""
        key = self._must_hold_key(key_id, caller)
        if state is KeyState.ACTIVE and key.user == caller.user and not self._manages(key.user, caller):
            raise Forbidden(f"key {key_id} is your own: who manages you can enable it")
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
    """Raises NotFound for one of whom the caller does not know, too."""
    user = people.users.get(name)
    if user is None or not knows_user(caller, user):
        raise NotFound(f"there is no user {name}")
    return user


def must_know_account(people: Directory, name: AccountName, caller: Caller) -> None:
    if people.account(name) is None or not knows_account(caller, name):
        raise NotFound(f"there is no account {name}")
