"""Tags of all resources with an ARN, which is in the path: add, remove, list."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from batchq.api.auth.authentication import require
from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, is_member_id
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.validation import TagKey, Tags, WireModel
from batchq.api.http.http import validate_values
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import EnvironmentName, PolicyName
from batchq.domain.catalog import Tags as StoredTags
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName
from batchq.errors import Invalid, NotFound


class TagResource(WireModel):
    tags: Annotated[Tags, Field(min_length=1)]


class UntagResource(WireModel):
    tagKeys: Annotated[list[TagKey], Field(min_length=1, max_length=50)]


class Taggable(Protocol):
    """The service of one kind of resources. `name` has the type of that kind's names."""

    async def tag(self, name: Any, tags: StoredTags, /, *, caller: Caller) -> None: ...  # noqa: ANN401 - see above

    async def untag(self, name: Any, keys: Collection[str], /, *, caller: Caller) -> None: ...  # noqa: ANN401 - see above


_SERVICES: Mapping[ArnKind, Callable[[Parts], Taggable]] = {
    ArnKind.ENVIRONMENT: lambda parts: parts.catalog.compute_environments,
    ArnKind.QUEUE: lambda parts: parts.catalog.job_queues,
    ArnKind.DEFINITION: lambda parts: parts.catalog.definitions,
    ArnKind.JOB: lambda parts: parts.jobs,
    ArnKind.POLICY: lambda parts: parts.catalog.scheduling_policies,
    ArnKind.CONSUMABLE: lambda parts: parts.catalog.consumable_resources,
}


async def tag_resource(parts: Parts, request: BatchRequest, body: TagResource) -> None:
    """Sets tags of a resource."""
    service, key = _changed(parts, request)
    await service.tag(key, validation.validated_tags(body.tags), caller=request.caller)


async def untag_resource(parts: Parts, request: BatchRequest) -> None:
    """Removes tags of a resource."""
    body = validate_values(UntagResource, {"tagKeys": list(request.keys)})
    service, key = _changed(parts, request)
    await service.untag(key, body.tagKeys, caller=request.caller)


async def list_tags(parts: Parts, request: BatchRequest) -> Answer:
    """Lists the tags of a resource."""
    kind, name = _resource(request)
    found = await _find(parts, kind, name, request.caller)
    if found is None:
        raise _unknown(request.arn)
    return {"tags": dict(found.tags)}


class _Tagged(Protocol):
    """A resource of any kind."""

    @property
    def tags(self) -> StoredTags: ...


async def _find(parts: Parts, kind: ArnKind, name: str, caller: Caller) -> _Tagged | None:
    """None for a resource that does not exist, or that the caller may not see."""
    catalog = parts.catalog
    match kind:
        case ArnKind.ENVIRONMENT:
            return catalog.environments.get(EnvironmentName(name))
        case ArnKind.QUEUE:
            return catalog.queues_of(caller).get(QueueName(name))
        case ArnKind.POLICY:
            return catalog.policies.get(PolicyName(name))
        case ArnKind.CONSUMABLE:
            return catalog.consumables.get(ConsumableName(name))
        case ArnKind.DEFINITION:
            return await catalog.definitions.get_visible(_ref(name), caller=caller)
        case ArnKind.JOB:
            found = await parts.jobs.describe([JobId(name)], caller=caller)
            return found[0] if found else None


def _resource(request: BatchRequest) -> tuple[ArnKind, str]:
    found = request.arns.resource(request.arn)
    if found is None:
        raise _unknown(request.arn)
    kind, name = found
    if kind is ArnKind.JOB and is_member_id(name):
        raise Invalid("The children of array jobs and the nodes of multi-node parallel jobs have no tags of their own.")
    return found


def _changed(parts: Parts, request: BatchRequest) -> tuple[Taggable, str | DefinitionRef]:
    """The service that has the resource, and the resource's name in that service. Raises HttpRefusal (403).

    Resources other than jobs and job definitions require the permission to change them.
    """
    kind, name = _resource(request)
    own = kind in {ArnKind.JOB, ArnKind.DEFINITION}
    require(request.caller, Permission.SELF if own else Permission.CATALOG, request.caller.operation)
    return _SERVICES[kind](parts), _ref(name) if kind is ArnKind.DEFINITION else name


def _ref(name: str) -> DefinitionRef:
    ref = DefinitionRef.parse(name)
    if ref is None:
        raise NotFound(f"JobDefinition {name} not found.")
    return ref


def _unknown(arn: str) -> NotFound:
    return NotFound(f"Resource {arn[:200]} not found.")
