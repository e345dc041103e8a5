"""Job definitions: register, deregister, describe."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import Field

from batchq.api.batch import consumable_resources, nodes, retry_strategy, validation
from batchq.api.batch.additions import definition_additions
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.consumable_resources import ConsumableResourceProperties
from batchq.api.batch.containers import ContainerProperties, to_single_container
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.eks import EksProperties, to_container
from batchq.api.batch.nodes import EcsProperties, NodeProperties, to_task
from batchq.api.batch.resources import older_members
from batchq.api.batch.retry_strategy import JobTimeout, RetryStrategyShape
from batchq.api.batch.validation import (
    NameList,
    OmittedIfEmpty,
    PageSize,
    Tags,
    Text,
    WireModel,
)
from batchq.api.operations.parts import Parts, ServerLimits
from batchq.domain.catalog import DefinitionStatus, JobDefinition, OverrideTerms
from batchq.domain.ids import DefinitionRef
from batchq.domain.job import ConsumableRequirement, RetryStrategy
from batchq.domain.node_ranges import needs_of_nodes
from batchq.domain.task import Nodes, one_container, one_task
from batchq.errors import Invalid, NotSupported

MAX_DESCRIBED = 100
DefinitionPage = tuple[list[JobDefinition], dict[str, str]]
MAX_REQUEST_SIZE = 24 * 1024  # bytes of a request
CACHED_DOCUMENTS = 128  # parsed documents in the cache
NOT_IN_DOCUMENT = {"jobDefinitionName", "tags"}
# AWS: if these members were omitted they are returned as empty lists; other omitted members are not returned.
EMPTY_LISTS = ("command", "environment", "mountPoints", "resourceRequirements", "secrets", "ulimits", "volumes")


class RegisterJobDefinition(WireModel):
    jobDefinitionName: Text
    type: Literal["container", "multinode"]
    parameters: dict[Text, Text] | None = None
    schedulingPriority: Annotated[int, Field(ge=0, le=9999)] | None = None
    containerProperties: Annotated[ContainerProperties | None, OmittedIfEmpty] = None
    nodeProperties: Annotated[NodeProperties | None, OmittedIfEmpty] = None
    retryStrategy: RetryStrategyShape | None = None
    propagateTags: bool | None = None
    timeout: JobTimeout | None = None
    tags: Tags | None = None
    platformCapabilities: list[Literal["EC2", "FARGATE", "MANAGED_INSTANCES"]] | None = None
    eksProperties: Annotated[EksProperties | None, OmittedIfEmpty] = None
    ecsProperties: Annotated[EcsProperties | None, OmittedIfEmpty] = None
    consumableResourceProperties: ConsumableResourceProperties | None = None


class DeregisterJobDefinition(WireModel):
    jobDefinition: Text


class DescribeJobDefinitions(WireModel):
    jobDefinitions: NameList | None = None
    maxResults: PageSize | None = None
    jobDefinitionName: Text | None = None
    status: Text | None = None
    nextToken: Text | None = None


def check_definition_size(body: bytes) -> None:
    if len(body) > MAX_REQUEST_SIZE:
        raise Invalid(f"Job definition size must be at most 24 KiB, got {len(body)} bytes")


async def register_job_definition(parts: Parts, request: BatchRequest, body: RegisterJobDefinition) -> Answer:
    """Registers a revision of a job definition."""
    definition = to_definition(body, arns=request.arns, limits=parts.limits, now=parts.clock.now())
    made = await parts.catalog.definitions.register(definition, caller=request.caller)
    arn = request.arns.definition(made.ref)
    return {"jobDefinitionName": made.ref.name, "jobDefinitionArn": arn, "revision": made.ref.revision}


async def deregister_job_definition(parts: Parts, request: BatchRequest, body: DeregisterJobDefinition) -> None:
    """Makes a revision of a job definition INACTIVE."""
    ref = revision_ref(body.jobDefinition, request.arns)
    if ref is None:
        raise Invalid("jobDefinition must be name:revision or the ARN of a revision.")
    await parts.catalog.definitions.deregister(ref, caller=request.caller)


async def describe_job_definitions(parts: Parts, request: BatchRequest, body: DescribeJobDefinitions) -> Answer:
    """Describes job definitions, by name, by status, or by revision.

    AWS: the named revisions, or a page of all, optionally of one name or status.
    """
    if body.jobDefinitions and (body.jobDefinitionName or body.status or body.maxResults or body.nextToken):
        raise Invalid("jobDefinitions cannot be used with other parameters.")
    found, more = await (_named(parts, body, request) if body.jobDefinitions else _page(parts, body, request))
    return {"jobDefinitions": [job_definition_detail(definition, request.arns) for definition in found], **more}


async def _named(parts: Parts, body: DescribeJobDefinitions, request: BatchRequest) -> DefinitionPage:
    refs = dict.fromkeys(revision_ref(text, request.arns) for text in body.jobDefinitions or ())
    return [
        definition
        for ref in refs
        if ref and (definition := await parts.catalog.definitions.get_visible(ref, caller=request.caller)) is not None
    ], {}


async def _page(parts: Parts, body: DescribeJobDefinitions, request: BatchRequest) -> DefinitionPage:
    name, status, limit = body.jobDefinitionName or None, body.status or None, body.maxResults or MAX_DESCRIBED
    query = ("DescribeJobDefinitions", name, status)
    after = DefinitionRef.parse(parts.tokens.read(query, body.nextToken)) if body.nextToken else None
    found = await parts.catalog.definitions.page(
        name=name, status=status, limit=limit + 1, after=after, caller=request.caller
    )
    entries = list(found[:limit])
    return entries, ({"nextToken": parts.tokens.make(query, str(entries[-1].ref))} if len(found) > limit else {})


@lru_cache(CACHED_DOCUMENTS)
def parse_document(text: str) -> Mapping[str, Any]:
    """Parse a stored document. The result is cached and shared, so it must not be changed."""
    read: Mapping[str, Any] = json.loads(text)
    return read


def to_definition(
    given: RegisterJobDefinition, *, arns: BatchArns, limits: ServerLimits, now: datetime
) -> JobDefinition:
    """The job definition to register; the catalog sets its revision. Raises Invalid."""
    ref = DefinitionRef(name=validation.name(given.jobDefinitionName, "jobDefinitionName"), revision=0)
    work = _to_work(given, arns)
    if work.privileged and not limits.privileged:
        raise NotSupported("privileged containers, and devices of the host, are not allowed by this server.")
    return JobDefinition(
        ref=ref,
        status=DefinitionStatus.ACTIVE,
        nodes=work.nodes,
        needs=work.needs,
        parameters=tuple((given.parameters or {}).items()),
        retry=retry_strategy.to_retry(given.retryStrategy) or RetryStrategy(),
        timeout=retry_strategy.to_timeout(given.timeout, limits.min_timeout),
        scheduling_priority=given.schedulingPriority,
        propagate_tags=bool(given.propagateTags),
        terms=work.terms,
        document=given.model_dump_json(exclude=NOT_IN_DOCUMENT, exclude_none=True),
        tags=validation.validated_tags(given.tags),
        created_at=now,
    )


class DefinedWork(Struct, frozen=True, kw_only=True):
    """What the jobs of a definition run."""

    nodes: Nodes
    #: The consumable resources that a job requires, for all its nodes.
    needs: tuple[ConsumableRequirement, ...]
    terms: OverrideTerms

    @property
    def privileged(self) -> bool:
        """Whether any container is privileged, or has devices of the host, which is equivalent."""
        specs = (container.spec for task in self.nodes.tasks for container in task.containers)
        return any(spec.privileged or spec.devices for spec in specs)


def _to_work(given: RegisterJobDefinition, arns: BatchArns) -> DefinedWork:
    """AWS: a job definition has exactly one kind of properties, which depends on its type."""
    fargate = "FARGATE" in (given.platformCapabilities or ())
    own = consumable_resources.to_needs(given.consumableResourceProperties, arns)
    if given.type == "multinode":
        return _gang(given, own, arns, fargate=fargate)
    if given.nodeProperties is not None:
        raise Invalid("nodeProperties can be specified only for a job definition of type multinode.")
    if given.containerProperties is not None and given.ecsProperties is not None:
        raise Invalid("Only one of containerProperties and ecsProperties can be provided.")
    if given.eksProperties is not None:
        if given.containerProperties is not None or given.ecsProperties is not None:
            raise Invalid("eksProperties cannot be used with containerProperties or ecsProperties.")
        if fargate:
            raise Invalid("FARGATE is not applicable for eksProperties.")
        return DefinedWork(nodes=one_container(to_container(given.eksProperties)), needs=own, terms=OverrideTerms())
    if given.ecsProperties is not None:
        task = to_task(given.ecsProperties, on_fargate=fargate)
        return DefinedWork(nodes=one_task(task), needs=own, terms=OverrideTerms(fargate=fargate))
    if given.containerProperties is None:
        raise Invalid("containerProperties must be provided.")
    terms = OverrideTerms(fargate=fargate, older_members=older_members(given.containerProperties))
    container = to_single_container(given.containerProperties, on_fargate=fargate)
    return DefinedWork(nodes=one_container(container), needs=own, terms=terms)


def _gang(
    given: RegisterJobDefinition, own: tuple[ConsumableRequirement, ...], arns: BatchArns, *, fargate: bool
) -> DefinedWork:
    if given.containerProperties or given.ecsProperties or given.eksProperties:
        raise Invalid("A multinode job definition has the properties of its containers in nodeProperties only.")
    if fargate:
        raise Invalid("multinode is not applicable for Fargate.")
    if given.nodeProperties is None:
        raise Invalid("nodeProperties must be provided.")
    gang = nodes.to_gang(given.nodeProperties)
    ranges = tuple(nodes.to_range_terms(properties, arns) for properties in given.nodeProperties.nodeRangeProperties)
    return DefinedWork(
        nodes=gang,
        needs=needs_of_nodes(own, [terms.needs for terms in ranges], gang),
        terms=OverrideTerms(needs=own, ranges=ranges),
    )


def revision_ref(text: str, arns: BatchArns) -> DefinitionRef | None:
    """The revision in `name:revision` or an ARN; None if there is none. Raises Invalid for another account's ARN."""
    name = arns.named(ArnKind.DEFINITION, text)
    return None if name is None else DefinitionRef.parse(name)


def job_definition_detail(registered: JobDefinition, arns: BatchArns) -> dict[str, object]:
    """The response of DescribeJobDefinitions: the registered document, with the revision and its status."""
    properties = dict(parse_document(registered.document))
    for member, show in _SHOWN.items():
        if member in properties:
            properties[member] = show(properties[member])
    return {
        "jobDefinitionName": registered.ref.name,
        "jobDefinitionArn": arns.definition(registered.ref),
        "revision": registered.ref.revision,
        "status": registered.status.value,
        "parameters": {},
        "tags": dict(registered.tags),
        "containerOrchestrationType": "EKS" if "eksProperties" in properties else "ECS",
        "platformCapabilities": ["EC2"],
        **properties,
        "batchq": definition_additions(registered),
    }


def _node_properties(registered: Mapping[str, Any]) -> dict[str, Any]:
    ranges = [
        {**member, "container": with_empty_lists(member["container"])} if "container" in member else member
        for member in registered["nodeRangeProperties"]
    ]
    return {**registered, "nodeRangeProperties": ranges}


def with_empty_lists(container: Mapping[str, Any]) -> dict[str, Any]:
    return {member: [] for member in EMPTY_LISTS} | dict(container)


_SHOWN: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "containerProperties": with_empty_lists,
    "nodeProperties": _node_properties,
    "retryStrategy": retry_strategy.registered_retry,
}
"""The members of a document that are returned in another form than they were registered."""
