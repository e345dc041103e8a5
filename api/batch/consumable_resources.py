"""Consumable resources: create, update, delete, describe, list; the quantities that jobs require, and those jobs."""

from collections.abc import Sequence
from typing import Annotated

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.validation import KeyValuesPair, Long, PageSize, Tags, Text, WireModel
from batchq.api.http.page_tokens import page_of_entries
from batchq.api.operations.parts import Parts
from batchq.domain.catalog import ConsumableResource, QuantityOperation, ResourceKind, require_unique
from batchq.domain.ids import ConsumableName
from batchq.domain.job import ConsumableRequirement, Job
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.node_ranges import Needs
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, NotFound
from batchq.ports.catalog import NeedQuery
from batchq.services.catalog import Quantities

Content = dict[str, object]
MAX_LISTED_JOBS = 100
_BY_NAME = "CONSUMABLE_RESOURCE_NAME"
_BY_STATUS, _BY_JOB_NAME = "JOB_STATUS", "JOB_NAME"


class CreateConsumableResource(WireModel):
    consumableResourceName: Text
    totalQuantity: Long | None = None
    resourceType: Text | None = None
    tags: Tags | None = None


class UpdateConsumableResource(WireModel):
    consumableResource: Text
    operation: Text | None = None
    quantity: Long | None = None
    clientToken: Annotated[Text, Field(min_length=1, max_length=64)] | None = None


class DeleteConsumableResource(WireModel):
    consumableResource: Text


class DescribeConsumableResource(WireModel):
    consumableResource: Text


class ListConsumableResources(WireModel):
    filters: list[KeyValuesPair] | None = None
    maxResults: PageSize | None = None
    nextToken: Text | None = None


class ListJobsByConsumableResource(WireModel):
    consumableResource: Text
    filters: list[KeyValuesPair] | None = None
    maxResults: PageSize | None = None
    nextToken: Text | None = None


class ConsumableResourceRequirement(WireModel):
    consumableResource: Text | None = None
    quantity: Long | None = None


class ConsumableResourceProperties(WireModel):
    consumableResourceList: list[ConsumableResourceRequirement] | None = None


async def create_consumable_resource(parts: Parts, request: BatchRequest, body: CreateConsumableResource) -> Answer:
    """Creates a consumable resource: a number of units that running jobs hold."""
    resource = ConsumableResource(
        name=ConsumableName(validation.name(body.consumableResourceName, "consumableResourceName")),
        total=body.totalQuantity or 0,
        kind=resource_kind(body.resourceType),
        tags=validation.validated_tags(body.tags),
        created_at=parts.clock.now(),
    )
    return _name_and_arn(await parts.catalog.consumable_resources.create(resource, caller=request.caller), request)


async def update_consumable_resource(parts: Parts, request: BatchRequest, body: UpdateConsumableResource) -> Answer:
    """Sets, increases or decreases the total quantity of a consumable resource."""
    name = resource_name(body.consumableResource, request.arns)
    operation, quantity = to_operation(body)
    resources = parts.catalog.consumable_resources
    made = await resources.change_total(
        name, operation=operation, quantity=quantity, token=body.clientToken, caller=request.caller
    )
    return _name_and_arn(made, request) | {"totalQuantity": resources.quantities(made).total}


async def delete_consumable_resource(parts: Parts, request: BatchRequest, body: DeleteConsumableResource) -> None:
    """Deletes a consumable resource."""
    await parts.catalog.consumable_resources.delete(
        resource_name(body.consumableResource, request.arns), caller=request.caller
    )


async def describe_consumable_resource(parts: Parts, request: BatchRequest, body: DescribeConsumableResource) -> Answer:
    """Describes a consumable resource, with the units in use."""
    resources = parts.catalog.consumable_resources
    found = resources.get(resource_name(body.consumableResource, request.arns))
    return consumable_resource_detail(found, resources.quantities(found), request.arns)


async def list_consumable_resources(parts: Parts, request: BatchRequest, body: ListConsumableResources) -> Answer:
    """Lists consumable resources, with the units in use."""
    wanted = name_patterns(body.filters)
    resources = parts.catalog.consumable_resources
    found = {
        name: resource for name, resource in resources.known.items() if wanted is None or matches_any(name, wanted)
    }
    entries, more = page_of_entries(found, body, query=("ListConsumableResources", wanted), tokens=parts.tokens)
    listed = [summary_to_wire(resource, resources.quantities(resource), request.arns) for resource in entries]
    return {"consumableResources": listed, **more}


async def list_jobs_by_consumable_resource(
    parts: Parts, request: BatchRequest, body: ListJobsByConsumableResource
) -> Answer:
    """Lists the jobs that require a consumable resource."""
    query = job_query(body, request.arns)
    token = ("ListJobsByConsumableResource", query.resource, query.status, query.name)
    if body.nextToken:
        query = replace(query, before=int(parts.tokens.read(token, body.nextToken)))
    jobs = await parts.jobs.list_needing(replace(query, limit=query.limit + 1), caller=request.caller)
    entries = jobs[: query.limit]
    answer: Answer = {"jobs": [job_to_wire(job, query.resource, request.arns) for job in entries]}
    return answer | (
        {"nextToken": parts.tokens.make(token, str(entries[-1].sequence))} if len(jobs) > len(entries) else {}
    )


def _name_and_arn(resource: ConsumableResource, request: BatchRequest) -> Answer:
    arn = request.arns.consumable(resource.name)
    return {"consumableResourceName": resource.name, "consumableResourceArn": arn}


def resource_name(text: str, arns: BatchArns) -> ConsumableName:
    return ConsumableName(arns.required_name(ArnKind.CONSUMABLE, text, member="consumableResource"))


def resource_kind(text: str | None) -> ResourceKind:
    if text and text not in set(ResourceKind):
        raise Invalid(f"resourceType must be one of {', '.join(ResourceKind)}.")
    return ResourceKind(text or ResourceKind.REPLENISHABLE)


def to_operation(given: UpdateConsumableResource) -> tuple[QuantityOperation, int]:
    """The operation, and its number of units. Raises Invalid if one is missing, although AWS marks both as optional."""
    name = validation.required(given.operation or "", "operation")
    if name not in set(QuantityOperation):
        raise Invalid(f"operation must be one of {', '.join(QuantityOperation)}.")
    if given.quantity is None:
        raise Invalid("'quantity' is a required field")
    return QuantityOperation(name), given.quantity


def consumable_resource_detail(resource: ConsumableResource, quantities: Quantities, arns: BatchArns) -> Content:
    return {
        **summary_to_wire(resource, quantities, arns),
        "availableQuantity": quantities.available,
        "createdAt": milliseconds(resource.created_at),
        "tags": dict(resource.tags),
    }


def summary_to_wire(resource: ConsumableResource, quantities: Quantities, arns: BatchArns) -> Content:
    return {
        "consumableResourceArn": arns.consumable(resource.name),
        "consumableResourceName": resource.name,
        "totalQuantity": quantities.total,
        "inUseQuantity": quantities.in_use,
        "resourceType": resource.kind.value,
    }


def name_patterns(filters: Sequence[KeyValuesPair] | None) -> tuple[str, ...] | None:
    """The requested names, in lower case; a trailing `*` matches any rest. None: all names. Raises Invalid."""
    values = [validation.filter_values(pair) for pair in filters or () if validation.filter_name(pair, (_BY_NAME,))]
    if len(values) > 1:
        raise Invalid("Only one filter key-value pair can be specified.")
    return tuple(text.lower() for text in values[0]) if values else None


def matches_any(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name matches one of the names that `name_patterns` returned."""
    lowered = name.lower()
    return any(lowered.startswith(text[:-1]) if text.endswith("*") else lowered == text for text in wanted)


def job_query(given: ListJobsByConsumableResource, arns: BatchArns) -> NeedQuery:
    """The query for the first page. Both filters may be given, each with one value. Raises Invalid, and NotFound."""
    named = {
        validation.filter_name(pair, (_BY_STATUS, _BY_JOB_NAME)): _single_value(pair) for pair in given.filters or ()
    }
    if len(named) != len(given.filters or ()):
        raise Invalid("A filter must not be named more than once.")
    return NeedQuery(
        resource=resource_name(given.consumableResource, arns),
        status=None if _BY_STATUS not in named else validation.job_status(named[_BY_STATUS]),
        name=named.get(_BY_JOB_NAME),
        limit=given.maxResults or MAX_LISTED_JOBS,
    )


def job_to_wire(job: Job, resource: ConsumableName, arns: BatchArns) -> Content:
    """A job that requires some of this resource. Members without a value are omitted."""
    needs = job.spec.needs
    members: dict[str, object | None] = {
        "jobArn": arns.job(job.id),
        "jobQueueArn": arns.queue(job.spec.queue),
        "jobName": job.spec.name,
        "jobDefinitionArn": arns.definition(job.spec.definition),
        "shareIdentifier": job.spec.share_identifier,
        "jobStatus": job.status.value,
        "quantity": sum(requirement.quantity for requirement in needs if requirement.resource == resource),
        "statusReason": shown_status_reason(job),
        "startedAt": job.started_at and milliseconds(job.started_at),
        "createdAt": milliseconds(job.created_at),
        "consumableResourceProperties": needs_to_wire(needs, arns),
    }
    return {member: value for member, value in members.items() if value is not None}


def _single_value(given: KeyValuesPair) -> str:
    values = validation.filter_values(given)
    if len(values) > 1:
        raise Invalid(f"The filter {given.name} must have one value.")
    return values[0]


def to_needs(given: ConsumableResourceProperties | None, arns: BatchArns) -> Needs:
    made = tuple(_to_need(requirement, arns) for requirement in (given and given.consumableResourceList) or ())
    require_unique((requirement.resource for requirement in made), "A consumable resource")
    return made


def _to_need(given: ConsumableResourceRequirement, arns: BatchArns) -> ConsumableRequirement:
    text = validation.required(given.consumableResource or "", "consumableResource")
    name = arns.named(ArnKind.CONSUMABLE, text)
    if name is None:
        raise NotFound(f"ConsumableResource {text} not found.")
    if given.quantity is None or given.quantity < 1:
        raise Invalid("The quantity of a consumable resource must be at least 1.")
    return ConsumableRequirement(resource=ConsumableName(name), quantity=given.quantity)


def needs_to_wire(listed: Needs, arns: BatchArns) -> dict[str, object]:
    return {
        "consumableResourceList": [
            {"consumableResource": arns.consumable(requirement.resource), "quantity": requirement.quantity}
            for requirement in listed
        ]
    }
