"""What the handlers of the training dialect share: its errors, the services, and how a path names a job."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http.http import FailureKind, HttpRefusal, InvalidMember, reply
from batchq.api.operations.operations import Call, Input
from batchq.api.operations.parts import Parts
from batchq.api.training.rest.job_answers import status_of
from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.domain.times import rfc3339
from batchq.domain.training_jobs import TrainingJobView

JOBS = "/v2/training/jobs"
JOB = JOBS + "/{jobId}"


_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[0-9]{1,5})?", re.ASCII)
RETRY_AFTER = 1  # seconds
MAX_SHOWN = 200  # characters of an unknown id in an error


class TrainingErrorResponse(Struct, frozen=True, kw_only=True):
    """The body of an error response."""

    #: As `STATE_CONFLICT`.
    error: str
    message: str
    #: The HTTP status.
    code: int
    #: What the error is about, as `field` and `reason`; empty if nothing more is known.
    details: Mapping[str, str | int]
    request_id: str
    #: When the request failed, RFC 3339 in UTC.
    timestamp: str


class TrainingRefusal(HttpRefusal):
    """A request is refused with one of the dialect's codes."""

    def __init__(
        self, status: HTTPStatus, code: str, message: str, *, details: Mapping[str, str | int] | None = None
    ) -> None:
        """`code`: as `STATE_CONFLICT`."""
        super().__init__(message, status=status, code=code)
        self.details = details or {}


def training_resource_not_found(resource: str, name: str) -> TrainingRefusal:
    """The error for a resource that does not exist, or that the caller may not see. `resource`: its kind, as `job`."""
    return TrainingRefusal(
        HTTPStatus.NOT_FOUND,
        "RESOURCE_NOT_FOUND",
        f"Training {resource} {name[:MAX_SHOWN]} not found.",
        details={"resource": resource, "id": name[:MAX_SHOWN]},
    )


def state_conflict(view: TrainingJobView, *, required: str, problem: str | None = None) -> TrainingRefusal:
    """The error of an operation that the job's status does not permit. `required`: the statuses that do, as text.

    `problem`: the predicate of the error's text; None: the text names the job's status.
    """
    status = status_of(view)
    return TrainingRefusal(
        HTTPStatus.CONFLICT,
        "STATE_CONFLICT",
        f"Training job {view.job.id} {problem or f'is already {status}'}.",
        details={"current_state": status.value, "required_state": required},
    )


def impossible(why: str) -> TrainingRefusal:
    """For a well-formed request that cannot be carried out on this job."""
    return TrainingRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "SEMANTIC_ERROR", why)


_BY_KIND: Mapping[FailureKind, tuple[HTTPStatus, str]] = {
    FailureKind.INVALID: (HTTPStatus.BAD_REQUEST, "VALIDATION_ERROR"),
    FailureKind.MALFORMED: (HTTPStatus.BAD_REQUEST, "VALIDATION_ERROR"),
    FailureKind.NO_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "UNAUTHORIZED"),
    FailureKind.BAD_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "UNAUTHORIZED"),
    FailureKind.FORBIDDEN: (HTTPStatus.FORBIDDEN, "FORBIDDEN"),
    FailureKind.NOT_FOUND: (HTTPStatus.NOT_FOUND, "RESOURCE_NOT_FOUND"),
    FailureKind.UNKNOWN_PATH: (HTTPStatus.NOT_FOUND, "RESOURCE_NOT_FOUND"),
    FailureKind.UNKNOWN_METHOD: (HTTPStatus.METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
    FailureKind.BODY_TIMEOUT: (HTTPStatus.REQUEST_TIMEOUT, "VALIDATION_ERROR"),
    FailureKind.BODY_TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "VALIDATION_ERROR"),
    FailureKind.UNSUPPORTED_MEDIA: (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "VALIDATION_ERROR"),
    FailureKind.THROTTLED: (HTTPStatus.TOO_MANY_REQUESTS, "RATE_LIMIT_EXCEEDED"),
    FailureKind.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE"),
    FailureKind.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
}


def profile(now: Callable[[], datetime]) -> DialectProfile:
    """The profile of the dialect. `now` returns the time for `timestamp`."""

    def error_response(failure: RequestFailure) -> web.Response:
        error = failure.error
        if isinstance(error, TrainingRefusal):
            status, code, details = error.status, error.code, error.details
        else:
            status, code = _BY_KIND[failure.kind]
            details = _details(failure)
        answer = TrainingErrorResponse(
            error=code,
            message=failure.message,
            code=status.value,
            details=details,
            request_id=failure.request_id,
            timestamp=rfc3339(now()),
        )
        response = reply(answer, status=status)
        if status is HTTPStatus.TOO_MANY_REQUESTS:
            response.headers["Retry-After"] = str(RETRY_AFTER)
        return response

    return DialectProfile(
        name="training",
        prefix="/v2/training/",
        error_response=error_response,
        error_body=TrainingErrorResponse,
        more_errors={
            HTTPStatus.UNAUTHORIZED: "The request has no credential, or an invalid one.",
            HTTPStatus.METHOD_NOT_ALLOWED: "The path has no operation with this method.",
            HTTPStatus.CONFLICT: "The status of the job does not allow the operation.",
            HTTPStatus.UNPROCESSABLE_ENTITY: "The members of the request contradict each other, or the job's kind.",
        },
        request_id_header="X-Request-Id",
        schemes=frozenset({Scheme.BEARER, Scheme.SIGV4}),
        bodyless_post=True,
    )


def _details(failure: RequestFailure) -> Mapping[str, str | int]:
    match failure:
        case RequestFailure(error=InvalidMember(member=member)) if member:
            return {"field": member, "reason": failure.message}
        case RequestFailure(kind=FailureKind.INVALID | FailureKind.MALFORMED):
            return {"reason": failure.message}
        case RequestFailure(kind=FailureKind.THROTTLED):
            return {"retry_after": RETRY_AFTER}
        case _:
            return {}


async def find_job(parts: Parts, call: Call[Input]) -> Job:
    """The job that the path names. Raises HttpRefusal for an unknown job, and for an array."""
    text = call.path["jobId"]
    if _ID.fullmatch(text) is None:
        raise training_resource_not_found("job", text)
    return await read_job(parts, JobId(text), call.caller)


async def id_of_checkpoints(parts: Parts, call: Call[Input]) -> JobId:
    """The job that the path names, whose record may have been removed. Raises HttpRefusal as `find_job`."""
    try:
        return (await find_job(parts, call)).id
    except TrainingRefusal:
        job_id = JobId(call.path["jobId"])
        if _ID.fullmatch(job_id) is None or not await parts.checkpoints.outlive(job_id, caller=call.caller):
            raise
        return job_id


async def read_job(parts: Parts, job_id: JobId, caller: Caller) -> Job:
    """The job as it is now. Raises HttpRefusal for an unknown job, and for an array."""
    found = await parts.jobs.describe([job_id], caller=caller)
    if not found:
        raise training_resource_not_found("job", job_id)
    (job,) = found
    if is_parent(job):
        raise impossible(f"Job {job_id} is an array: name one of its children, {job_id}:0 to {job_id}:{size(job) - 1}.")
    return job
