"""The page of the audit log: which user requested which change."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_filter import milliseconds_at
from batchq.api.console.pages import Page, PageTable, Visit
from batchq.api.page_tokens import TokenQuery
from batchq.domain.access.accounts import UserName
from batchq.domain.access.audit import AuditQuery
from batchq.domain.ids import JobId
from batchq.domain.times import EPOCH
from batchq.services.records import audit_position, parse_audit_position

PER_PAGE = 100
Word = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=256)] | None

pages = PageTable()


class AuditPageQuery(BaseModel):
    """The filters of the audit log; a record must match all."""

    model_config = ConfigDict(frozen=True)

    #: The id of a job.
    job: Word = None
    #: The user who made the request.
    user: Word = None
    #: As `SubmitJob`.
    operation: Word = None
    #: A duration before now, as `24h`, or an ISO 8601 time.
    since: Word = None
    #: A page token; absent: the newest records.
    page: Annotated[str, Field(max_length=1024)] | None = None

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are given."""
        given = {"job": self.job, "user": self.user, "operation": self.operation, "since": self.since}
        return {name: value for name, value in given.items() if value is not None}


@pages.get("/audit")
async def audit_page(context: ConsoleContext, visit: Visit[AuditPageQuery]) -> Page:
    """The records that the caller may see, newest first."""
    query = visit.input
    since = milliseconds_at("since", query.since, context.clock.now())
    token_query: TokenQuery = ("audit page", *query.filters.items())
    wanted = AuditQuery(
        since=None if since is None else EPOCH + timedelta(milliseconds=since),
        user=None if query.user is None else UserName(query.user),
        operation=query.operation,
        before=None if query.page is None else parse_audit_position(context.tokens.read(token_query, query.page)),
        limit=PER_PAGE,
    )
    job = None if query.job is None else JobId(query.job)
    found = await context.audit.records(wanted, job=job, caller=visit.caller)
    older = context.tokens.make(token_query, audit_position(found[-1])) if len(found) == PER_PAGE else None
    values = {
        "query": query,
        "records": [it.record for it in found],
        "older": None if older is None else f"/ui/audit?{urlencode(query.filters | {'page': older})}",
        "newest": f"/ui/audit?{urlencode(query.filters)}",
    }
    return Page(template="audit.html", title="Audit", values=values)
