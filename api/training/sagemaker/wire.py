"""Shapes of SageMaker's requests and errors.

Members are spelt as SageMaker spells them; None: the member is omitted. Errors have AWS's JSON 1.1 shape.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import DialectProfile, RequestFailure
from batchq.api.http.http import FailureKind, HttpRefusal, Text, error_response


class SageMakerModel(BaseModel):
    """Strict: a string is not converted to a number. Unknown members are refused, since they could change the job."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


JobName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", max_length=63)]
S3Uri = Annotated[Text, Field(max_length=1024)]
Seconds = Annotated[int, Field(ge=1, le=2_419_200)]
_REFUSED = "refused"
Refused = Annotated[JsonValue, _REFUSED]
RefusedFlag = Annotated[bool | None, _REFUSED]
Epoch = Annotated[float, Field(ge=0, le=253_402_300_799)]


class MetricShape(SageMakerModel):
    Name: Annotated[Text, Field(min_length=1, max_length=255)]
    #: In RE2 syntax; group 1 is the value.
    Regex: Annotated[Text, Field(min_length=1, max_length=500)]


class AlgorithmShape(SageMakerModel):
    TrainingImage: Annotated[Text, Field(min_length=1, max_length=255)]
    #: Input channels are directories: File and FastFile are the same, and Pipe is refused.
    TrainingInputMode: Literal["File", "Pipe", "FastFile"]
    ContainerEntrypoint: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    ContainerArguments: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    MetricDefinitions: Annotated[list[MetricShape], Field(max_length=40)] | None = None
    #: Without effect.
    EnableSageMakerMetricsTimeSeries: bool | None = None


class OutputShape(SageMakerModel):
    S3OutputPath: S3Uri
    #: Refused, unless it is empty: nothing is encrypted.
    KmsKeyId: Annotated[Text, Field(max_length=2048)] | None = None
    CompressionType: Literal["GZIP", "NONE"] | None = None


class ResourceShape(SageMakerModel):
    InstanceType: Annotated[Text, Field(max_length=64)]
    InstanceCount: Annotated[int, Field(ge=1, le=1000)] = 1
    #: Without effect.
    VolumeSizeInGB: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


class StoppingShape(SageMakerModel):
    MaxRuntimeInSeconds: Seconds | None = None
    #: Without effect: there are no spot instances.
    MaxWaitTimeInSeconds: Seconds | None = None


class CheckpointShape(SageMakerModel):
    S3Uri: S3Uri
    LocalPath: Annotated[Text, Field(max_length=4096)] | None = None


class RetryShape(SageMakerModel):
    MaximumRetryAttempts: Annotated[int, Field(ge=1, le=30)]


class TagShape(SageMakerModel):
    Key: Annotated[Text, Field(min_length=1, max_length=128)]
    Value: Annotated[Text, Field(max_length=256)]


class S3DataShape(SageMakerModel):
    S3DataType: Literal["S3Prefix"]
    S3Uri: S3Uri
    #: Every instance gets all of the data.
    S3DataDistributionType: Literal["FullyReplicated"] | None = None


class DataSourceShape(SageMakerModel):
    S3DataSource: S3DataShape


class ChannelShape(SageMakerModel):
    ChannelName: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)]
    DataSource: DataSourceShape
    #: Without effect.
    ContentType: Annotated[Text, Field(max_length=256)] | None = None
    CompressionType: Literal["None"] | None = None
    RecordWrapperType: Literal["None"] | None = None
    #: Without effect: a channel is a directory.
    InputMode: Literal["File", "FastFile"] | None = None


class SageMakerCreateTrainingJob(SageMakerModel):
    """A training job. Members with a JsonValue are only named in the error that refuses them."""

    TrainingJobName: JobName
    AlgorithmSpecification: AlgorithmShape
    InputDataConfig: Annotated[list[ChannelShape], Field(min_length=1, max_length=20)] | None = None
    #: Returned, and not read.
    RoleArn: Annotated[Text, Field(min_length=20, max_length=2048)]
    OutputDataConfig: OutputShape
    ResourceConfig: ResourceShape
    StoppingCondition: StoppingShape | None = None
    HyperParameters: Annotated[dict[Text, Text], Field(max_length=100)] | None = None
    Environment: Annotated[dict[Text, Text], Field(max_length=100)] | None = None
    CheckpointConfig: CheckpointShape | None = None
    RetryStrategy: RetryShape | None = None
    Tags: Annotated[list[TagShape], Field(max_length=50)] | None = None
    #: Without effect: there are no spot instances.
    EnableManagedSpotTraining: bool | None = None
    VpcConfig: Refused = None
    DebugHookConfig: JsonValue = None
    DebugRuleConfigurations: Refused = None
    TensorBoardOutputConfig: Refused = None
    ExperimentConfig: Refused = None
    ProfilerConfig: JsonValue = None
    ProfilerRuleConfigurations: Refused = None
    RemoteDebugConfig: Refused = None
    InfraCheckConfig: Refused = None
    SessionChainingConfig: Refused = None
    EnableNetworkIsolation: RefusedFlag = None
    EnableInterContainerTrafficEncryption: RefusedFlag = None


REFUSED_MEMBERS = tuple(
    name for name, member in SageMakerCreateTrainingJob.model_fields.items() if _REFUSED in member.metadata
)
"""Members that the server cannot carry out."""


class SageMakerNamedTrainingJob(SageMakerModel):
    """A request that only names a job."""

    TrainingJobName: JobName


class SageMakerListTrainingJobs(SageMakerModel):
    NextToken: Annotated[str, Field(max_length=8192)] | None = None
    MaxResults: Annotated[int, Field(ge=1, le=100)] | None = None
    #: Seconds since 1970, exclusive.
    CreationTimeAfter: Epoch | None = None
    #: Seconds since 1970, exclusive.
    CreationTimeBefore: Epoch | None = None
    NameContains: Annotated[str, Field(pattern=r"^[a-zA-Z0-9-]+$", max_length=63)] | None = None
    StatusEquals: Literal["InProgress", "Completed", "Failed", "Stopping", "Stopped", "Deleting"] | None = None
    #: Only CreationTime is supported, which is the default.
    SortBy: Literal["Name", "CreationTime", "Status"] | None = None
    #: Only Descending is supported, which is the default.
    SortOrder: Literal["Ascending", "Descending"] | None = None
    LastModifiedTimeAfter: JsonValue = None
    LastModifiedTimeBefore: JsonValue = None
    WarmPoolStatusEquals: JsonValue = None
    TrainingPlanArnEquals: JsonValue = None


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
