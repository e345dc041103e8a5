"""SubmitJob: the members of the request, their spellings in a JobRequest, and the operation."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Annotated, Any

from msgspec import Struct
from pydantic import Field

from batchq.api.batch import containers, resources, validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.consumable_resources import ConsumableResourceProperties, to_needs
from batchq.api.batch.containers import ContainerOverrides
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.eks import EksPropertiesOverride, to_overrides
from batchq.api.batch.nodes import EcsPropertiesOverride, NodeOverrides, NodePropertyOverride, TaskContainerOverrides
from batchq.api.batch.retry_strategy import JobTimeout, RetryStrategyShape, to_retry, to_timeout
from batchq.api.batch.validation import Integer, Tags, Text, WireModel
from batchq.api.operations.parts import Parts, ServerLimits
from batchq.domain.container import Overrides
from batchq.domain.enums import DependencyType
from batchq.domain.ids import JobId, QueueName, SubmissionKey
from batchq.domain.job import ConsumableRequirement, Dependency
from batchq.domain.job_request import JobRequest, MultiNodeOverrides, NamedOverrides, RangeOverrides
from batchq.errors import DefinitionNotFound, Invalid, NotFound

MAX_REQUEST_SIZE = 30 * 1024  # bytes of a request: AWS accepts less than this
MAX_DEPENDENCIES = 20
MIN_CHILDREN = 2
MAX_CHILDREN = 10_000
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SHARE = re.compile(r"[A-Za-z0-9]{1,255}\*?")


class ArrayProperties(WireModel):
    size: Integer | None = None


class JobDependency(WireModel):
    jobId: Text | None = None
    type: Text | None = None


class SubmitJob(WireModel):
    jobName: Text
    jobQueue: Text
    jobDefinition: Text
    shareIdentifier: Text | None = None
    schedulingPriorityOverride: Annotated[int, Field(ge=0, le=9999)] | None = None
    arrayProperties: ArrayProperties | None = None
    dependsOn: list[JobDependency] | None = None
    parameters: dict[Text, Text] | None = None
    containerOverrides: ContainerOverrides | None = None
    nodeOverrides: NodeOverrides | None = None
    retryStrategy: RetryStrategyShape | None = None
    propagateTags: bool | None = None
    timeout: JobTimeout | None = None
    tags: Tags | None = None
    eksPropertiesOverride: EksPropertiesOverride | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


def check_submission_size(body: bytes) -> None:
    if len(body) >= MAX_REQUEST_SIZE:
        raise Invalid(f"Job size must be less than 30 KiB, got {len(body) // 1024} KiB")


async def submit_job(parts: Parts, request: BatchRequest, body: SubmitJob) -> Answer:
    """Submits a job, or an array of jobs, to a queue."""
    requested = to_job_request(body, arns=request.arns, limits=parts.limits, key=submission_key(request))
    try:
        job = await parts.submissions.submit(requested, caller=request.caller, strict=request.strict)
    except DefinitionNotFound:
        raise unknown_definition(body.jobDefinition) from None
    answer: Answer = {"jobArn": request.arns.job(job.id), "jobName": job.spec.name, "jobId": job.id}
    warning = parts.submissions.warning(job.spec, requested.tags, caller=request.caller)
    return answer if warning is None else answer | {"batchq": {"warning": warning}}


def submission_key(request: BatchRequest) -> SubmissionKey | None:
    """Identifies a repeated SubmitJob; None without an invocation id."""
    if not request.invocation:
        return None
    digest = sha256(request.body).hexdigest()
    return SubmissionKey(principal=request.principal, invocation_id=request.invocation, body_sha256=digest)


def unknown_definition(text: str) -> NotFound:
    """AWS: the text for a name differs from the one for an ARN."""
    if text.startswith("arn:"):
        return NotFound(f"JobDefinition {text} not found.")
    return NotFound(f"JobDefinition name {text} does not exist or is not in ACTIVE status")


class SpellingContext(Struct, frozen=True, kw_only=True):
    """What the converters of members depend on."""

    arns: BatchArns
    limits: ServerLimits


class Spelling(Struct, frozen=True):
    """One member of SubmitJob."""

    member: str
    #: The attribute of JobRequest.
    attribute: str
    #: Converts a value other than None. Raises Invalid and NotFound.
    convert: Callable[[Any, SpellingContext], object]


def to_job_request(given: SubmitJob, *, arns: BatchArns, limits: ServerLimits, key: SubmissionKey | None) -> JobRequest:
    """Translate a request. Raises Invalid and NotFound for what is wrong in any job definition."""
    definition = arns.definition_named(validation.required(given.jobDefinition, "jobDefinition"))
    if definition is None:
        raise unknown_definition(given.jobDefinition)
    context = SpellingContext(arns=arns, limits=limits)
    attributes: dict[str, Any] = {
        spelling.attribute: spelling.convert(value, context)
        for spelling in SPELLINGS
        if (value := getattr(given, spelling.member)) is not None
    }
    if given.containerOverrides is not None:
        attributes["older_members"] = resources.older_members(given.containerOverrides)
    of_pod = None if given.eksPropertiesOverride is None else to_overrides(given.eksPropertiesOverride)
    if of_pod is not None:
        if attributes.get("overrides") is not None:
            raise Invalid("Only one of containerOverrides and eksPropertiesOverride can be provided.")
        attributes["overrides"] = of_pod
    return JobRequest(
        definition_name=definition[0],
        definition_revision=definition[1],
        key=key,
        **attributes,
    )


def _unchanged(value: object, _: SpellingContext) -> object:
    return value


def _name(text: str, _: SpellingContext) -> str:
    if not _JOB_NAME.fullmatch(text):
        raise Invalid("Job name should match valid pattern")
    return text


def _queue(text: str, context: SpellingContext) -> QueueName:
    return context.arns.queue_named(text)


def _array_size(given: ArrayProperties, _: SpellingContext) -> int | None:
    if given.size is not None and not MIN_CHILDREN <= given.size <= MAX_CHILDREN:
        raise Invalid(f"Array size must be between {MIN_CHILDREN} and {MAX_CHILDREN}")
    return given.size


def _share(text: str, _: SpellingContext) -> str | None:
    if text and not _SHARE.fullmatch(text):
        raise Invalid("shareIdentifier must be 1 to 255 letters and digits, which an asterisk may follow.")
    return text or None


def _timeout(given: JobTimeout, context: SpellingContext) -> timedelta | None:
    return to_timeout(given, context.limits.min_timeout)


def _dependencies(given: Sequence[JobDependency], context: SpellingContext) -> tuple[Dependency, ...]:
    if len(given) > MAX_DEPENDENCIES:
        raise Invalid(f"Job cannot have more than {MAX_DEPENDENCIES} dependencies")
    return tuple(_dependency(dependency, context.arns) for dependency in given)


def _dependency(given: JobDependency, arns: BatchArns) -> Dependency:
    """AWS: SEQUENTIAL without a job is between the children of one array; N_TO_N is between two arrays."""
    if given.type and given.type not in set(DependencyType):
        raise Invalid(f"The type of a dependency must be one of {', '.join(DependencyType)}.")
    kind = DependencyType(given.type) if given.type else None
    if kind is DependencyType.SEQUENTIAL and not given.jobId:
        return Dependency(job_id=None, type=kind)
    job_id = arns.named(ArnKind.JOB, validation.required(given.jobId or "", "jobId"))
    if job_id is None:
        raise Invalid(f"Job {given.jobId} in dependsOn does not exist.")
    return Dependency(job_id=JobId(job_id), type=kind)


def _needs(given: ConsumableResourceProperties, context: SpellingContext) -> tuple[ConsumableRequirement, ...] | None:
    return to_needs(given, context.arns) or None


def _container(given: ContainerOverrides | None, _: SpellingContext) -> Overrides | None:
    """The overrides of one container; None without a member that is not empty.

    AWS: an empty command overrides nothing; another must not have empty elements.
    """
    if given is None or not any(vars(given).values()):
        return None
    if "" in (given.command or ()):
        raise Invalid("The command of containerOverrides must not have empty elements.")
    requested = resources.requested_resources(given)
    return Overrides(
        command=tuple(given.command) if given.command else None,
        environment=containers.environment_variables(given.environment),
        millicpus=requested.millicpus,
        memory_mib=requested.memory_mib,
        gpus=requested.gpus,
    )


def _task(given: EcsPropertiesOverride | None, context: SpellingContext) -> NamedOverrides | None:
    if given is None or not given.taskProperties:
        return None
    if len(given.taskProperties) > 1:
        raise Invalid("taskProperties must have exactly 1 element.")
    return tuple(
        (overrides.name or "", _container(_container_members(overrides), context) or Overrides())
        for overrides in given.taskProperties[0].containers or ()
    )


def _container_members(given: TaskContainerOverrides) -> ContainerOverrides:
    return ContainerOverrides(
        command=given.command, environment=given.environment, resourceRequirements=given.resourceRequirements
    )


def _nodes(given: NodeOverrides, context: SpellingContext) -> MultiNodeOverrides:
    ranges = tuple(_range(overrides, context) for overrides in given.nodePropertyOverrides or ())
    return MultiNodeOverrides(count=given.numNodes, ranges=ranges)


def _range(given: NodePropertyOverride, context: SpellingContext) -> RangeOverrides:
    validation.refuse_unsupported({"eksPropertiesOverride": given.eksPropertiesOverride}, validation.KUBERNETES)
    return RangeOverrides(
        target=given.targetNodes,
        overrides=_container(given.containerOverrides, context),
        older_members=resources.older_members(given.containerOverrides),
        task_overrides=_task(given.ecsPropertiesOverride, context),
        needs=to_needs(given.consumableResourcePropertiesOverride, context.arns),
    )


SPELLINGS = (
    Spelling("jobName", "name", _name),
    Spelling("jobQueue", "queue", _queue),
    Spelling("containerOverrides", "overrides", _container),
    Spelling("ecsPropertiesOverride", "task_overrides", _task),
    Spelling("nodeOverrides", "node_overrides", _nodes),
    Spelling("consumableResourcePropertiesOverride", "needs", _needs),
    Spelling("arrayProperties", "array_size", _array_size),
    Spelling("parameters", "parameters", lambda given, _: tuple(given.items())),
    Spelling("retryStrategy", "retry", lambda given, _: to_retry(given)),
    Spelling("timeout", "timeout", _timeout),
    Spelling("dependsOn", "depends_on", _dependencies),
    Spelling("tags", "tags", lambda given, _: validation.validated_tags(given)),
    Spelling("propagateTags", "propagate_tags", _unchanged),
    Spelling("shareIdentifier", "share_identifier", _share),
    Spelling("schedulingPriorityOverride", "scheduling_priority", _unchanged),
)
"""The members of SubmitJob, in the order in which they are validated; `jobDefinition` is read by `to_job_request`."""
