"""What somebody has done here, as it is kept for those who ask who it was. Pure; no secrets and no bodies."""

from dataclasses import dataclass
from datetime import datetime

from batchq.domain.people import AccountName, Caller, Reach, UserName
from batchq.domain.replacing import quick

DONE, FAILED = "done", "failed"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One change that was asked for. `about` is what was changed, as `job/ID` or `user/NAME`.

    `key` and `request_id` are empty where nobody is asked who he is, or a command changed the files itself.
    """

    at: datetime
    user: UserName
    account: AccountName
    key: str = ""
    request_id: str = ""
    operation: str
    about: str
    outcome: str = DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An act that waits to be taken over, with a mark that no other has: taken over twice, it is one."""

    mark: str
    act: Act


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An act with the number that it has in its store."""

    number: int
    act: Act


@dataclass(frozen=True, slots=True, kw_only=True)
class ActQuery:
    """Acts, newest first, those of a moment by their numbers; from the first beyond `before`. None is any.

    `reach`: whose acts are told at all.
    """

    since: datetime | None = None
    user: UserName | None = None
    operation: str | None = None
    about: str | None = None
    reach: Reach | None = None
    before: tuple[datetime, int] | None = None
    limit: int


def act(by: Caller, *, at: datetime, about: str, outcome: str = DONE) -> Act:
    """What somebody does by the request that he makes."""
    return Act(
        at=at,
        user=by.user,
        account=by.account,
        key=by.key,
        request_id=by.request_id,
        operation=by.operation,
        about=about,
        outcome=outcome,
    )
