"""Consumable resources: requests to the domain's values, and values to responses; and the jobs that require one."""

from collections.abc import Sequence

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.translate import validation
from batchq.api.batch.wire.consumable_resources import (
    Filter,
    ListJobsByConsumableResource,
    UpdateConsumableResource,
)
from batchq.api.http import milliseconds
from batchq.domain.catalog import ConsumableResource, Operation, ResourceKind
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import ConsumableName
from batchq.domain.job import Job, Status
from batchq.errors import Invalid, NotFound
from batchq.ports.catalog import NeedQuery
from batchq.services.consumable_resources import Quantities

Content = dict[str, object]

MOST_VALUES = 100
MOST_LISTED = 100

_BY_NAME = "CONSUMABLE_RESOURCE_NAME"
_BY_STATUS, _BY_JOB_NAME = "JOB_STATUS", "JOB_NAME"


def name_of(text: str, arns: BatchArns) -> ConsumableName:
    name = arns.named(ArnKind.CONSUMABLE, validation.required(text, "consumableResource"))
    if name is None:
        raise NotFound(f"ConsumableResource {text} not found.")
    return ConsumableName(name)


def kind(text: str | None) -> ResourceKind:
    if text and text not in set(ResourceKind):
        raise Invalid(f"resourceType must be one of {', '.join(ResourceKind)}.")
    return ResourceKind(text or ResourceKind.REPLENISHABLE)


def operation(given: UpdateConsumableResource) -> tuple[Operation, int]:
    """The operation, and its number of units. Raises Invalid if one is missing, although AWS marks both as optional."""
    name = validation.required(given.operation or "", "operation")
    if name not in set(Operation):
        raise Invalid(f"operation must be one of {', '.join(Operation)}.")
    if given.quantity is None:
        raise Invalid("'quantity' is a required field")
    return Operation(name), given.quantity


def detail(resource: ConsumableResource, there: Quantities, arns: BatchArns) -> Content:
    return {
        **summary(resource, there, arns),
        "availableQuantity": there.available,
        "createdAt": milliseconds(resource.created_at),
        "tags": dict(resource.tags),
    }


def summary(resource: ConsumableResource, there: Quantities, arns: BatchArns) -> Content:
    return {
        "consumableResourceArn": arns.consumable(resource.name),
        "consumableResourceName": resource.name,
        "totalQuantity": there.total,
        "inUseQuantity": there.in_use,
        "resourceType": resource.kind.value,
    }


def patterns(filters: Sequence[Filter] | None) -> tuple[str, ...] | None:
    """The requested names, in lower case; a trailing `*` matches any rest. None: all names. Raises Invalid."""
    values = [_values(it) for it in filters or () if _named(it, (_BY_NAME,))]
    if len(values) > 1:
        raise Invalid("Only one filter key-value pair can be specified.")
    return tuple(it.lower() for it in values[0]) if values else None


def matches(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name matches one of the names that `patterns` returned."""
    said = name.lower()
    return any(said.startswith(it[:-1]) if it.endswith("*") else said == it for it in wanted)


def need_query(given: ListJobsByConsumableResource, arns: BatchArns) -> NeedQuery:
    """The query for the first page. Both filters may be given, each with one value. Raises Invalid, and NotFound."""
    named = {_named(it, (_BY_STATUS, _BY_JOB_NAME)): _value(it) for it in given.filters or ()}
    if len(named) != len(given.filters or ()):
        raise Invalid("A filter must not be named more than once.")
    return NeedQuery(
        resource=name_of(given.consumableResource, arns),
        status=_status(named.get(_BY_STATUS)),
        name=named.get(_BY_JOB_NAME),
        limit=given.maxResults or MOST_LISTED,
    )


def needing(job: Job, resource: ConsumableName, arns: BatchArns) -> Content:
    """A job that requires some of this resource. Members without a value are omitted."""
    needs = job.spec.needs
    told: dict[str, object | None] = {
        "jobArn": arns.job(job.id),
        "jobQueueArn": arns.queue(job.spec.queue),
        "jobName": job.spec.name,
        "jobDefinitionArn": arns.definition(job.spec.definition),
        "shareIdentifier": job.spec.share_identifier,
        "jobStatus": job.status.value,
        "quantity": sum(it.quantity for it in needs if it.resource == resource),
        "statusReason": status_reason(job),
        "startedAt": job.started_at and milliseconds(job.started_at),
        "createdAt": milliseconds(job.created_at),
        "consumableResourceProperties": {
            "consumableResourceList": [
                {"consumableResource": arns.consumable(it.resource), "quantity": it.quantity} for it in needs
            ]
        },
    }
    return {member: value for member, value in told.items() if value is not None}


def _named(given: Filter, known: Sequence[str]) -> str:
    if given.name is None or given.name not in known:
        raise Invalid(f"The name of a filter must be one of {', '.join(known)}.")
    return given.name


def _values(given: Filter) -> Sequence[str]:
    if not given.values:
        raise Invalid(f"The filter {given.name} must have a value.")
    if len(given.values) > MOST_VALUES:
        raise Invalid(f"The filter {given.name} must have at most {MOST_VALUES} values.")
    return given.values


def _value(given: Filter) -> str:
    if len(_values(given)) > 1:
        raise Invalid(f"The filter {given.name} must have one value.")
    return _values(given)[0]


def _status(text: str | None) -> Status | None:
    if text is None:
        return None
    if text not in set(Status):
        raise Invalid(f"Job status is not one of {' | '.join(Status)}")
    return Status(text)
