"""What somebody has done here, as it is kept for those who ask who it was. Pure; no secrets and no bodies."""

from dataclasses import dataclass
from datetime import datetime

from batchq.domain.people import AccountName, Caller, Reach, UserName

DONE = "done"


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
class Place:
    """Where an act stands among them all."""

    at: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActQuery:
    """Acts, newest first, from the first beyond `before`; None is any. `reach`: whose are told at all."""

    since: datetime | None = None
    user: UserName | None = None
    operation: str | None = None
    about: str | None = None
    reach: Reach | None = None
    before: Place | None = None
    limit: int


def act(by: Caller, *, at: datetime, about: str, outcome: str = DONE) -> Act:
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
