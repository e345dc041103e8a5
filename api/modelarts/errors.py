"""Errors of the ModelArts dialect: `{"error_code", "error_msg", "error_solution"}` and the vendor's codes."""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.credentials import Scheme
from batchq.api.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http import FailureKind, HttpRefusal, reply


class ModelArtsErrorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an error response."""

    #: As `ModelArts.2796`.
    error_code: str
    error_msg: str
    #: What the caller can do; absent if nothing is known.
    error_solution: str | None = None


class ModelArtsRefusal(HttpRefusal):
    """A request is refused with one of the vendor's codes."""

    def __init__(self, status: HTTPStatus, code: str, message: str, *, solution: str | None = None) -> None:
        """`code`: as `ModelArts.2796`."""
        super().__init__(message, status=status, code=code)
        self.solution = solution


# Status, code and text. The text of None is that of the failure.
_BY_KIND: Mapping[FailureKind, tuple[HTTPStatus, str, str | None]] = {
    FailureKind.INVALID: (HTTPStatus.BAD_REQUEST, "ModelArts.2788", "Invalid parameter({})."),
    FailureKind.MALFORMED: (HTTPStatus.BAD_REQUEST, "ModelArts.2787", "Invalid JSON request body."),
    FailureKind.NO_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "ModelArts.0205", "The request has no credential."),
    FailureKind.BAD_CREDENTIAL: (
        HTTPStatus.UNAUTHORIZED,
        "APIGW.0301",
        "Incorrect IAM authentication information: {}",
    ),
    FailureKind.FORBIDDEN: (HTTPStatus.FORBIDDEN, "ModelArts.0108", None),
    FailureKind.NOT_FOUND: (HTTPStatus.BAD_REQUEST, "ModelArts.2788", "Invalid parameter({})."),
    FailureKind.UNKNOWN_PATH: (HTTPStatus.BAD_REQUEST, "ModelArts.2858", "Current operation not supported, ({})."),
    FailureKind.UNKNOWN_METHOD: (HTTPStatus.METHOD_NOT_ALLOWED, "ModelArts.2803", "Method not allowed."),
    FailureKind.BODY_TIMEOUT: (HTTPStatus.REQUEST_TIMEOUT, "ModelArts.2787", None),
    FailureKind.BODY_TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "APIGW.0201", None),
    FailureKind.UNSUPPORTED_MEDIA: (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "ModelArts.2787", None),
    FailureKind.THROTTLED: (HTTPStatus.TOO_MANY_REQUESTS, "ModelArts.2799", None),
    FailureKind.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ModelArts.0010", None),
    FailureKind.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "ModelArts.0010", None),
}


def _error_response(failure: RequestFailure) -> web.Response:
    error = failure.error
    if isinstance(error, ModelArtsRefusal):
        answer = ModelArtsErrorAnswer(error_code=error.code, error_msg=str(error), error_solution=error.solution)
        return reply(answer, status=error.status)
    status, code, text = _BY_KIND[failure.kind]
    message = failure.message if text is None else text.format(failure.message)
    return reply(ModelArtsErrorAnswer(error_code=code, error_msg=message), status=status)


PROFILE = DialectProfile(
    name="modelarts",
    prefix="/v2/",
    error_response=_error_response,
    error_body=ModelArtsErrorAnswer,
    more_errors={
        HTTPStatus.UNAUTHORIZED: "The request has no credential, or an invalid one.",
        HTTPStatus.CONFLICT: "The state of the job does not allow the operation.",
    },
    request_id_header="X-Request-Id",
    schemes=frozenset({Scheme.SDK_HMAC, Scheme.BEARER, Scheme.AUTH_TOKEN}),
)
