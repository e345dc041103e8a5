"""SubmitJob: the request to a Submission, validated with the revision of the job definition that the job uses.

Overrides are of one container, of the containers of a task, or of the ranges of a gang's nodes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct
from pydantic import BaseModel, Field

from batchq.api.batch import containers, job_queues, nodes, resources, retry_strategy, validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.consumable_resources import ConsumableResourceProperties, Needs, gang_needs, to_needs
from batchq.api.batch.containers import ContainerOverrides
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.job_definitions import parse_document
from batchq.api.batch.nodes import (
    EcsPropertiesOverride,
    NodeOverrides,
    NodeProperties,
    NodePropertyOverride,
    NodeRangeProperty,
    TaskContainerOverrides,
)
from batchq.api.batch.retry_strategy import JobTimeout, RetryStrategyShape, to_retry
from batchq.api.batch.validation import Integer, Tags, Text, Unsupported, WireModel
from batchq.api.operations.parts import Parts, ServerLimits
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobDefinition
from batchq.domain.container import Overrides, length, reserved
from batchq.domain.ids import JobId
from batchq.domain.job import Dependency, DependencyType, JobSpec
from batchq.domain.task import ByName, NodeRange, Nodes, Task, effective_nodes, effective_task, together
from batchq.errors import Invalid, NotFound
from batchq.ports.jobs import SubmissionKey
from batchq.services.submissions import Submission

OLDER_MEMBERS = (("vcpus", "VCPU"), ("memory", "MEMORY"))
MAX_REQUEST_SIZE = 30 * 1024  # bytes of a request: AWS accepts less than this
MAX_DEPENDENCIES = 20
MIN_CHILDREN = 2
MAX_CHILDREN = 10_000
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SHARE = re.compile(r"[A-Za-z0-9]{1,255}")


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
    eksPropertiesOverride: Unsupported | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


def check_submission_size(body: bytes) -> None:
    if len(body) >= MAX_REQUEST_SIZE:
        raise Invalid(f"Job size must be less than 30 KiB, got {len(body) // 1024} KiB")


async def submit_job(context: Parts, request: BatchRequest, body: SubmitJob) -> Answer:
    """Submits a job, or an array of jobs, to a queue."""
    definition = await find_requested(context, body.jobDefinition, request)
    submission = batch_submission(body, definition, arns=request.arns, limits=context.limits, key=request.key)
    if request.strict and (refused := await check_submission(context, submission, definition, caller=request.caller)):
        raise Invalid(refused)
    job = await context.jobs.submit(submission, caller=request.caller)
    answer: Answer = {"jobArn": request.arns.job(job.id), "jobName": job.spec.name, "jobId": job.id}
    warning = _warning(context, job.spec, caller=request.caller)
    return answer if warning is None else answer | {"batchq": {"warning": warning}}


async def check_submission(
    context: Parts, submission: Submission, definition: JobDefinition, *, caller: Caller
) -> str | None:
    """Raise the errors of SubmitJob, without a change. Returns its warning; None: there is none."""
    queue = context.jobs.check(submission, caller=caller)
    spec = await context.jobs.checked_spec(submission, definition, queue, caller=caller)
    return _warning(context, spec, caller=caller)


def _warning(parts: Parts, spec: JobSpec, *, caller: Caller) -> str | None:
    """Why no compute environment of its queue could hold the job; None: one could."""
    queue = parts.catalog.queues_of(caller).get(spec.queue)  # None: the queue was deleted meanwhile
    return None if queue is None else parts.explanations.never_fits(spec, queue, now=parts.clock.now(), caller=caller)


async def find_requested(context: Parts, text: str, request: BatchRequest) -> JobDefinition:
    """The revision in a request's jobDefinition, or the newest ACTIVE one of the name. Raises Invalid, and NotFound."""
    named = request.arns.definition_named(validation.required(text, "jobDefinition"))
    if named is None:
        raise unknown_definition(text)
    try:
        return await context.catalog.definitions.find(*named, caller=request.caller)
    except NotFound:
        raise unknown_definition(text) from None


def batch_submission(
    given: SubmitJob, definition: JobDefinition, *, arns: BatchArns, limits: ServerLimits, key: SubmissionKey | None
) -> Submission:
    """Translate a request for this revision of the job definition. Raises Invalid, and NotFound.

    The Submission names the revision, because a newer one may be registered before the job is created.
    """
    if not _JOB_NAME.fullmatch(given.jobName):
        raise Invalid("Job name should match valid pattern")
    applied = apply_overrides(given, definition, arns)
    return Submission(
        name=given.jobName,
        queue=job_queues.queue_name(given.jobQueue, arns),
        definition_name=definition.ref.name,
        definition_revision=definition.ref.revision,
        overrides=applied.overrides,
        task=applied.task,
        nodes=applied.nodes,
        needs=applied.needs,
        array_size=_array_size(given.arrayProperties, definition),
        parameters=tuple((given.parameters or {}).items()),
        retry=to_retry(given.retryStrategy),
        timeout=retry_strategy.to_timeout(given.timeout, limits.min_timeout),
        depends_on=_dependencies(given.dependsOn or (), arns),
        tags=validation.validated_tags(given.tags),
        propagate_tags=given.propagateTags,
        share_identifier=_share(given.shareIdentifier),
        scheduling_priority=given.schedulingPriorityOverride,
        key=key,
    )


def unknown_definition(text: str) -> NotFound:
    """AWS: the text for a name differs from the one for an ARN."""
    if text.startswith("arn:"):
        return NotFound(f"JobDefinition {text} not found.")
    return NotFound(f"JobDefinition name {text} does not exist or is not in ACTIVE status")


def _array_size(given: ArrayProperties | None, definition: JobDefinition) -> int | None:
    size = None if given is None else given.size
    if size is None:
        return None
    if not MIN_CHILDREN <= size <= MAX_CHILDREN:
        raise Invalid(f"Array size must be between {MIN_CHILDREN} and {MAX_CHILDREN}")
    if definition.nodes is not None:
        raise Invalid("A job of a multinode job definition cannot be an array job.")
    return size


def _share(text: str | None) -> str | None:
    if text and not _SHARE.fullmatch(text):
        raise Invalid("shareIdentifier must be 1 to 255 letters and digits.")
    return text or None


def _dependencies(given: Sequence[JobDependency], arns: BatchArns) -> tuple[Dependency, ...]:
    if len(given) > MAX_DEPENDENCIES:
        raise Invalid(f"Job cannot have more than {MAX_DEPENDENCIES} dependencies")
    return tuple(_dependency(dependency, arns) for dependency in given)


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


class AppliedOverrides(Struct, frozen=True, kw_only=True):
    """The members of a Submission that result from the overrides."""

    #: The overrides whose length is limited: those of the only container, of all containers of the task together, or of
    #: all containers of the node range with the longest ones.
    overrides: Overrides
    #: The definition's task with the changes; None for another kind of definition.
    task: Task | None = None
    #: The definition's gang with the changes; None without changes, and for another kind of definition.
    nodes: Nodes | None = None
    #: None: those of the definition.
    needs: Needs | None = None


def apply_overrides(given: SubmitJob, definition: JobDefinition, arns: BatchArns) -> AppliedOverrides:
    """Apply a request's overrides to the job definition. Raises Invalid, and NotFound."""
    validation.refuse_unsupported({"eksPropertiesOverride": given.eksPropertiesOverride}, validation.KUBERNETES)
    if definition.nodes is not None:
        _refuse_other_overrides(given, "nodeOverrides", "nodeProperties")
        return _gang(given, definition.nodes, parse_document(definition.document), arns)
    if definition.task is not None:
        _refuse_other_overrides(given, "ecsPropertiesOverride", "ecsProperties")
        return _task(given, definition.task, parse_document(definition.document), arns)
    _refuse_other_overrides(given, "containerOverrides", "containerProperties")
    return _container(given, definition, arns)


def container_overrides(given: ContainerOverrides | None, registered: Mapping[str, Any]) -> Overrides:
    """The overrides of one container, whose containerProperties are `registered`. Raises Invalid.

    AWS: the older members `vcpus` and `memory` do not override an entry of the definition's resourceRequirements. An
    empty command overrides nothing; another must not have empty elements.
    """
    if given is None:
        return Overrides()
    if "" in (given.command or ()):
        raise Invalid("The command of containerOverrides must not have empty elements.")
    requested = resources.requested_resources(given)
    named = {entry["type"] for entry in registered.get("resourceRequirements", ())}
    older = {member: None for member, kind in OLDER_MEMBERS if kind in named and getattr(given, member) is not None}
    if older:
        requested = resources.requested_resources(given.model_copy(update=older))
    return Overrides(
        command=tuple(given.command) if given.command else None,
        environment=containers.environment_variables(given.environment),
        millicpus=requested.millicpus,
        memory_mib=requested.memory_mib,
        gpus=requested.gpus,
    )


def task_overrides(given: EcsPropertiesOverride | None, task: Task) -> ByName:
    """The overrides by the names of containers. A task's only container need not be named. Raises Invalid."""
    requested = (given and given.taskProperties) or []
    if len(requested) > 1:
        raise Invalid("taskProperties must have exactly 1 element.")
    containers = [overrides for one in requested for overrides in one.containers or ()]
    alone = task.containers[0].name if len(task.containers) == 1 else ""
    names = [overrides.name or alone for overrides in containers]
    validation.unique(names, "A container in ecsPropertiesOverride")
    for name in names:
        if name not in {container.name for container in task.containers}:
            raise Invalid(f"Container '{name}' in ecsPropertiesOverride is not one of the job definition's.")
    return {
        name: container_overrides(_container_members(overrides), {})
        for name, overrides in zip(names, containers, strict=True)
    }


def _container_members(given: TaskContainerOverrides) -> ContainerOverrides:
    return ContainerOverrides(
        command=given.command, environment=given.environment, resourceRequirements=given.resourceRequirements
    )


def _refuse_other_overrides(given: SubmitJob, member: str, kind: str) -> None:
    """Raise Invalid for overrides of another kind than the definition's, which is `member`."""
    for other in ("containerOverrides", "ecsPropertiesOverride", "nodeOverrides"):
        if other != member and _has_members(getattr(given, other)):
            raise Invalid(f"{other} cannot be specified for a job definition that has {kind}: use {member}.")


def _has_members(given: BaseModel | None) -> bool:
    return given is not None and any(vars(given).values())


def _container(given: SubmitJob, definition: JobDefinition, arns: BatchArns) -> AppliedOverrides:
    """Without overrides nothing is validated: the definition was validated when it was registered."""
    if not _has_members(given.containerOverrides):
        return AppliedOverrides(overrides=Overrides(), needs=_needs(given, arns))
    registered = parse_document(definition.document)
    wanted = container_overrides(given.containerOverrides, registered.get("containerProperties", {}))
    resources.check_resources(reserved(definition.container.resources, wanted), fargate=_fargate(registered))
    return AppliedOverrides(overrides=wanted, needs=_needs(given, arns))


def _task(given: SubmitJob, task: Task, registered: Mapping[str, Any], arns: BatchArns) -> AppliedOverrides:
    by_name = task_overrides(given.ecsPropertiesOverride, task)
    wanted = _checked(effective_task(task, by_name, ()), fargate=_fargate(registered))
    return AppliedOverrides(overrides=together(by_name.values()), task=wanted, needs=_needs(given, arns))


def _needs(given: SubmitJob, arns: BatchArns) -> Needs | None:
    """None: those of the definition."""
    return to_needs(given.consumableResourcePropertiesOverride, arns) or None


def _checked(task: Task, *, fargate: bool) -> Task:
    for container in task.containers:
        resources.check_memory(container.spec.resources)
    resources.check_resources(task.resources, fargate=fargate)
    return task


def _fargate(registered: Mapping[str, Any]) -> bool:
    return "FARGATE" in registered.get("platformCapabilities", ())


def _gang(given: SubmitJob, defined: Nodes, registered: Mapping[str, Any], arns: BatchArns) -> AppliedOverrides:
    if given.nodeOverrides is None and given.consumableResourcePropertiesOverride is None:
        return AppliedOverrides(overrides=Overrides())
    requested = given.nodeOverrides or NodeOverrides()
    properties = NodeProperties.model_validate(registered["nodeProperties"])
    same = requested.numNodes is None or requested.numNodes == defined.count
    gang = defined if same else nodes.resize_gang(properties, requested.numNodes or 0)
    targets = _targets(requested, properties, gang)
    by_range = {
        (node_range.first, node_range.last): _of_range(
            targets[place], node_range, properties.nodeRangeProperties[place]
        )
        for place, node_range in enumerate(gang.ranges)
        if place in targets
    }
    wanted = effective_nodes(gang, by_range, ())
    for node_range in wanted.ranges:
        _checked(node_range.task, fargate=False)
    longest = max((together(document.values()) for document in by_range.values()), key=length, default=Overrides())
    own = to_needs(
        _override_or_registered(given.consumableResourcePropertiesOverride, _registered_needs(registered)), arns
    )
    needed = gang_needs(own, _each_needs(properties, targets), wanted, arns)
    return AppliedOverrides(overrides=longest, nodes=wanted, needs=needed)


def _targets(requested: NodeOverrides, properties: NodeProperties, gang: Nodes) -> dict[int, NodePropertyOverride]:
    """The overrides by the index of their range. AWS: each must target one of the definition's ranges."""
    places = {
        noderangeproperty.targetNodes: place for place, noderangeproperty in enumerate(properties.nodeRangeProperties)
    }
    places |= {f"{node_range.first}:{node_range.last}": place for place, node_range in enumerate(gang.ranges)}
    listed = requested.nodePropertyOverrides or []
    found = [
        places.get(override.targetNodes, places.get(_closed_range(override.targetNodes, gang.count)))
        for override in listed
    ]
    unknown = [override.targetNodes for override, place in zip(listed, found, strict=True) if place is None]
    if unknown:
        text = "NodeOverride targets should match job definition. Non matching targets - "
        raise Invalid(text + ", ".join(unknown))
    validation.unique(found, "A range of nodePropertyOverrides")
    return {place: override for place, override in zip(found, listed, strict=True) if place is not None}


def _closed_range(text: str, count: int) -> str:
    first, last = nodes.node_bounds(text)
    return f"{first}:{count - 1 if last is None else last}"


def _of_range(given: NodePropertyOverride, range_: NodeRange, registered: NodeRangeProperty) -> ByName:
    validation.refuse_unsupported({"eksPropertiesOverride": given.eksPropertiesOverride}, validation.KUBERNETES)
    if registered.container is None:
        if _has_members(given.containerOverrides):
            raise Invalid(f"containerOverrides cannot be specified for the nodes {given.targetNodes}.")
        return task_overrides(given.ecsPropertiesOverride, range_.task)
    if _has_members(given.ecsPropertiesOverride):
        raise Invalid(f"ecsPropertiesOverride cannot be specified for the nodes {given.targetNodes}.")
    container = registered.container.model_dump(exclude_none=True)
    return {range_.task.leading.name: container_overrides(given.containerOverrides, container)}


def _registered_needs(registered: Mapping[str, Any]) -> ConsumableResourceProperties:
    return ConsumableResourceProperties.model_validate(registered.get("consumableResourceProperties", {}))


def _each_needs(
    properties: NodeProperties, targets: Mapping[int, NodePropertyOverride]
) -> list[ConsumableResourceProperties | None]:
    overrides = {place: override.consumableResourcePropertiesOverride for place, override in targets.items()}
    registered = [
        noderangeproperty.consumableResourceProperties for noderangeproperty in properties.nodeRangeProperties
    ]
    return [
        _override_or_registered(overrides.get(place), other_properties)
        for place, other_properties in enumerate(registered)
    ]


def _override_or_registered(
    given: ConsumableResourceProperties | None, registered: ConsumableResourceProperties | None
) -> ConsumableResourceProperties | None:
    """AWS: an override replaces what was registered. An empty list counts as omitted."""
    return given if given is not None and given.consumableResourceList else registered
