"""What somebody has done here, as it is kept for those who ask who it was. Pure; no secrets and no bodies."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Caller, Owner, UserName, Visibility
from batchq.domain.ids import JobId

DONE, FAILED = "done", "failed"
OWN_USER, OWN_ACCOUNT = UserName(""), AccountName("")


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    #: The owner of the job that it is about, and the owner's account, empty where they are the acting user's own.
    owner: UserName = OWN_USER
    owner_account: AccountName = OWN_ACCOUNT

    def about_job(self, job_id: JobId, owner: Owner, outcome: str) -> "AuditRecord":
        user = OWN_USER if owner.user == self.user else owner.user
        account = OWN_ACCOUNT if owner.account == self.account else owner.account
        return replace(self, about=f"job/{job_id}", outcome=outcome, owner=user, owner_account=account)


class PendingAudit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An act that waits to be taken over, with a mark that no other has: taken over twice, it is one."""

    mark: str
    act: AuditRecord


class StoredAudit(Struct, frozen=True, kw_only=True):
    """An act with the number that it has in its store."""

    number: int
    act: AuditRecord


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Acts, newest first, those of a moment by their numbers; from the first beyond `before`. None is any.

    `reach`: acts of these users and accounts, and acts about their jobs.
    """

    since: datetime | None = None
    user: UserName | None = None
    operation: str | None = None
    about: str | None = None
    reach: Visibility | None = None
    before: tuple[datetime, int] | None = None
    limit: int


def act(caller: Caller, *, at: datetime, about: str, outcome: str = DONE) -> AuditRecord:
    """What somebody does by the request that he makes."""
    return AuditRecord(
        at=at,
        user=caller.user,
        account=caller.account,
        key=caller.key,
        request_id=caller.request_id,
        operation=caller.operation,
        about=about,
        outcome=outcome,
    )


def act_about(about: str, caller: Caller | None) -> AuditRecord | None:
    """The audit record of one change, None for a change of the server's own."""
    return None if caller is None else act(caller, at=caller.asked_at, about=about)
