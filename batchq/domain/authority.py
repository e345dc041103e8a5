"""What somebody may know and do of accounts, users and their keys. Pure.

Whoever has a user's key is that user. So nobody makes a key for somebody who may do more than himself, nor makes
anybody more than he is: operators and admins are the work of admins, coordinators that of operators.
"""

from collections.abc import Collection

from batchq.domain.people import Account, AccountName, Caller, Role, User, UserName


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
