"""Shapes of the requests and errors of the ModelArts dialect."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http.http import FailureKind, HttpRefusal, InvalidMember, reply

Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=4096)]
Word = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=256)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,255}$")]
Kept = Annotated[dict[str, Any], Field(max_length=100)]
"""A structure that is stored and returned, and has no effect."""


def _one_map(given: object) -> object:
    """The SDK sends one map of variables; the vendor's documents have an array of maps."""
    if isinstance(given, list) and all(isinstance(item, Mapping) for item in given):
        return {name: value for item in given for name, value in item.items()}
    return given


class ModelArtsModel(BaseModel):
    """Strict: a string is not converted to a number."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class TrainingJobMetadata(ModelArtsModel):
    name: Name
    workspace_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = None
    description: Word | None = None
    annotations: Annotated[dict[Word, Word], Field(max_length=50)] | None = None


class AlgorithmEngine(ModelArtsModel):
    engine_id: Word | None = None
    engine_name: Word | None = None
    engine_version: Word | None = None
    image_url: Word | None = None


class AlgorithmParameter(ModelArtsModel):
    name: Word
    value: Text | None = None
    description: Text | None = None
    constraint: Kept | None = None
    i18n_description: Kept | None = None


class ObsRemote(ModelArtsModel):
    obs_url: Text


class ChannelRemote(ModelArtsModel):
    dataset: Kept | None = None
    obs: ObsRemote | None = None


class AlgorithmChannel(ModelArtsModel):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Text | None = None
    local_dir: Text | None = None
    access_method: Word | None = None
    remote: ChannelRemote | None = None
    remote_constraint: Annotated[list[Kept], Field(max_length=20)] | None = None
    mode: Word | None = None
    period: Word | int | None = None


class TrainingAlgorithm(ModelArtsModel):
    id: Word | None = None
    name: Word | None = None
    subscription_id: Word | None = None
    item_version_id: Word | None = None
    code_dir: Text | None = None
    boot_file: Text | None = None
    autosearch_config_path: Text | None = None
    autosearch_framework_path: Text | None = None
    command: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=16384)] | None = None
    parameters: Annotated[list[AlgorithmParameter], Field(max_length=100)] | None = None
    policies: Kept | None = None
    inputs: Annotated[list[AlgorithmChannel], Field(max_length=50)] | None = None
    outputs: Annotated[list[AlgorithmChannel], Field(max_length=50)] | None = None
    engine: AlgorithmEngine | None = None
    local_code_dir: Text | None = None
    working_dir: Text | None = None
    environments: Annotated[dict[VariableName, Text], Field(max_length=100), BeforeValidator(_one_map)] | None = None


class CustomizedFlavor(ModelArtsModel):
    cpu_core_num: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
    #: GiB.
    mem_size: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
    accelerator_num: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False, multiple_of=1)] | None = None


class TrainingResource(ModelArtsModel):
    policy: Word | None = None
    flavor_id: Word | None = None
    node_count: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    pool_id: Word | None = None
    main_container_customized_flavor: CustomizedFlavor | None = None


class LogExportPath(ModelArtsModel):
    obs_url: Text | None = None
    host_path: Text | None = None


class AutoStop(ModelArtsModel):
    time_unit: Annotated[str, Field(pattern=r"^HOURS$")]
    duration: Annotated[int, Field(ge=1, le=87_600)]


class SchedulePolicy(ModelArtsModel):
    priority: Annotated[int, Field(ge=1, le=3)] | None = None
    preemptible: bool | None = None


class TrainingSpec(ModelArtsModel):
    resource: TrainingResource
    volumes: Annotated[list[Kept], Field(max_length=50)] | None = None
    log_export_path: LogExportPath | None = None
    auto_stop: AutoStop | None = None
    schedule_policy: SchedulePolicy | None = None


class CreateTrainingJob(ModelArtsModel):
    kind: Word | None = None
    metadata: TrainingJobMetadata
    algorithm: TrainingAlgorithm
    tasks: Annotated[list[Kept], Field(max_length=50)] | None = None
    spec: TrainingSpec
    endpoints: Kept | None = None


class TrainingJobAction(ModelArtsModel):
    action_type: Word


class TrainingJobUpdate(ModelArtsModel):
    description: Word | None = None
    spec: Kept | None = None
    endpoints: Kept | None = None
    metadata: Kept | None = None


class SearchFilter(ModelArtsModel):
    key: Word
    operator: Word | None = None
    value: Annotated[list[Word], Field(max_length=100)] | None = None


class TrainingJobSearch(ModelArtsModel):
    #: The number of the page, from 0.
    offset: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    limit: Annotated[int, Field(ge=1, le=50)] | None = None
    sort_by: Word | None = None
    order: Word | None = None
    group_by: Word | None = None
    workspace_id: Word | None = None
    train_type: Word | None = None
    filters: Annotated[list[SearchFilter], Field(max_length=20)] | None = None


class TrainingEventsQuery(BaseModel):
    """Which events of a job are listed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    #: The number of the page, from 0.
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    order: Annotated[str, Field(pattern=r"^(asc|desc)$")] = "desc"
    #: Milliseconds since 1970, inclusive, as is `end_time`.
    start_time: Annotated[int, Field(ge=0, le=2**53)] | None = None
    end_time: Annotated[int, Field(ge=0, le=2**53)] | None = None
    level: Annotated[str, Field(pattern=r"^(Info|Warning|Error)$")] | None = None
    #: Text that the message contains.
    pattern: Word | None = None


class FlavorsQuery(BaseModel):
    """Which flavors are listed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    flavor_type: Annotated[str, Field(pattern=r"^(CPU|GPU|Ascend)$")] | None = None


class ModelArtsErrorResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an error response."""

    #: As `ModelArts.2796`.
    error_code: str
    error_msg: str
    #: What the caller can do; absent if nothing is known.
    error_solution: str | None = None


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


class ModelArtsRefusal(HttpRefusal):
    """A request is refused with one of the vendor's codes."""

    def __init__(self, code: ErrorCode, value: str = "", *, solution: str | None = None) -> None:
        """`value`: what is at fault. `solution`: what the caller can do; None: not known."""
        super().__init__(code.text.format(value[:200]), status=code.status, code=code.code)
        self.solution = solution


# Status, code and text; `{}` stands for the invalid member, or for the text of the failure.
_BY_KIND: Mapping[FailureKind, tuple[HTTPStatus, str, str]] = {
    FailureKind.INVALID: (_BAD, INVALID_PARAMETER.code, INVALID_PARAMETER.text),
    FailureKind.MALFORMED: (_BAD, INVALID_JSON.code, INVALID_JSON.text),
    FailureKind.NO_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "ModelArts.0205", "The request has no credential."),
    FailureKind.BAD_CREDENTIAL: (HTTPStatus.UNAUTHORIZED, "APIGW.0301", "Incorrect IAM authentication information: {}"),
    FailureKind.FORBIDDEN: (HTTPStatus.FORBIDDEN, "ModelArts.0108", "{}"),
    FailureKind.NOT_FOUND: (_BAD, INVALID_PARAMETER.code, INVALID_PARAMETER.text),
    FailureKind.UNKNOWN_PATH: (_BAD, NOT_SUPPORTED.code, NOT_SUPPORTED.text),
    FailureKind.UNKNOWN_METHOD: (HTTPStatus.METHOD_NOT_ALLOWED, "ModelArts.2803", "Method not allowed."),
    FailureKind.BODY_TIMEOUT: (HTTPStatus.REQUEST_TIMEOUT, INVALID_JSON.code, "{}"),
    FailureKind.BODY_TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "APIGW.0201", "{}"),
    FailureKind.UNSUPPORTED_MEDIA: (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, INVALID_JSON.code, "{}"),
    FailureKind.THROTTLED: (HTTPStatus.TOO_MANY_REQUESTS, "ModelArts.2799", "{}"),
    FailureKind.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ModelArts.0010", "{}"),
    FailureKind.INTERNAL: (HTTPStatus.INTERNAL_SERVER_ERROR, "ModelArts.0010", "{}"),
}


def _error_response(failure: RequestFailure) -> web.Response:
    error = failure.error
    if isinstance(error, ModelArtsRefusal):
        answer = ModelArtsErrorResponse(error_code=error.code, error_msg=str(error), error_solution=error.solution)
        return reply(answer, status=error.status)
    status, code, text = _BY_KIND[failure.kind]
    value, solution = failure.message, None
    if isinstance(error, InvalidMember):
        value, solution = error.member or "body", str(error)
    answer = ModelArtsErrorResponse(error_code=code, error_msg=text.format(value), error_solution=solution)
    return reply(answer, status=status)


PROFILE = DialectProfile(
    name="modelarts",
    prefix="/v2/",
    error_response=_error_response,
    error_body=ModelArtsErrorResponse,
    more_errors={
        HTTPStatus.UNAUTHORIZED: "The request has no credential, or an invalid one.",
        HTTPStatus.CONFLICT: "The state of the job does not allow the operation.",
    },
    request_id_header="X-Request-Id",
    schemes=frozenset({Scheme.SDK_HMAC, Scheme.BEARER, Scheme.AUTH_TOKEN}),
)
