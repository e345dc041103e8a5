"""What somebody may know and do of accounts, users and their keys. Pure.

Whoever has a user's key is that user. So nobody makes a key for somebody who may do more than himself, nor makes
anybody more than he is: operators and admins are the work of admins, coordinators that of operators.
"""

from collections.abc import Collection

from batchq.domain.people import Account, AccountName, Caller, Role, User, UserName


def knows_account(by: Caller, name: AccountName) -> bool:
    """One that he does not is to him as if it were not there."""
    return by.reaches_all or name in by.coordinates


def knows_user(by: Caller, user: User) -> bool:
    return by.reaches_all or user.name == by.user or user.account in by.coordinates


def manages(by: Caller, user: User) -> bool:
    """Whether he may change and delete him, and has a say in his keys."""
    if by.role is Role.ADMIN:
        return True
    if user.role is not Role.USER:
        return False
    return by.reaches_all or (user.account in by.coordinates and user.coordinates <= by.coordinates)


def may_make(by: Caller, user: User, before: User | None) -> bool:
    """Whether he may make a user what he shall be; `before` is what he was, None where he is new."""
    if before is not None and not manages(by, before):
        return False
    named = frozenset() if before is None else before.coordinates
    return manages(by, user) and (by.reaches_all or user.coordinates == named)


def may_name(by: Caller, name: UserName, had: Collection[UserName]) -> bool:
    """Whether he may give a name to a new user. Who gets one that somebody `had` reaches what is that one's."""
    return by.reaches_all or name not in had


def may_set(by: Caller, account: Account, before: Account | None) -> bool:
    """What containers may have of the machine is for admins to give: it can be all of it."""
    given = None if before is None else before.allowance
    return by.role is Role.ADMIN or (by.reaches_all and account.allowance == given)
