"""ListJobs: the jobs of a queue, the children of an array, or the nodes of a gang, a page at a time."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.describe_jobs import job_summary
from batchq.api.batch.validation import KeyValuesPair, Text, WireModel
from batchq.api.http.page_tokens import TokenQuery, selection_text
from batchq.api.operations.parts import Parts
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.times import LATEST
from batchq.errors import Invalid
from batchq.ports.job_search import PageQuery, SearchPosition

MAX_JOBS = 1000  # jobs on a page
MAX_FILTERED_JOBS = 100  # jobs on a page, with a filter
_MILLISECONDS = re.compile(r"[0-9]{1,19}")


class Filter(StrEnum):
    """AWS: the filters of ListJobs. Only SHARE_IDENTIFIER may be combined with a status."""

    #: In any case; a trailing `*` matches any rest.
    JOB_NAME = "JOB_NAME"
    #: In its case: `name` (all revisions), `name*` or `name:revision`.
    JOB_DEFINITION = "JOB_DEFINITION"
    #: Milliseconds since the epoch as text, exclusive.
    BEFORE_CREATED_AT = "BEFORE_CREATED_AT"
    #: Milliseconds since the epoch as text, exclusive.
    AFTER_CREATED_AT = "AFTER_CREATED_AT"
    SHARE_IDENTIFIER = "SHARE_IDENTIFIER"


class ListJobs(WireModel):
    jobQueue: Text | None = None
    arrayJobId: Text | None = None
    multiNodeJobId: Text | None = None
    jobStatus: Text | None = None
    maxResults: Annotated[int, Field(ge=1, le=1000)] | None = None
    nextToken: Text | None = None
    filters: list[KeyValuesPair] | None = None


async def list_jobs(parts: Parts, request: BatchRequest, body: ListJobs) -> Answer:
    """Lists jobs of a queue, children of an array, or nodes of a multi-node job, newest first."""
    check_list_selector(body)
    if body.multiNodeJobId:
        return await _list_nodes(parts, body, request)
    query = children_query(body, request.arns) if body.arrayJobId else queue_query(body, request.arns)
    token = "ListJobs", selection_text(query.selection)
    before = SearchPosition(0, int(parts.tokens.read(token, body.nextToken))) if body.nextToken else None
    found = await parts.jobs.list(replace(query, limit=query.limit + 1, before=before), caller=request.caller)
    page = found[: query.limit]
    return _page(parts, request, page, token=token, on=page[-1].sequence if len(found) > len(page) else None)


async def _list_nodes(parts: Parts, body: ListJobs, request: BatchRequest) -> Answer:
    job_id, status = job_id_in(body.multiNodeJobId or "", request.arns), wanted_status(body)
    token = ("ListJobs", "nodes", job_id, status)
    after = int(parts.tokens.read(token, body.nextToken)) if body.nextToken else -1
    nodes = [
        job
        for job in await parts.jobs.list_nodes(job_id, caller=request.caller)
        if job.status is status and _number(job) > after
    ]
    page = nodes[: page_limit(body)]
    return _page(parts, request, page, token=token, on=_number(page[-1]) if len(nodes) > len(page) else None)


def _number(node: Job) -> int:
    return node_of(node.id)[1] or 0


def _page(parts: Parts, request: BatchRequest, page: Sequence[Job], *, token: TokenQuery, on: int | None) -> Answer:
    answer: Answer = {"jobSummaryList": [job_summary(job, request.arns) for job in page]}
    return answer if on is None else answer | {"nextToken": parts.tokens.make(token, str(on))}


def queue_query(given: ListJobs, arns: BatchArns) -> PageQuery:
    """The query for the first page of a queue's jobs. Raises Invalid, and NotFound.

    AWS: without a filter the default status is RUNNING. A filter selects jobs of every status, whatever jobStatus is;
    only SHARE_IDENTIFIER can be combined with one.
    """
    by, values = _filter(given.filters or [], arns)
    status = wanted_status(given, by)
    selection = JobSelection(
        queues=frozenset({arns.queue_named(given.jobQueue or "")}),
        statuses=None if status is None else frozenset({status}),
    )
    return PageQuery(
        selection=selection if by is None else _filtered(selection, by, values), limit=page_limit(given, by)
    )


def _filtered(selection: JobSelection, by: Filter, values: Sequence[str]) -> JobSelection:
    """The selection with a filter, of whose values a job matches one."""
    match by:
        case Filter.JOB_NAME:  # here only a trailing wildcard has a meaning
            return replace(
                selection, names=frozenset(name for name in values if not name.startswith("*") or name == "*")
            )
        case Filter.JOB_DEFINITION:
            return replace(selection, definitions=frozenset(values))
        case Filter.BEFORE_CREATED_AT:
            return replace(selection, created_before=max(map(_time, values)))
        case Filter.AFTER_CREATED_AT:
            return replace(selection, created_after=min(map(_time, values)))
        case Filter.SHARE_IDENTIFIER:
            return replace(selection, shares=frozenset(values))


def _time(text: str) -> int:
    """Milliseconds, at most the last time that a job can have."""
    return min(int(text), LATEST)


def children_query(given: ListJobs, arns: BatchArns) -> PageQuery:
    """The query for the first page of an array's children. AWS: filters are ignored."""
    status = wanted_status(given)
    selection = JobSelection(
        parent=job_id_in(given.arrayJobId or "", arns), statuses=None if status is None else frozenset({status})
    )
    return PageQuery(selection=selection, limit=page_limit(given))


def job_id_in(text: str, arns: BatchArns) -> JobId:
    """The id in an id or ARN of a job; empty for an ARN of something else, so that the list is empty.

    Raises Invalid for an ARN of another account.
    """
    return JobId(arns.named(ArnKind.JOB, text) or "")


def page_limit(given: ListJobs, by: Filter | None = None) -> int:
    """The number of jobs on a page."""
    maximum = MAX_JOBS if by is None else MAX_FILTERED_JOBS
    return min(given.maxResults or maximum, maximum)


def check_list_selector(given: ListJobs) -> None:
    named = [text for text in (given.jobQueue, given.arrayJobId, given.multiNodeJobId) if text]
    if len(named) != 1:
        raise Invalid("Exactly one of jobQueue, arrayJobId and multiNodeJobId must be specified.")


def wanted_status(given: ListJobs, by: Filter | None = None) -> Status | None:
    """The status to list; None: every status. Raises Invalid."""
    status = validation.job_status(given.jobStatus) if given.jobStatus else None
    if by not in {None, Filter.SHARE_IDENTIFIER}:
        return None
    return Status.RUNNING if status is None and by is None else status


def _filter(given: list[KeyValuesPair], arns: BatchArns) -> tuple[Filter | None, tuple[str, ...]]:
    if not given:
        return None, ()
    if len(given) > 1:
        raise Invalid("Only one filter key-value pair can be specified.")
    by = Filter(validation.filter_name(given[0], tuple(Filter)))
    return by, tuple(_value(by, value, arns) for value in validation.filter_values(given[0]))


def _value(by: Filter, text: str, arns: BatchArns) -> str:
    if by in {Filter.BEFORE_CREATED_AT, Filter.AFTER_CREATED_AT} and not _MILLISECONDS.fullmatch(text):
        raise Invalid(f"The value of the filter {by} must be milliseconds since 1970.")
    if by is not Filter.JOB_DEFINITION:
        return text
    name = arns.named(ArnKind.DEFINITION, text)
    if name is None or (name != text and "*" in name):
        raise Invalid(f"{text} is not the ARN of a job definition.")
    return name
