"""Permissions on users, accounts and keys, and the changes of the directory that keep it consistent. Pure.

A user's key gives all rights of that user. So no caller may create a user, or a key of a user, with more rights than
the caller has: only admins manage operators and admins, only operators and admins appoint coordinators, and
coordinators manage plain users of their accounts. Decision 0024.

Each change returns the whole changed directory. It refuses a circle in the tree of accounts, the removal of an account
that has users, coordinators or accounts below it, and the removal of the last admin.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Account, AccountName, Caller, Directory, User, UserName
from batchq.domain.enums import Role
from batchq.errors import Invalid, NotFound


def may_see_account(caller: Caller, name: AccountName) -> bool:
    """Whether the caller may see an account. The reply about any other is that about a missing account."""
    return caller.reaches_all or name in caller.coordinates


def may_see_user(caller: Caller, user: User) -> bool:
    """Whether the caller may see a user."""
    return caller.reaches_all or user.name == caller.user or user.account in caller.coordinates


def manages(caller: Caller, user: User) -> bool:
    """Whether the caller may change and delete a user and manage the user's keys."""
    if caller.role is Role.ADMIN:
        return True
    if user.role is not Role.USER:
        return False
    return caller.reaches_all or (user.account in caller.coordinates and user.coordinates <= caller.coordinates)


def may_store_user(caller: Caller, user: User, before: User | None) -> bool:
    """Whether the caller may store `user`; `before` is the user as stored, None for a new one.

    Only operators and admins may change which accounts a user coordinates.
    """
    if before is not None and not manages(caller, before):
        return False
    coordinated = frozenset() if before is None else before.coordinates
    return manages(caller, user) and (caller.reaches_all or user.coordinates == coordinated)


def may_name_user(caller: Caller, name: UserName, had: Collection[UserName]) -> bool:
    """Whether the caller may give this name to a new user.

    `had`: names of earlier users. Their resources belong to whoever has the name, so only operators and admins may.
    """
    return caller.reaches_all or name not in had


def may_store_account(caller: Caller, account: Account, before: Account | None) -> bool:
    """Whether the caller may store `account`; `before` is the account as stored, None for a new one.

    Only admins may set a container policy, because it can give access to the whole machine.
    """
    given = None if before is None else before.allowance
    return caller.role is Role.ADMIN or (caller.reaches_all and account.allowance == given)


def with_account(directory: Directory, account: Account) -> Directory:
    """Add or replace an account. Raises Invalid for a circle, and NotFound if its parent does not exist."""
    if account.name == ROOT and account.parent is not None:
        raise Invalid("the account root is above all others: it has no parent")
    if account.parent is not None:
        if account.parent in directory.below(account.name):
            raise Invalid(f"account {account.parent} is below {account.name}, and cannot be above it")
        require_accounts(directory, [account.parent])
    return replace(directory, accounts={**directory.accounts, account.name: account})


def without_account(directory: Directory, name: AccountName) -> Directory:
    """Remove an account. Raises Invalid if it is the root or not empty, and NotFound if it does not exist.

    Its jobs keep its name, which then counts as an account directly below the root without users.
    """
    if name == ROOT:
        raise Invalid("the account root is above all others, and stays")
    require_accounts(directory, [name])
    inside = [
        *(f"account {account.name}" for account in directory.accounts.values() if account.parent == name),
        *(f"user {user.name}" for user in directory.users.values() if user.account == name or name in user.coordinates),
    ]
    if inside:
        raise Invalid(f"account {name} is not empty: {', '.join(sorted(inside)[:10])}")
    return replace(
        directory,
        accounts={key: account for key, account in directory.accounts.items() if key != name},
    )


def with_user(directory: Directory, user: User) -> Directory:
    """Add or replace a user. Raises Invalid without an admin, and NotFound if one of its accounts does not exist."""
    require_accounts(directory, [user.account, *sorted(user.coordinates)])
    return _with_an_admin(
        replace(
            directory, users={**directory.users, user.name: user}, deleted_users=directory.deleted_users - {user.name}
        )
    )


def without_user(directory: Directory, name: UserName) -> Directory:
    """Remove a user, and add the name to `deleted_users`.

    Raises Invalid for the last admin, and NotFound for an unknown user.
    """
    require_user(directory, name)
    left = {key: user for key, user in directory.users.items() if key != name}
    return _with_an_admin(replace(directory, users=left, deleted_users=directory.deleted_users | {name}))


def require_user(directory: Directory, name: UserName) -> User:
    """The user. Raises NotFound if there is none of this name."""
    if name not in directory.users:
        raise NotFound(f"there is no user {name}")
    return directory.users[name]


def require_accounts(directory: Directory, names: Iterable[AccountName]) -> None:
    """Raises NotFound if one of these accounts does not exist."""
    for name in names:
        if directory.account(name) is None:
            raise NotFound(f"there is no account {name}")


def _with_an_admin(directory: Directory) -> Directory:
    """Raises Invalid without an admin: only commands on the files could change such a directory."""
    if not any(user.role is Role.ADMIN for user in directory.users.values()):
        raise Invalid("one user at least must be an ADMIN")
    return directory
