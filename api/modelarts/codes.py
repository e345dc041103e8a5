"""The vendor's error codes with their texts."""

from http import HTTPStatus

from msgspec import Struct

from batchq.api.modelarts.errors import ModelArtsRefusal


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


def refusal(code: ErrorCode, value: str = "", *, solution: str | None = None) -> ModelArtsRefusal:
    """The refusal of a request with one of the vendor's codes. `solution`: what the caller can do."""
    return ModelArtsRefusal(code.status, code.code, code.text.format(value[:200]), solution=solution)
