"""SearchJobs: `POST /v1/batchq/listjobs` lists jobs of all queues and statuses, newest first, a page at a time.

All given filters must match; the values of one filter are alternatives. Without a filter all jobs match that the caller
may see. The work for a page is bounded: a page may have fewer jobs than `maxResults`, or none, although more jobs
match. Then `complete` is false, `searchedBackTo` is how far the search has come, and `nextToken` continues it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.http.page_tokens import SearchToken, selection_text
from batchq.api.native.job_selection import SelectionBody, parse_job_id
from batchq.api.operations.job_pages import in_slices
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import hold_answer, stop_order_answer, use_answer
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import Status
from batchq.domain.explanation.explanation import Explanation, Fact
from batchq.domain.ids import JobId
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import is_stopped_by_user, latest_order
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.task import DefinitionForm
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.errors import Invalid
from batchq.ports.job_search import PageQuery, SearchOrder
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
    return JobArns(account=parts.account, region=parts.region_of(request))


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
        "vcpus": spec.resources.millicpus / 1000,
        "memory_mib": spec.resources.memory_mib,
        "use": None if run is None else use_answer(run.use),
        "array_index": None if job.child is None else job.child.index,
        "parent_id": None if job.child is None else job.child.parent,
        **_array_members(job),
        **_group_members(spec),
        "nodes": spec.nodes.count if spec.nodes.form is DefinitionForm.NODES else None,
        "hold": hold_answer(job.hold),
        "stop_order": None if order is None else stop_order_answer(order),
        "stopped_by_user": is_stopped_by_user(job),
        "resubmitted_as": view.rerun,
    }


def _array_members(job: Job) -> dict[str, Any]:
    if not is_parent(job):
        return {}
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    return {
        "array_size": job.spec.array_size,
        "status_summary": {status: counts.get(status, 0) for status in Status},
        "stopped_children": 0 if job.array_state is None else job.array_state.stopped,
    }


def _group_members(spec: JobSpec) -> dict[str, object]:
    """The group of a job, and its parameters: a job of no group has no values of a sweep."""
    if spec.group is None:
        return {}
    return {"group_id": spec.group.id, "group_name": spec.group.name, "parameters": dict(spec.parameters)}


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
            return {name: _fact(member) for name, member in value.items()}
        case _:
            return value


class SearchJobsRequest(SelectionBody):
    """The jobs to list."""

    #: `ENDED`: finished jobs, the last ended first.
    order_by: str = SearchOrder.CREATED.value
    max_results: Annotated[int, Field(ge=1, le=1000)] = 50
    next_token: str | None = None
    #: Whether each row has the member `why`, as ExplainJob replies. Such a page has at most 100 jobs.
    explain: bool = False


operations = OperationTable()


@operations.add("SearchJobs", "POST", "/v1/batchq/listjobs", Permission.SELF, limit=BULK_LIMIT)
async def search_jobs(parts: Parts, call: Call[SearchJobsRequest]) -> SearchResponse:
    """Lists jobs of all queues and statuses, newest first.

    All given filters must match; the values of one filter are alternatives. The work for a page is bounded: it may have
    fewer jobs than `maxResults`, or none, although more jobs match. Then `complete` is false, `searchedBackTo` is how
    far the search has come, and `nextToken` continues it.
    """
    body, caller = call.input, call.caller
    query = page_query(body, caller)
    searched = "SearchJobs", caller.user, query.order_by.value, selection_text(query.selection)
    token = SearchToken(parts.tokens, searched)
    query = replace(query, before=token.read(body.next_token or None))
    page = await parts.search.search(query, caller=caller)
    views = await parts.views.listed(page.jobs, explained=body.explain, caller=caller)
    arns = arns_of(call.http, parts)
    return SearchResponse(
        jobs=tuple([job_row(view, arns) async for view in in_slices(views)]),
        next_token=token.make(page.next),
        searched_back_to=optional_milliseconds(page.searched_back_to),
        complete=page.next is None,
    )


def page_query(body: SearchJobsRequest, caller: Caller) -> PageQuery:
    """The query of the first page. Raises Invalid for a malformed id, status or order."""
    selection = body.selection(caller)
    if selection.ids is not None:
        selection = replace(selection, ids=tuple(map(parse_job_id, selection.ids)))
    limit = min(body.max_results, MAX_EXPLAINED) if body.explain else body.max_results
    return PageQuery(selection=selection, order_by=_order(body), limit=limit)


def _order(body: SearchJobsRequest) -> SearchOrder:
    if body.order_by not in set(SearchOrder):
        raise Invalid(f"'orderBy' must be one of {', '.join(SearchOrder)}.")
    order_by = SearchOrder(body.order_by)
    is_small = body.parent_id is not None or body.jobs is not None or body.id_prefix is not None
    if order_by is SearchOrder.ENDED and body.children and not is_small:
        raise Invalid("'children' with 'orderBy' ENDED needs 'parentId', 'jobs' or 'idPrefix'.")
    return order_by
