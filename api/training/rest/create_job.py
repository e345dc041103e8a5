"""CreateTrainingJob: the request as a job definition and a submission, in one operation."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Literal

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, Field, JsonValue

from batchq.api.http.http import InvalidMember, RequestBody, Text, read_body
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.api.training.common.training_request import (
    DEFAULT_QUEUE,
    IMAGE,
    MAX_REQUEST,
    MAX_VARIABLE,
    TrainingJobRequest,
    hyperparameter_variables,
    hyperparameters_file,
    unique_metric_rules,
)
from batchq.api.training.rest.context import JOBS, impossible
from batchq.api.training.rest.figures import EstimatedCost, estimated_cost, length_text, parse_length, parse_memory
from batchq.api.training.rest.job_answers import DIALECT, VARIABLE, TrainingStatus, status_of
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import Tags
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.ids import SubmissionKey
from batchq.domain.job import Job, RetryStrategy
from batchq.domain.times import rfc3339
from batchq.domain.training import (
    CHECKPOINTS_TAG,
    MAX_CHECKPOINT_TIMEOUT,
    MAX_NAME,
    MAX_REGEX,
    MAX_RULES,
    MAX_TOTAL,
    SIGNAL_TAG,
    TIMEOUT_TAG,
    TOTAL_EPOCHS_TAG,
    TOTAL_STEPS_TAG,
    MetricRule,
)
from batchq.domain.training_jobs import TrainingJobView

IDEMPOTENCY_KEY = "Idempotency-Key"
MAX_RETRIES = 9
MAX_CHECKPOINT_SECONDS = int(MAX_CHECKPOINT_TIMEOUT.total_seconds())
MAX_TAGS = 45  # AWS: a job has at most 50 tags; up to five declare its checkpoints and its progress
MIN_MEMORY, MAX_MEMORY = 4, 2**31 - 1  # MiB, as in SubmitJob
RESERVED = ("AWS_BATCH_", VARIABLE, "BATCHQ_CHECKPOINT_", "BATCHQ_RESUME_")
"""Prefixes of the variables that the server sets."""
PRIORITIES: Mapping[str, int] = {"high": 100, "normal": 50, "low": 0}
"""The schedulingPriority of each priority."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
_SHARE = re.compile(r"[A-Za-z0-9]{1,255}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_ROUNDING = 1e-6  # thousandths of a vCPU
_PRINTABLE = re.compile(r"[!-~]{1,256}", re.ASCII)

ShortText = Annotated[Text, Field(min_length=1, max_length=128)]


class _Model(BaseModel):
    model_config = RequestBody.model_config


class InfrastructureRequest(_Model):
    """The resources that the job reserves."""

    #: vCPUs, with at most three decimals.
    vcpus: Annotated[float, Field(gt=0, le=100_000)] = 1
    #: As `8GB` or `512MB`, in powers of 1024.
    memory: ShortText = "1GB"
    gpu_count: Annotated[int, Field(ge=0, le=1024)] = 0
    #: Returned as it was given; the server does not read it.
    gpu_type: ShortText | None = None
    #: Returned as it was given; the server does not read it.
    storage: ShortText | None = None


class CheckpointsRequest(_Model):
    """How the job writes checkpoints."""

    #: The signal that requests a checkpoint; absent: the stop signal is the request for the final one.
    signal: Literal["HUP", "INT", "USR1", "USR2"] | None = None
    #: How long a final checkpoint is waited for.
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_CHECKPOINT_SECONDS)] = 120


class MetricRequest(_Model):
    """How a metric is found in the log."""

    name: Annotated[Text, Field(min_length=1, max_length=MAX_NAME)]
    #: In RE2 syntax; group 1 of the last match in the log is the value.
    regex: Annotated[Text, Field(min_length=1, max_length=MAX_REGEX)]


class ProgressRequest(_Model):
    """How much work the job will do, for its progress and the estimate of its cost."""

    #: Compared with the metric `epoch`.
    total_epochs: Annotated[int, Field(ge=1, le=MAX_TOTAL)] | None = None
    #: Compared with the metric `step`; precedes `totalEpochs`.
    total_steps: Annotated[int, Field(ge=1, le=MAX_TOTAL)] | None = None


class CreateTrainingJobRequest(_Model):
    """A training job."""

    name: Annotated[Text, Field(min_length=1, max_length=100)]
    description: Annotated[Text, Field(max_length=1024)] = ""
    image: Annotated[Text, Field(min_length=1, max_length=255)]
    #: Absent: the command of the image.
    command: Annotated[list[Text], Field(max_length=1000)] = []
    environment: Annotated[dict[str, Annotated[Text, Field(max_length=MAX_VARIABLE)]], Field(max_length=100)] = {}
    #: In `/opt/ml/input/config/hyperparameters.json`; each is also the variable `BATCHQ_HP_NAME`.
    hyperparameters: Annotated[dict[ShortText, JsonValue], Field(max_length=100)] = {}
    infrastructure: InfrastructureRequest = InfrastructureRequest()
    #: The name of the job queue.
    queue: ShortText = DEFAULT_QUEUE
    priority: Literal["high", "normal", "low"] = "normal"
    #: Required if the queue has a fair-share policy.
    share_identifier: Annotated[Text, Field(min_length=1, max_length=255)] | None = None
    #: The longest that one attempt may run, as `6h` or `90m`; absent: without limit.
    max_duration: ShortText | None = None
    #: How often a failed job is started again at most.
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 0
    #: Absent: the job has no checkpoint directory. With it, `/opt/ml/checkpoints` is the same for all attempts.
    checkpoints: CheckpointsRequest | None = None
    #: Absent: `loss`, `accuracy`, `epoch` and `step`, as `NAME=NUMBER` or `NAME: NUMBER`.
    metrics: Annotated[list[MetricRequest], Field(max_length=MAX_RULES)] = []
    progress: ProgressRequest = ProgressRequest()
    #: `KEY` or `KEY=VALUE`.
    tags: Annotated[list[ShortText], Field(max_length=MAX_TAGS)] = []
    #: Returned as it was given; the server does not read it.
    framework: JsonValue = None
    #: Returned as it was given; the server does not read it.
    model_config_: Annotated[JsonValue, Field(alias="modelConfig")] = None
    #: Returned as it was given; the server does not read it.
    dataset_config: JsonValue = None


class CreatedResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The created job."""

    job_id: str
    name: str
    status: TrainingStatus
    #: `maxDuration`, as `2h 15m`; null without a limit.
    estimated_duration: str | None
    #: Null if the server has no prices, or the job no `maxDuration`.
    estimated_cost: EstimatedCost | None
    created_at: str


operations = OperationTable()


@operations.add("CreateTrainingJob", "POST", JOBS, Permission.SELF, status=HTTPStatus.CREATED)
async def create_training_job(parts: Parts, call: Call[CreateTrainingJobRequest]) -> CreatedResponse:
    """Creates a training job.

    The job is an ordinary job of a queue, and has a job definition that all jobs of the same user with the same image
    and resources share. A request that is repeated with the same `Idempotency-Key` within 15 minutes creates one job.
    """
    content, body = await read_body(call.http), call.input
    if len(content) > MAX_REQUEST:
        raise InvalidMember(f"The request must be at most {MAX_REQUEST} bytes.", member="")
    digest, key = sha256(content).hexdigest(), _key(call.http, call.caller)
    request = requested_training_job(body, min_timeout=parts.limits.min_timeout, key=key, digest=digest)
    job = await request.submit(parts.submissions, caller=call.caller)
    if key is not None and DIALECT.request(job) != digest:
        raise impossible(f"The {IDEMPOTENCY_KEY} was sent with another request.")
    return created_answer(job)


def created_answer(job: Job) -> CreatedResponse:
    return CreatedResponse(
        job_id=job.id,
        name=job.spec.name,
        status=status_of(TrainingJobView(job)),
        estimated_duration=None if job.spec.timeout is None else length_text(job.spec.timeout),
        estimated_cost=estimated_cost(job.spec),
        created_at=rfc3339(job.created_at),
    )


def requested_training_job(
    body: CreateTrainingJobRequest, *, min_timeout: int, key: SubmissionKey | None = None, digest: str = ""
) -> TrainingJobRequest:
    """The requested job. Raises InvalidMember. `digest` identifies the request of a repeated key."""
    return TrainingJobRequest(
        dialect=DIALECT,
        name=_matching(_NAME, body.name, "name"),
        queue=body.queue,
        retry=RetryStrategy(attempts=body.retries + 1),
        timeout=_timeout(body.max_duration, min_timeout),
        tags=(*_tags(body.tags), *_declarations(body)),
        metric_rules=_metric_rules(body.metrics),
        share=body.share_identifier and _matching(_SHARE, body.share_identifier, "shareIdentifier"),
        priority=PRIORITIES[body.priority],
        returned=_finite(_returned(body), ""),
        container=_container(body),
        digest=digest,
        key=key,
    )


def _container(body: CreateTrainingJobRequest) -> ContainerSpec:
    hyperparameters = _finite(body.hyperparameters, "hyperparameters")
    return ContainerSpec(
        image=_matching(IMAGE, body.image, "image"),
        resources=_resources(body.infrastructure),
        command=tuple(body.command),
        environment=(*_environment(body.environment), *_hyperparameter_variables(hyperparameters)),
        init=True,  # a program without a handler for SIGTERM would ignore it as process 1
        files=(hyperparameters_file(hyperparameters),),
    )


def _returned(body: CreateTrainingJobRequest) -> Mapping[str, object]:
    members = {
        "description": body.description,
        "framework": body.framework,
        "modelConfig": body.model_config_,
        "datasetConfig": body.dataset_config,
        "gpuType": body.infrastructure.gpu_type,
        "storage": body.infrastructure.storage,
    }
    return {name: value for name, value in members.items() if value not in (None, "", {})}


def _key(request: web.Request, caller: Caller) -> SubmissionKey | None:
    """The idempotency key of a request; None without the header IDEMPOTENCY_KEY. Raises InvalidMember.

    It does not depend on the body: the handler compares the digests of the requests.
    """
    text = request.headers.get(IDEMPOTENCY_KEY)
    if text is None:
        return None
    if _PRINTABLE.fullmatch(text) is None:
        raise InvalidMember(f"{IDEMPOTENCY_KEY} must be 1 to 256 printable characters.", member=IDEMPOTENCY_KEY)
    principal = f"uid {caller.uid}" if caller.uid is not None else caller.key or caller.user
    return SubmissionKey(principal=f"{DIALECT.name} {principal}", invocation_id=text, body_sha256="")


def _matching(pattern: re.Pattern[str], text: str, member: str) -> str:
    if pattern.fullmatch(text) is None:
        raise InvalidMember(f"'{member}' must match {pattern.pattern}", member=member)
    return text


def _resources(given: InfrastructureRequest) -> Resources:
    millicpus = round(given.vcpus * 1000)
    if millicpus < 1 or abs(millicpus - given.vcpus * 1000) > _ROUNDING:
        member = "infrastructure.vcpus"
        raise InvalidMember(f"'{member}' must have at most three decimal places.", member=member)
    memory = parse_memory(given.memory)
    if memory is None or not MIN_MEMORY <= memory <= MAX_MEMORY:
        member = "infrastructure.memory"
        raise InvalidMember(f"'{member}' must be a size of at least {MIN_MEMORY}MB, as 8GB or 512MB.", member=member)
    return Resources(millicpus=millicpus, memory_mib=memory, gpus=given.gpu_count)


def _environment(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for name in given:
        if _VARIABLE.fullmatch(name) is None or name.startswith(RESERVED):
            text = f"must be letters, digits and underscores, and must not begin with {' or '.join(RESERVED)}."
            raise InvalidMember(f"The name of a variable {text}", member="environment")
    return tuple(given.items())


def _hyperparameter_variables(given: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    variables = hyperparameter_variables(given, VARIABLE)
    if len(variables) < len(given):
        raise InvalidMember("Two hyperparameters have the same variable BATCHQ_HP_NAME.", member="hyperparameters")
    if any("\0" in text or len(text) > MAX_VARIABLE for text in variables.values()):
        text = f"A hyperparameter must have at most {MAX_VARIABLE} characters and no NUL character."
        raise InvalidMember(text, member="hyperparameters")
    return tuple(variables.items())


def _timeout(text: str | None, least: int) -> timedelta | None:
    if text is None:
        return None
    length = parse_length(text)
    if length is None or length < timedelta(seconds=least):
        problem = f"'maxDuration' must be a duration of at least {least}s, as 6h, 90m or 1h30m."
        raise InvalidMember(problem, member="maxDuration")
    return length


def _tags(given: list[str]) -> Tags:
    """A tag is a key, or `KEY=VALUE`."""
    tags = {key: value for key, _, value in (text.partition("=") for text in given)}
    if "" in tags or any(tag.startswith(("batchq:", "io.batchq.")) for tag in tags):
        raise InvalidMember("A tag must not begin with '=', 'batchq:' or 'io.batchq.'.", member="tags")
    return tuple(tags.items())


def _declarations(body: CreateTrainingJobRequest) -> Tags:
    """The tags of the job that declare its checkpoints and its progress."""
    declared: dict[str, object] = {}
    if body.checkpoints is not None:
        declared = {
            CHECKPOINTS_TAG: "true",
            SIGNAL_TAG: body.checkpoints.signal,
            TIMEOUT_TAG: body.checkpoints.timeout_seconds,
        }
    declared |= {TOTAL_EPOCHS_TAG: body.progress.total_epochs, TOTAL_STEPS_TAG: body.progress.total_steps}
    return tuple((key, str(value)) for key, value in declared.items() if value is not None)


def _metric_rules(given: Sequence[MetricRequest]) -> tuple[MetricRule, ...]:
    rules = unique_metric_rules(*((request.name, request.regex) for request in given))
    if rules is None:
        raise InvalidMember("The names of metrics must be unique.", member="metrics")
    return rules


def _finite(content: Mapping[str, object], member: str) -> Mapping[str, object]:
    try:
        json.dumps(content, allow_nan=False)
    except ValueError:
        raise InvalidMember("A number must not be NaN or infinite.", member=member) from None
    return content
