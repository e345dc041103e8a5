"""ListAudit: the audit records that a caller may see. Decision 0024."""

from datetime import timedelta
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.wire import AuditRecordAnswer, audit_record_answer
from batchq.api.operation_table import Call, OperationTable
from batchq.api.page_tokens import PageTokens, TokenQuery
from batchq.domain.access.accounts import UserName
from batchq.domain.access.audit import AuditQuery
from batchq.domain.ids import JobId
from batchq.domain.times import EPOCH
from batchq.errors import Invalid
from batchq.services.audit_records import AuditRecordService, audit_position, parse_audit_position

LATEST = 253_402_300_799_999  # milliseconds: the last of the year 9999

Word = Annotated[str, Field(min_length=1, max_length=256)]


class ListAuditRequest(BaseModel):
    """Conditions on audit records; None: any."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    #: The earliest time, in milliseconds since 1970.
    since: Annotated[int, Field(ge=0, le=LATEST)] | None = None
    #: The user who made the request.
    user: Word | None = None
    #: As `SubmitJob`.
    operation: Word | None = None
    #: The changed resource, as records name it: `job-queue/NAME` or `job/ID`.
    resource: Word | None = None
    #: The id of a job: short for `job/ID` in `resource`.
    job: Word | None = None
    max_results: Annotated[int, Field(ge=1, le=1000)] = 100
    next_token: str | None = None


class ListAuditAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A page of audit records."""

    #: Newest first.
    records: tuple[AuditRecordAnswer, ...]
    #: The token of the next page; absent on the last one.
    next_token: str | None = None


class AuditContext(Struct, frozen=True, kw_only=True):
    records: AuditRecordService
    tokens: PageTokens


operations = OperationTable[AuditContext]()


@operations.add("ListAudit", "POST", "/v1/batchq/listaudit")
async def list_audit(context: AuditContext, call: Call[ListAuditRequest]) -> ListAuditAnswer:
    """Lists audit records, newest first.

    Operators and admins get all records, coordinators those of their accounts, and users those of their own requests.
    Everyone also gets the records about jobs that the caller may see.
    """
    body = call.input
    job = None if body.job is None else JobId(body.job)
    found = await context.records.records(_query(body, context.tokens), job=job, caller=call.caller)
    token = (
        context.tokens.make(_token_query(body), audit_position(found[-1])) if len(found) == body.max_results else None
    )
    return ListAuditAnswer(records=tuple(audit_record_answer(it.record) for it in found), next_token=token)


def _query(body: ListAuditRequest, tokens: PageTokens) -> AuditQuery:
    if body.job is not None and body.resource is not None:
        raise Invalid("Only one of job and resource can be specified.")
    return AuditQuery(
        since=None if body.since is None else EPOCH + timedelta(milliseconds=body.since),
        user=None if body.user is None else UserName(body.user),
        operation=body.operation,
        resource=body.resource,
        before=parse_audit_position(tokens.read(_token_query(body), body.next_token)) if body.next_token else None,
        limit=body.max_results,
    )


def _token_query(body: ListAuditRequest) -> TokenQuery:
    return "ListAudit", body.since, body.user, body.operation, body.resource, body.job
