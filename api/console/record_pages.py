"""The pages of records: the status changes of jobs, as they happen, and the audit log of requested changes."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.job_filters import milliseconds_at
from batchq.api.console.job_words import entry_words
from batchq.api.console.pages import Page, PageTable
from batchq.api.console.runs_of_rows import audit_rows, event_rows, order_reason
from batchq.api.http.http import Word
from batchq.api.http.page_tokens import TokenQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission, UserName
from batchq.domain.access.audit import AuditQuery
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, QueueName
from batchq.domain.times import EPOCH
from batchq.ports.history import FeedFilter
from batchq.services.records import audit_position, parse_audit_position

PER_PAGE = 100

pages = PageTable()


class EventsQuery(BaseModel):
    """The filters of the events. The values of one filter are alternatives; an event must match all filters."""

    model_config = ConfigDict(frozen=True)

    queue: Annotated[tuple[Word, ...], Field(max_length=100)] = ()
    state: Annotated[tuple[Status, ...], Field(max_length=len(Status))] = ()
    #: Ids; that of an array selects its children too.
    job: Annotated[tuple[Word, ...], Field(max_length=100)] = ()
    #: Only events with a smaller number.
    before: Annotated[int, Field(ge=1, lt=2**53)] | None = None

    def filters(self) -> list[tuple[str, str]]:
        """The filters that are given, as in the query."""
        return [
            *(("queue", text) for text in self.queue),
            *(("state", status.value) for status in self.state),
            *(("job", text) for text in self.job),
        ]


@pages.get("/events", Permission.SELF)
async def events_page(parts: Parts, visit: Call[EventsQuery]) -> Page:
    """The newest events of jobs that the caller may see."""
    query, caller = visit.input, visit.caller
    wanted = FeedFilter(
        jobs=frozenset(map(JobId, query.job)),
        queues=frozenset(map(QueueName, query.queue)),
        statuses=frozenset(query.state),
    )
    found, older = await parts.events.newest(wanted, before=query.before, limit=PER_PAGE, caller=caller)
    filters = query.filters()
    values = {
        "query": query,
        "filters": filters,
        "events": event_rows(found),
        "words": entry_words,
        "queues": sorted(parts.catalog.queues_of(caller)),
        "statuses": list(Status),
        "older": None if older is None else f"/ui/events?{urlencode([*filters, ('before', older)])}",
        "newest": "/ui/events" + (f"?{urlencode(filters)}" if filters else ""),
    }
    return Page(template="events.html", title="Events", values=values)


class AuditPageQuery(BaseModel):
    """The filters of the audit log; a record must match all."""

    model_config = ConfigDict(frozen=True)

    #: The id of a job.
    job: Word | None = None
    #: The user who made the request.
    user: Word | None = None
    #: As `SubmitJob`.
    operation: Word | None = None
    #: A duration before now, as `24h`, or an ISO 8601 time.
    since: Word | None = None
    #: A page token; absent: the newest records.
    page: Annotated[str, Field(max_length=1024)] | None = None

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are given."""
        given = {"job": self.job, "user": self.user, "operation": self.operation, "since": self.since}
        return {name: value for name, value in given.items() if value is not None}


@pages.get("/audit", Permission.SELF)
async def audit_page(parts: Parts, visit: Call[AuditPageQuery]) -> Page:
    """The records that the caller may see, newest first."""
    query = visit.input
    since = milliseconds_at("since", query.since, parts.clock.now())
    token_query: TokenQuery = ("audit page", *query.filters.items())
    wanted = AuditQuery(
        since=None if since is None else EPOCH + timedelta(milliseconds=since),
        user=None if query.user is None else UserName(query.user),
        operation=query.operation,
        before=None if query.page is None else parse_audit_position(parts.tokens.read(token_query, query.page)),
        limit=PER_PAGE,
    )
    job = None if query.job is None else JobId(query.job)
    found = await parts.audit.records(wanted, job=job, caller=visit.caller)
    older = parts.tokens.make(token_query, audit_position(found[-1])) if len(found) == PER_PAGE else None
    rows = audit_rows(audit_record.record for audit_record in found)
    ids = list(dict.fromkeys(job_id for row in rows for job_id in row.jobs))
    jobs = {each.id: each for each in await parts.jobs.describe(ids, caller=visit.caller)}
    values = {
        "query": query,
        "rows": rows,
        "jobs": jobs,
        "reason": lambda row: order_reason(row.record, jobs.get(row.jobs[0])) if len(row.jobs) == 1 else "",
        "older": None if older is None else f"/ui/audit?{urlencode(query.filters | {'page': older})}",
        "newest": f"/ui/audit?{urlencode(query.filters)}",
    }
    return Page(template="audit.html", title="Audit", values=values)
