"""Accounts and users as they may be: each change answers all of them, and refuses what would not hold together. Pure.

The tree has no circle, an account that anybody is in stays, and where there are users one of them is an admin.

What somebody may know and do of accounts, users and their keys. Pure.

Whoever has a user's key is that user. So nobody makes a key for somebody who may do more than himself, nor makes
anybody more than he is: operators and admins are the work of admins, coordinators that of operators.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Account, AccountName, Caller, Directory, Role, User, UserName
from batchq.errors import Invalid, NotFound


def knows_account(caller: Caller, name: AccountName) -> bool:
    """One that he does not is to him as if it were not there."""
    return caller.reaches_all or name in caller.coordinates


def knows_user(caller: Caller, user: User) -> bool:
    return caller.reaches_all or user.name == caller.user or user.account in caller.coordinates


def manages(caller: Caller, user: User) -> bool:
    """Whether he may change and delete him, and has a say in his keys."""
    if caller.role is Role.ADMIN:
        return True
    if user.role is not Role.USER:
        return False
    return caller.reaches_all or (user.account in caller.coordinates and user.coordinates <= caller.coordinates)


def may_make(caller: Caller, user: User, before: User | None) -> bool:
    """Whether he may make a user what he shall be; `before` is what he was, None where he is new."""
    if before is not None and not manages(caller, before):
        return False
    named = frozenset() if before is None else before.coordinates
    return manages(caller, user) and (caller.reaches_all or user.coordinates == named)


def may_name(caller: Caller, name: UserName, had: Collection[UserName]) -> bool:
    """Whether he may give a name to a new user. Who gets one that somebody `had` reaches what is that one's."""
    return caller.reaches_all or name not in had


def may_set(caller: Caller, account: Account, before: Account | None) -> bool:
    """What containers may have of the machine is for admins to give: it can be all of it."""
    given = None if before is None else before.allowance
    return caller.role is Role.ADMIN or (caller.reaches_all and account.allowance == given)


def with_account(people: Directory, account: Account) -> Directory:
    """It is new, or takes the place of the one of its name. Raises Invalid, and NotFound for its parent."""
    if account.name == ROOT and account.parent is not None:
        raise Invalid("the account root is above all others: it has no parent")
    if account.parent is not None:
        if account.parent in people.below(account.name):
            raise Invalid(f"account {account.parent} is below {account.name}, and cannot be above it")
        must_know_accounts(people, [account.parent])
    return replace(people, accounts={**people.accounts, account.name: account})


def without_account(people: Directory, name: AccountName) -> Directory:
    """Jobs of it stay, and belong to an account right below the root that nobody is in. Raises Invalid, NotFound."""
    if name == ROOT:
        raise Invalid("the account root is above all others, and stays")
    must_know_accounts(people, [name])
    inside = [
        *(f"account {it.name}" for it in people.accounts.values() if it.parent == name),
        *(f"user {it.name}" for it in people.users.values() if it.account == name or name in it.coordinates),
    ]
    if inside:
        raise Invalid(f"account {name} is not empty: {', '.join(sorted(inside)[:10])}")
    return replace(people, accounts={it: account for it, account in people.accounts.items() if it != name})


def with_user(people: Directory, user: User) -> Directory:
    """New, or in the place of the one of this name. Raises Invalid, and NotFound for an account."""
    must_know_accounts(people, [user.account, *sorted(user.coordinates)])
    return _with_an_admin(replace(people, users={**people.users, user.name: user}, gone=people.gone - {user.name}))


def without_user(people: Directory, name: UserName) -> Directory:
    """His name is remembered. Raises Invalid, NotFound."""
    must_know_user(people, name)
    left = {it: user for it, user in people.users.items() if it != name}
    return _with_an_admin(replace(people, users=left, gone=people.gone | {name}))


def must_know_user(people: Directory, name: UserName) -> User:
    if name not in people.users:
        raise NotFound(f"there is no user {name}")
    return people.users[name]


def must_know_accounts(people: Directory, names: Iterable[AccountName]) -> None:
    for name in names:
        if people.account(name) is None:
            raise NotFound(f"there is no account {name}")


def _with_an_admin(people: Directory) -> Directory:
    """Else nobody could ever change anything again, but whoever can write the files."""
    if not any(it.role is Role.ADMIN for it in people.users.values()):
        raise Invalid("one user at least must be an ADMIN")
    return people
