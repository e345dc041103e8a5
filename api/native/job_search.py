"""SearchJobs: `POST /v1/batchq/listjobs` lists jobs of all queues and statuses, newest first, a page at a time.

All given filters must match; the values of one filter are alternatives. Without a filter all jobs match that the caller
may see. The work for a page is bounded: a page may have fewer jobs than `maxResults`, or none, although more jobs
match. Then `complete` is false, `searchedBackTo` is how far the search has come, and `nextToken` continues it.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.auth.authentication import parse_credential
from batchq.api.http.http import Milliseconds, RequestBody, Word, Words
from batchq.api.http.page_tokens import PageTokens, TokenQuery, parse_position, position_text
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import hold_answer, stop_order_answer
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import Status
from batchq.domain.explanation.explanation import Explanation, Fact
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import is_stopped_by_user, latest_order
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.errors import Invalid
from batchq.ports.job_search import JobPage, JobSearchQuery, SearchOrder
from batchq.ports.responses.jobs import ExplanationResponse, JobRow, SearchResponse
from batchq.services.explanations import MAX_EXPLAINED
from batchq.services.job_views import JobView


class JobArns(Struct, frozen=True, kw_only=True):
    """Formats the ARNs of jobs for one caller."""

    #: The account id of the server.
    account: str
    #: The region of the caller's credential, or the server's.
    region: str

    def job(self, job_id: JobId) -> str:
        return f"arn:aws:batch:{self.region}:{self.account}:job/{job_id}"


def arns_of(request: web.Request, parts: Parts) -> JobArns:
    credential = parse_credential(request.headers.get("Authorization", ""))
    return JobArns(account=parts.account, region=credential.region or parts.region)


def job_row(view: JobView, arns: JobArns) -> JobRow:
    return JobRow(**row_members(view, arns), why=None if view.why is None else explanation_answer(view.why))


def row_members(view: JobView, arns: JobArns) -> dict[str, Any]:
    """The members of a JobRow without the explanation."""
    job = view.job
    spec, run, order = job.spec, job.latest_attempt, latest_order(job)
    return {
        "job_id": job.id,
        "job_arn": arns.job(job.id),
        "job_name": spec.name,
        "job_queue": spec.queue,
        "job_definition": str(spec.definition),
        "status": job.status,
        "status_reason": shown_status_reason(job),
        "user": spec.owner.user,
        "account": spec.owner.account,
        "share_identifier": spec.share_identifier,
        "priority": spec.scheduling_priority,
        "created_at": milliseconds(job.created_at),
        "runnable_at": optional_milliseconds(job.runnable_at),
        "started_at": optional_milliseconds(job.started_at),
        "stopped_at": optional_milliseconds(job.stopped_at),
        "attempt": len(job.attempts) + (job.attempt is not None),
        "max_attempts": job.max_attempts,
        "exit_code": None if run is None else run.exit_code,
        "array_index": None if job.child is None else job.child.index,
        "parent_id": None if job.child is None else job.child.parent,
        **_array_members(job),
        "nodes": None if spec.nodes is None else spec.nodes.count,
        "hold": hold_answer(job.hold),
        "stop_order": None if order is None else stop_order_answer(order),
        "stopped_by_user": is_stopped_by_user(job),
        "resubmitted_as": view.rerun,
    }


def _array_members(job: Job) -> dict[str, Any]:
    if not is_parent(job):
        return {}
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    return {"array_size": job.spec.array_size, "status_summary": {status: counts.get(status, 0) for status in Status}}


def explanation_answer(explanation: Explanation) -> ExplanationResponse:
    """An explanation as a member of an answer."""
    facts = {name: _fact(value) for name, value in explanation.facts.items()}
    return ExplanationResponse(
        code=explanation.code,
        sentence=explanation.sentence,
        since=optional_milliseconds(explanation.since),
        facts=facts,
    )


def _fact(value: Fact) -> object:
    match value:
        case datetime():
            return milliseconds(value)
        case tuple():
            return [_fact(item) for item in value]
        case Mapping():
            return {name: _fact(other_value) for name, other_value in value.items()}
        case _:
            return value


MAX_PATTERNS = 20  # names or definitions: each is compared with every row of the search
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[0-9]{1,5})?")
_ID_PREFIX = re.compile(r"[0-9a-f-]{8,36}(?::[0-9]{0,5})?")
_ARN = re.compile(
    r"arn:aws[a-z-]*:batch:[a-z0-9-]*:\d*:(?:job-queue|job-definition|job|compute-environment)/(?P<name>[^/]+)"
)

ExitCode = Annotated[int, Field(ge=0, lt=2**32)]
Patterns = Annotated[list[Word], Field(min_length=1, max_length=MAX_PATTERNS)]


class SearchJobsRequest(RequestBody):
    """Filters of jobs; None: not given."""

    #: Names or ARNs of job queues.
    queues: Words | None = None
    #: AWS's statuses, in any case.
    statuses: Words | None = None
    #: Job names in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    names: Patterns | None = None
    #: The first 8 or more characters of a job's id.
    id_prefix: Word | None = None
    #: Ids or ARNs of jobs and of children of arrays.
    ids: Words | None = None
    #: Names of the users that own the jobs.
    users: Words | None = None
    #: Accounts that own the jobs, with all accounts below them.
    accounts: Words | None = None
    #: Only jobs of the caller.
    mine: bool = False
    #: Names, `prefix*`, `name:revision` or ARNs of job definitions.
    job_definitions: Patterns | None = None
    share_identifiers: Words | None = None
    #: Milliseconds since the epoch, exclusive, as are the other times.
    created_after: Milliseconds | None = None
    created_before: Milliseconds | None = None
    #: With `endedAfter` or `endedBefore` only finished jobs match.
    ended_after: Milliseconds | None = None
    ended_before: Milliseconds | None = None
    #: Names or ARNs of compute environments: only jobs that run on them now.
    compute_environments: Words | None = None
    #: Exit codes of the latest attempt.
    exit_codes: Annotated[list[ExitCode], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    #: Only queued jobs that are held or paused.
    held: bool = False
    #: Whether children of arrays are rows of their own; else an array is one row.
    children: bool = False
    #: The id of an array: its children are listed, without the array.
    parent_id: Word | None = None
    #: `ENDED`: finished jobs, the last ended first.
    order_by: str = SearchOrder.CREATED.value
    max_results: Annotated[int, Field(ge=1, le=1000)] = 50
    next_token: str | None = None
    #: Whether each row has the member `why`, as ExplainJob replies. Such a page has at most 100 jobs.
    explain: bool = False


operations = OperationTable()


@operations.add("SearchJobs", "POST", "/v1/batchq/listjobs", Permission.SELF, limit=BULK_LIMIT)
async def search_jobs(context: Parts, call: Call[SearchJobsRequest]) -> SearchResponse:
    """Lists jobs of all queues and statuses, newest first.

    All given filters must match; the values of one filter are alternatives. The work for a page is bounded: it may have
    fewer jobs than `maxResults`, or none, although more jobs match. Then `complete` is false, `searchedBackTo` is how
    far the search has come, and `nextToken` continues it.
    """
    body, caller = call.input, call.caller
    query, token = job_search_query(body, caller), _token_query(body, caller)
    if body.next_token:
        query = replace(query, before=parse_position(context.tokens.read(token, body.next_token)))
    page = await context.search.search(query, caller=caller)
    views = await context.views.listed(page.jobs, explained=body.explain, caller=caller)
    arns = arns_of(call.http, context)
    rows = tuple(job_row(view, arns) for view in views)
    return _answer(rows, page, token, context.tokens)


def job_search_query(body: SearchJobsRequest, caller: Caller) -> JobSearchQuery:
    """The query of the first page. Raises Invalid for a malformed id, status or order."""
    order_by = _order(body)
    users = optional_set(body.users)
    if body.mine:
        users = frozenset({caller.user}) if users is None else users & {caller.user}
    if body.id_prefix is not None and _ID_PREFIX.fullmatch(body.id_prefix.lower()) is None:
        raise Invalid("'idPrefix' must have at least the first 8 characters of the id of a job.")
    return JobSearchQuery(
        queues=_names(body.queues),
        statuses=None if body.statuses is None else frozenset(map(parse_status, body.statuses)),
        names=optional_set(body.names),
        definitions=_names(body.job_definitions),
        shares=optional_set(body.share_identifiers),
        users=users,
        accounts=optional_set(body.accounts),
        ids=None if body.ids is None else frozenset(map(parse_job_id, body.ids)),
        id_prefix=body.id_prefix and body.id_prefix.lower(),
        parent=None if body.parent_id is None else parse_job_id(body.parent_id),
        created_after=body.created_after,
        created_before=body.created_before,
        ended_after=body.ended_after,
        ended_before=body.ended_before,
        environments=_names(body.compute_environments),
        exit_codes=None if body.exit_codes is None else frozenset(body.exit_codes),
        held=body.held,
        children=body.children,
        order_by=order_by,
        limit=min(body.max_results, MAX_EXPLAINED) if body.explain else body.max_results,
    )


def _order(body: SearchJobsRequest) -> SearchOrder:
    if body.order_by not in set(SearchOrder):
        raise Invalid(f"'orderBy' must be one of {', '.join(SearchOrder)}.")
    order_by = SearchOrder(body.order_by)
    is_small = body.parent_id is not None or body.ids is not None or body.id_prefix is not None
    if order_by is SearchOrder.ENDED and body.children and not is_small:
        raise Invalid("'children' with 'orderBy' ENDED needs 'parentId', 'ids' or 'idPrefix'.")
    return order_by


def _token_query(body: SearchJobsRequest, caller: Caller) -> TokenQuery:
    """Page tokens are bound to the caller and to everything that selects jobs."""
    selection = body.model_dump(exclude={"max_results", "next_token", "explain"}, exclude_none=True)
    return "SearchJobs", caller.user, *(f"{name}={value!r}" for name, value in sorted(selection.items()))


def _answer(rows: tuple[JobRow, ...], page: JobPage, token: TokenQuery, tokens: PageTokens) -> SearchResponse:
    return SearchResponse(
        jobs=rows,
        next_token=None if page.next is None else tokens.make(token, position_text(page.next)),
        searched_back_to=optional_milliseconds(page.searched_back_to),
        complete=page.next is None,
    )


def parse_status(text: str) -> Status:
    """A status of AWS in any case. Raises Invalid."""
    if text.upper() not in set(Status):
        raise Invalid(f"{text[:100]!r} is not a status: use {', '.join(Status)}.")
    return Status(text.upper())


def parse_job_id(text: str) -> JobId:
    """The id of a job or child, or the one in its ARN. Raises Invalid."""
    job_id = bare_name(text).lower()
    if _ID.fullmatch(job_id) is None:
        raise Invalid(f"{text[:100]!r} is not the id of a job or of a child of an array.")
    return JobId(job_id)


def bare_name(text: str) -> str:
    """A name, or the name in an ARN."""
    found = _ARN.fullmatch(text)
    return text if found is None else found["name"]


def _names(words: Iterable[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(map(bare_name, words))


def optional_set(words: Iterable[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(words)
