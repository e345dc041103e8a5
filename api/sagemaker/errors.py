"""Errors of the SageMaker dialect: AWS's JSON 1.1 shape, with SageMaker's names."""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

from batchq.api.credentials import Scheme
from batchq.api.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http import FailureKind, HttpRefusal, error_response

TARGET_PREFIX = "SageMaker."

_BY_KIND: Mapping[FailureKind, tuple[HTTPStatus, str]] = {
    FailureKind.INVALID: (HTTPStatus.BAD_REQUEST, "ValidationException"),
    FailureKind.MALFORMED: (HTTPStatus.BAD_REQUEST, "SerializationException"),
    FailureKind.FORBIDDEN: (HTTPStatus.BAD_REQUEST, "AccessDeniedException"),
    FailureKind.NOT_FOUND: (HTTPStatus.BAD_REQUEST, "ResourceNotFound"),
    FailureKind.THROTTLED: (HTTPStatus.BAD_REQUEST, "ThrottlingException"),
    FailureKind.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    FailureKind.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "InternalFailure"),
}


def sagemaker_refusal(code: str, message: str) -> HttpRefusal:
    """A request that is refused with one of SageMaker's errors, as `ResourceInUse`."""
    return HttpRefusal(message, status=HTTPStatus.BAD_REQUEST, code=code)


def validation_exception(message: str) -> HttpRefusal:
    return sagemaker_refusal("ValidationException", message)


def _error_response(failure: RequestFailure) -> web.Response:
    status, code = failure.status, failure.code
    # The codes of refusals before the handler, and of the handler's own, are AWS's already.
    if code == "ClientException" or failure.kind not in {FailureKind.INVALID, FailureKind.NOT_FOUND}:
        status, code = _BY_KIND.get(failure.kind, (status, code))
    return error_response(status, code, failure.message)


PROFILE = DialectProfile(
    name="sagemaker",
    prefix="/",
    target=TARGET_PREFIX,
    error_response=_error_response,
    error_headers=("x-amzn-ErrorType",),
    request_id_header="x-amzn-RequestId",
    schemes=frozenset({Scheme.SIGV4}),
)
