"""Errors of the ModelArts dialect: `{"error_code", "error_msg", "error_solution"}` and the vendor's codes."""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.credentials import Scheme
from batchq.api.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http import FailureKind, HttpRefusal, InvalidMember, reply


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


class ErrorCode(Struct, frozen=True, kw_only=True):
    """One of the vendor's error codes."""

    status: HTTPStatus
    #: The number in `ModelArts.NNNN`.
    number: str
    #: The error_msg; `{}` stands for the value that is at fault.
    text: str

    @property
    def code(self) -> str:
        """As clients compare it."""
        return f"ModelArts.{self.number}"


_BAD, _CONFLICT = HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT

DUPLICATE_NAME = ErrorCode(status=_BAD, number="2751", text="Duplicate training job (name {}).")
ALGORITHM_NOT_FOUND = ErrorCode(status=_BAD, number="2755", text="algorithm not found.")
INVALID_FLAVOR = ErrorCode(status=_BAD, number="2763", text="flavor invalid")
JOB_NOT_FOUND = ErrorCode(status=_BAD, number="2775", text="Training job (ID: {}) not found.")
ENGINE_NOT_FOUND = ErrorCode(status=_BAD, number="2780", text="AI engine(id:{}) not found.")
FLAVOR_NOT_FOUND = ErrorCode(status=_BAD, number="2781", text="Flavor ({}) not found.")
OTHER_PROJECT = ErrorCode(
    status=HTTPStatus.NOT_FOUND, number="2786", text="The project ID in the request is not that of the token."
)
INVALID_JSON = ErrorCode(status=_BAD, number="2787", text="Invalid JSON request body.")
INVALID_PARAMETER = ErrorCode(status=_BAD, number="2788", text="Invalid parameter({}).")
UNSUPPORTED_SORTING = ErrorCode(status=_BAD, number="2790", text="Unsupported sorting item.")
INVALID_OBS_PATH = ErrorCode(status=_BAD, number="2791", text="Invalid obs path")
TOO_MANY_NODES = ErrorCode(status=_BAD, number="2793", text="too many nodes")
NOT_TERMINABLE = ErrorCode(status=_CONFLICT, number="2796", text="The job cannot be terminated.")
NO_COMMAND = ErrorCode(status=_BAD, number="2806", text="Custom image jobs command and engine.url cannot be empty.")
UNSUPPORTED_KEY = ErrorCode(status=_BAD, number="2807", text="Unsupported condition key ({}).")
UNSUPPORTED_OPERATOR = ErrorCode(status=_BAD, number="2808", text="Unsupported condition operator ({}).")
UNSUPPORTED_VALUE = ErrorCode(status=_BAD, number="2809", text="Unsupported condition value ({}).")
UNSUPPORTED_ACTION = ErrorCode(status=_BAD, number="2812", text="Unsupported action type:{}")
QUOTA_EXCEEDED = ErrorCode(status=_BAD, number="2815", text="Exceed quota limit of resource({}).")
UNSUPPORTED_CHANNEL = ErrorCode(status=_BAD, number="2854", text="Unsupported input/output channel remote type.")
NOT_SUPPORTED = ErrorCode(status=_BAD, number="2858", text="Current operation not supported, ({}).")
STATUS_CHANGED = ErrorCode(status=_CONFLICT, number="2878", text="Job status changed")


def modelarts_refusal(code: ErrorCode, value: str = "", *, solution: str | None = None) -> ModelArtsRefusal:
    """The refusal of a request with one of the vendor's codes. `solution`: what the caller can do."""
    return ModelArtsRefusal(code.status, code.code, code.text.format(value[:200]), solution=solution)


# Status, code and text. The text of None is that of the failure.
_BY_KIND: Mapping[FailureKind, tuple[HTTPStatus, str, str | None]] = {
    FailureKind.INVALID: (_BAD, INVALID_PARAMETER.code, INVALID_PARAMETER.text),
    FailureKind.MALFORMED: (_BAD, INVALID_JSON.code, INVALID_JSON.text),
    FailureKind.NO_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "ModelArts.0205", "The request has no credential."),
    FailureKind.BAD_CREDENTIAL: (
        HTTPStatus.UNAUTHORIZED,
        "APIGW.0301",
        "Incorrect IAM authentication information: {}",
    ),
    FailureKind.FORBIDDEN: (HTTPStatus.FORBIDDEN, "ModelArts.0108", None),
    FailureKind.NOT_FOUND: (_BAD, INVALID_PARAMETER.code, INVALID_PARAMETER.text),
    FailureKind.UNKNOWN_PATH: (_BAD, NOT_SUPPORTED.code, NOT_SUPPORTED.text),
    FailureKind.UNKNOWN_METHOD: (HTTPStatus.METHOD_NOT_ALLOWED, "ModelArts.2803", "Method not allowed."),
    FailureKind.BODY_TIMEOUT: (HTTPStatus.REQUEST_TIMEOUT, INVALID_JSON.code, None),
    FailureKind.BODY_TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "APIGW.0201", None),
    FailureKind.UNSUPPORTED_MEDIA: (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, INVALID_JSON.code, None),
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
    value, solution = (
        (error.member or "body", str(error)) if isinstance(error, InvalidMember) else (failure.message, None)
    )
    message = failure.message if text is None else text.format(value)
    return reply(ModelArtsErrorAnswer(error_code=code, error_msg=message, error_solution=solution), status=status)


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
