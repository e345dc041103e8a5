"""CancelJob, CancelJobs, TerminateJob, TerminateJobs."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, to_job_id
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.validation import Text, WireModel
from batchq.api.operations.parts import Parts
from batchq.domain.enums import StopKind
from batchq.domain.ids import JobId
from batchq.domain.stop_request import StopRequest
from batchq.errors import BatchqError, Invalid, Unavailable


class StopJob(WireModel):
    """CancelJob and TerminateJob."""

    jobId: Text
    reason: Text


class StopJobs(WireModel):
    """CancelJobs and TerminateJobs."""

    jobs: Annotated[list[Text], Field(min_length=1, max_length=50)]
    reason: Text


async def cancel_job(parts: Parts, request: BatchRequest, body: StopJob) -> None:
    """Cancels a job that has not started. A job that has started runs on, and is not retried."""
    await _stop(StopKind.CANCEL, parts, request, body)


async def terminate_job(parts: Parts, request: BatchRequest, body: StopJob) -> None:
    """Terminates a job: its containers get SIGTERM, and SIGKILL after the grace period."""
    await _stop(StopKind.TERMINATE, parts, request, body)


async def cancel_many(parts: Parts, request: BatchRequest, body: StopJobs) -> Answer:
    """Cancels up to 50 jobs, each as CancelJob does."""
    return await _stop_many(StopKind.CANCEL, parts, request, body)


async def terminate_many(parts: Parts, request: BatchRequest, body: StopJobs) -> Answer:
    """Terminates up to 50 jobs, each as TerminateJob does."""
    return await _stop_many(StopKind.TERMINATE, parts, request, body)


def _job(text: str, request: BatchRequest) -> JobId | None:
    """The id in an id or ARN of a job; None if it does not have the format of one.

    Raises Invalid for an ARN of another account.
    """
    return to_job_id(request.arns.named(ArnKind.JOB, text))


async def _stop(kind: StopKind, parts: Parts, request: BatchRequest, body: StopJob) -> None:
    """AWS: neither an unknown id nor a malformed one is an error."""
    order = StopRequest(kind=kind, reason=validation.stop_reason_text(body.reason))
    job_id = _job(validation.required(body.jobId, "jobId"), request)
    if job_id is not None:
        await parts.jobs.stop(job_id, order, caller=request.caller)


async def _stop_many(kind: StopKind, parts: Parts, request: BatchRequest, body: StopJobs) -> Answer:
    order = StopRequest(kind=kind, reason=validation.stop_reason_text(body.reason))
    errors: dict[str, dict[str, str]] = {}
    named: dict[str, JobId | None] = {}
    for text in body.jobs:
        try:
            named[text] = _job(text, request)
        except Invalid as why:
            errors[text] = {"code": "ClientException", "message": str(why)}
    ids = [job_id for job_id in named.values() if job_id is not None]
    refused = await parts.jobs.stop_many(ids, order, caller=request.caller)
    errors |= {text: error for text, job_id in named.items() if (error := _error(job_id, refused)) is not None}
    return {
        "successful": [text for text in body.jobs if text not in errors],
        "errors": [{"job": text, **errors[text]} for text in body.jobs if text in errors],
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
