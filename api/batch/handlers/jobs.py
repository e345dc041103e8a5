"""Jobs: submit, describe, list, cancel, terminate."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from batchq.api.batch.arns import ArnKind, is_job_id
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import describe_jobs, list_jobs, submit_job, validation
from batchq.api.batch.translate.job_summary import job_summary
from batchq.api.batch.wire import jobs as wire
from batchq.api.operations import takes
from batchq.api.page_tokens import TokenQuery
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobDefinition
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Job
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.ports.jobs import ChildQuery


class Order(Protocol):
    """`JobService.cancel` or `JobService.terminate`."""

    def __call__(self, job_id: JobId, reason: str, *, caller: Caller) -> Awaitable[None]: ...


class OrderMany(Protocol):
    """`JobService.cancel_many` or `terminate_many`: returns the jobs for which it failed, and why."""

    def __call__(
        self, ids: Sequence[JobId], reason: str, *, caller: Caller
    ) -> Awaitable[Mapping[JobId, BatchqError]]: ...


MOST_DESCRIBED = 100
TOO_MANY = f"Maximum number of jobs supported is  {MOST_DESCRIBED} ."  # AWS: exactly these spaces


@takes(wire.SubmitJob, check=submit_job.check_size)
async def submit(desk: BatchContext, call: BatchRequest, given: wire.SubmitJob) -> Answer:
    definition = await _definition(desk, given.jobDefinition, call)
    job = await desk.jobs.submit(
        submit_job.submission(given, definition, arns=call.arns, rules=desk.rules, key=call.key), caller=call.caller
    )
    return {"jobArn": call.arns.job(job.id), "jobName": job.spec.name, "jobId": job.id}


@takes(wire.DescribeJobs)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeJobs) -> Answer:
    if len(given.jobs) > MOST_DESCRIBED:
        raise Invalid(TOO_MANY)
    named = map(_checked, (call.arns.listed(ArnKind.JOB, text) for text in given.jobs))
    found = await desk.jobs.describe([it for it in named if it is not None], caller=call.caller)
    return {"jobs": [describe_jobs.job_detail(job, definition, call.arns) for job, definition in found]}


@takes(wire.ListJobs)
async def list_(desk: BatchContext, call: BatchRequest, given: wire.ListJobs) -> Answer:
    """AWS: the jobs of a queue, the children of an array, or the nodes of a multi-node job."""
    list_jobs.check_selector(given)
    if given.multiNodeJobId:
        return await _list_nodes(desk, given, call)
    asked = list_jobs.children(given, call.arns) if given.arrayJobId else list_jobs.query(given, call.arns)
    token = list_jobs.token_query(asked)
    if given.nextToken:
        asked = replace(asked, before=int(desk.tokens.read(token, given.nextToken)))
    wider = replace(asked, limit=asked.limit + 1)
    if isinstance(wider, ChildQuery):
        found = await desk.jobs.list_children(wider, caller=call.caller)
    else:
        found = await desk.jobs.list(wider, caller=call.caller)
    page = found[: asked.limit]
    return _page(desk, call, page, token=token, on=page[-1].order if len(found) > len(page) else None)


async def _list_nodes(desk: BatchContext, given: wire.ListJobs, call: BatchRequest) -> Answer:
    job_id, status = list_jobs.job_named(given.multiNodeJobId or "", call.arns), list_jobs.status(given)
    token = ("ListJobs", "nodes", job_id, status)
    after = int(desk.tokens.read(token, given.nextToken)) if given.nextToken else -1
    nodes = [
        it
        for it in await desk.jobs.list_nodes(job_id, caller=call.caller)
        if it.status is status and _number(it) > after
    ]
    page = nodes[: list_jobs.limit(given)]
    return _page(desk, call, page, token=token, on=_number(page[-1]) if len(nodes) > len(page) else None)


def _number(node: Job) -> int:
    return node_of(node.id)[1] or 0


def _page(desk: BatchContext, call: BatchRequest, page: Sequence[Job], *, token: TokenQuery, on: int | None) -> Answer:
    answer: Answer = {"jobSummaryList": [job_summary(job, call.arns) for job in page]}
    return answer if on is None else answer | {"nextToken": desk.tokens.make(token, str(on))}


@takes(wire.StopJob)
async def cancel(desk: BatchContext, call: BatchRequest, given: wire.StopJob) -> Answer:
    return await _stop(desk.jobs.cancel, call, given)


@takes(wire.StopJob)
async def terminate(desk: BatchContext, call: BatchRequest, given: wire.StopJob) -> Answer:
    return await _stop(desk.jobs.terminate, call, given)


@takes(wire.StopJobs)
async def cancel_many(desk: BatchContext, call: BatchRequest, given: wire.StopJobs) -> Answer:
    return await _stop_many(desk.jobs.cancel_many, call, given)


@takes(wire.StopJobs)
async def terminate_many(desk: BatchContext, call: BatchRequest, given: wire.StopJobs) -> Answer:
    return await _stop_many(desk.jobs.terminate_many, call, given)


async def _definition(desk: BatchContext, text: str, call: BatchRequest) -> JobDefinition:
    name, revision = submit_job.definition_of(text, call.arns)
    try:
        return await desk.catalog.definitions.find(name, revision, caller=call.caller)
    except NotFound:
        raise submit_job.unknown_definition(text) from None


def _job(text: str, call: BatchRequest) -> JobId | None:
    """The id in an id or ARN of a job; None if it does not have the format of one.

    Raises Invalid for an ARN of another account.
    """
    return _checked(call.arns.named(ArnKind.JOB, text))


def _checked(name: str | None) -> JobId | None:
    return JobId(name) if name is not None and is_job_id(name) else None


async def _stop(order: Order, call: BatchRequest, given: wire.StopJob) -> Answer:
    """AWS: neither an unknown id nor a malformed one is an error."""
    reason = validation.reason(given.reason)
    job_id = _job(validation.required(given.jobId, "jobId"), call)
    if job_id is not None:
        await order(job_id, reason, caller=call.caller)
    return {}


async def _stop_many(order: OrderMany, call: BatchRequest, given: wire.StopJobs) -> Answer:
    reason = validation.reason(given.reason)
    errors: dict[str, dict[str, str]] = {}
    named: dict[str, JobId | None] = {}
    for text in given.jobs:
        try:
            named[text] = _job(text, call)
        except Invalid as why:
            errors[text] = {"code": "ClientException", "message": str(why)}
    refused = await order([it for it in named.values() if it is not None], reason, caller=call.caller)
    errors |= {text: error for text, job_id in named.items() if (error := _error(job_id, refused)) is not None}
    return {
        "successful": [text for text in given.jobs if text not in errors],
        "errors": [{"job": text, **errors[text]} for text in given.jobs if text in errors],
    }


def _error(job_id: JobId | None, refused: Mapping[JobId, BatchqError]) -> dict[str, str] | None:
    """The error of one job; None if the order was accepted. AWS: here a malformed id is an error, of this job only."""
    if job_id is None:
        return {"code": "ValidationException", "message": "The job id is malformed."}
    match refused.get(job_id):
        case None:
            return None
        case Invalid() as why:
            return {"code": "ClientException", "message": str(why)}
        case Unavailable() as why:
            return {"code": "ServerException", "message": str(why)}
        case why:
            raise why
