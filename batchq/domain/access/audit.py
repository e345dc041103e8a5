"""Audit records: which user requested which change. Pure. They contain no secrets and no request bodies."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Caller, Owner, UserName, Visibility
from batchq.domain.ids import JobId

#: Outcomes of a change that is not about a job; for a job it is the job's status, or that of a bulk stop.
DONE, FAILED = "done", "failed"
#: Stored if the owner of the job is the acting user, or in the acting user's account.
OWN_USER, OWN_ACCOUNT = UserName(""), AccountName("")


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One requested change, as it is recorded for the audit."""

    at: datetime
    #: The user who requested it.
    user: UserName
    #: The account of that user.
    account: AccountName
    #: The id of the access key; empty if requests are not signed, or a command changed the files itself.
    key: str = ""
    #: Empty if a command changed the files itself.
    request_id: str = ""
    #: As `SubmitJob`.
    operation: str
    #: The resource that was changed, as `job/ID` or `user/NAME`.
    resource: str
    #: `done`, or why it was not.
    outcome: str = DONE
    #: The owner of the job it is about; empty if the owner is the acting user.
    owner: UserName = OWN_USER
    #: The account of that owner; empty if it is the account of the acting user.
    owner_account: AccountName = OWN_ACCOUNT

    def about_job(self, job_id: JobId, owner: Owner, outcome: str) -> "AuditRecord":
        """The same change as a record about a job."""
        user = OWN_USER if owner.user == self.user else owner.user
        account = OWN_ACCOUNT if owner.account == self.account else owner.account
        return replace(self, resource=f"job/{job_id}", outcome=outcome, owner=user, owner_account=account)


class PendingAudit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An audit record in the journal, not yet in the database."""

    #: Unique, so that a record that is transferred twice is stored once.
    entry_id: str
    record: AuditRecord


class StoredAudit(Struct, frozen=True, kw_only=True):
    """An audit record as it is stored."""

    #: Ascending in the order of insertion.
    number: int
    record: AuditRecord


class AuditQuery(Struct, frozen=True, kw_only=True):
    """A query for audit records, newest first; records with the same time by number. None: no restriction."""

    #: Records of this time and later.
    since: datetime | None = None
    #: Records of this acting user.
    user: UserName | None = None
    operation: str | None = None
    #: Records about this resource.
    resource: str | None = None
    #: Records of changes by these users and accounts, or about their jobs.
    visibility: Visibility | None = None
    #: The time and number of the last record of the page before: the result begins after it.
    before: tuple[datetime, int] | None = None
    #: The most records to return.
    limit: int


def record_of(caller: Caller, *, at: datetime, resource: str, outcome: str = DONE) -> AuditRecord:
    """The audit record of a caller's request. `resource`: as `job/ID`."""
    return AuditRecord(
        at=at,
        user=caller.user,
        account=caller.account,
        key=caller.key,
        request_id=caller.request_id,
        operation=caller.operation,
        resource=resource,
        outcome=outcome,
    )


def audit_record_of_change(resource: str, caller: Caller | None) -> AuditRecord | None:
    """The audit record of one change; None for a change by the server itself (`caller` None)."""
    return None if caller is None else record_of(caller, at=caller.requested_at, resource=resource)


class AuditTrail(Struct, kw_only=True):
    """The audit records of one unit of work, and the user who requests its changes."""

    now: datetime
    records: list[AuditRecord] = field(default_factory=list)
    #: Who requests the present changes; None: the server itself makes them, and they are not recorded.
    caller: Caller | None = None

    def set_caller(self, caller: Caller | None) -> None:
        """Set `caller` for the next changes."""
        self.caller = caller

    @contextmanager
    def as_server(self) -> Iterator[None]:
        """The server itself makes the changes within the context."""
        before, self.caller = self.caller, None
        try:
            yield
        finally:
            self.caller = before

    def record(self, resource: str, outcome: str = DONE) -> AuditRecord | None:
        """Record a change of a resource, and return the record; None: the server itself makes the change."""
        if self.caller is None:
            return None
        record = record_of(self.caller, at=self.now, resource=resource, outcome=outcome)
        self.records.append(record)
        return record

    def record_job(self, job_id: JobId, owner: Owner, outcome: str) -> None:
        """Record a change of a job."""
        if self.caller is not None:
            record = record_of(self.caller, at=self.now, resource="")
            self.records.append(record.about_job(job_id, owner, outcome))

    def add(self, record: AuditRecord) -> None:
        """Add a record of a change that another user requested earlier, or that a budget made."""
        self.records.append(record)
