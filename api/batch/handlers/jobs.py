"""Jobs: submit, describe, list, cancel, terminate."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from api.batch.arns import Kind, is_job_id
from api.batch.desk import Answer, Call, Desk
from api.batch.translate import checks, details, listing, submissions
from api.batch.wire import jobs as wire
from api.http import parse
from batchq.domain.catalog import JobDefinition
from batchq.domain.names import JobId
from batchq.errors import Invalid, NotFound, Unavailable
from batchq.service import Submission

Order = Callable[[JobId, str], Awaitable[None]]

MOST_DESCRIBED = 100
TOO_MANY = f"Maximum number of jobs supported is  {MOST_DESCRIBED} ."  # AWS: two spaces, and one before the dot


async def submit(desk: Desk, call: Call) -> Answer:
    submissions.check_size(call.body)
    given = parse(wire.SubmitJob, call.body)
    submission = submissions.submission(given, arns=call.arns, rules=desk.rules, key=call.key)
    if submissions.asks_for_resources(given) or given.jobDefinition.startswith("arn:"):
        definition = await _definition(desk, given, submission)
        submission = submissions.settle(submission, given, definition)
    job = await desk.jobs.submit(submission)
    return {"jobArn": call.arns.job(job.id), "jobName": job.spec.name, "jobId": job.id}


async def describe(desk: Desk, call: Call) -> Answer:
    given = parse(wire.DescribeJobs, call.body)
    if len(given.jobs) > MOST_DESCRIBED:
        raise Invalid(TOO_MANY)
    found = await desk.jobs.describe([it for text in given.jobs if (it := _job(text, call)) is not None])
    return {"jobs": [details.job_detail(job, definition, call.arns) for job, definition in found]}


async def list_(desk: Desk, call: Call) -> Answer:
    given = parse(wire.ListJobs, call.body)
    query = listing.query(given, call.arns)
    asked = ("ListJobs", query.queue, query.status, query.filter, query.values)
    if given.nextToken:
        query = replace(query, before=int(desk.tokens.read(asked, given.nextToken)))
    jobs = await desk.jobs.list(replace(query, limit=query.limit + 1))
    page = jobs[: query.limit]
    answer: Answer = {"jobSummaryList": [details.job_summary(job, call.arns) for job in page]}
    more = len(jobs) > len(page)
    return answer | ({"nextToken": desk.tokens.make(asked, str(page[-1].order))} if more else {})


async def cancel(desk: Desk, call: Call) -> Answer:
    return await _stop(desk.jobs.cancel, call)


async def terminate(desk: Desk, call: Call) -> Answer:
    return await _stop(desk.jobs.terminate, call)


async def cancel_many(desk: Desk, call: Call) -> Answer:
    return await _stop_many(desk.jobs.cancel, call)


async def terminate_many(desk: Desk, call: Call) -> Answer:
    return await _stop_many(desk.jobs.terminate, call)


async def _definition(desk: Desk, given: wire.SubmitJob, submission: Submission) -> JobDefinition:
    try:
        return await desk.catalog.find_definition(submission.definition_name, submission.definition_revision)
    except NotFound:
        raise submissions.unknown_definition(given.jobDefinition) from None


def _job(text: str, call: Call) -> JobId | None:
    """The id that an id or an ARN means; None if it is none this service could have given."""
    name = call.arns.named(Kind.JOB, text)
    return JobId(name) if name is not None and is_job_id(name) else None


async def _stop(order: Order, call: Call) -> Answer:
    """AWS: an id that nobody has, even one that is no id, is no error."""
    given = parse(wire.StopJob, call.body)
    reason = checks.reason(given.reason)
    job_id = _job(checks.required(given.jobId, "jobId"), call)
    if job_id is not None:
        await order(job_id, reason)
    return {}


async def _stop_many(order: Order, call: Call) -> Answer:
    given = parse(wire.StopJobs, call.body)
    reason = checks.reason(given.reason)
    errors = await asyncio.gather(*(_stop_one(order, text, reason, call) for text in given.jobs))
    told = list(zip(given.jobs, errors, strict=True))
    return {
        "successful": [text for text, error in told if error is None],
        "errors": [{"job": text, **error} for text, error in told if error is not None],
    }


async def _stop_one(order: Order, text: str, reason: str, call: Call) -> dict[str, str] | None:
    """None when it was accepted. AWS: here an id that is none is an error, of this job alone."""
    job_id = _job(text, call)
    if job_id is None:
        return {"code": "ValidationException", "message": "The job id is malformed."}
    try:
        await order(job_id, reason)
    except Invalid as why:
        return {"code": "ClientException", "message": str(why)}
    except Unavailable as why:
        return {"code": "ServerException", "message": str(why)}
    return None
