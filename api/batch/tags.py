"""Tags of all resources with an ARN, which is in the path: add, remove, list."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from batchq.api.authorization import require
from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, is_member_id, revision_of
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.validation import TagKey, Tags, WireModel
from batchq.api.http import validate
from batchq.api.operations import Operation, takes
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


_SERVICES: Mapping[ArnKind, Callable[[BatchContext], Taggable]] = {
    ArnKind.ENVIRONMENT: lambda context: context.catalog.compute_environments,
    ArnKind.QUEUE: lambda context: context.catalog.job_queues,
    ArnKind.DEFINITION: lambda context: context.catalog.definitions,
    ArnKind.JOB: lambda context: context.jobs,
    ArnKind.POLICY: lambda context: context.catalog.scheduling_policies,
    ArnKind.CONSUMABLE: lambda context: context.catalog.consumable_resources,
}


@takes(TagResource)
async def tag(context: BatchContext, request: BatchRequest, body: TagResource) -> Answer:
    kind, name = _resource(request)
    service = _SERVICES[_changed(kind, request.caller)](context)
    await service.tag(_key(kind, name), validation.tags(body.tags), caller=request.caller)
    return {}


async def _untag(context: BatchContext, request: BatchRequest) -> Answer:
    body = validate(UntagResource, {"tagKeys": list(request.keys)})
    kind, name = _resource(request)
    service = _SERVICES[_changed(kind, request.caller)](context)
    await service.untag(_key(kind, name), body.tagKeys, caller=request.caller)
    return {}


untag = Operation(_untag, query=UntagResource)


@Operation
async def list_(context: BatchContext, request: BatchRequest) -> Answer:
    kind, name = _resource(request)
    tags = await _TAGS[kind](context, name, request.caller)
    if tags is None:
        raise _unknown(request.arn)
    return {"tags": dict(tags)}


async def _environment(context: BatchContext, name: str, _caller: Caller) -> StoredTags | None:
    found = context.catalog.environments.get(EnvironmentName(name))
    return None if found is None else found.tags


async def _queue(context: BatchContext, name: str, caller: Caller) -> StoredTags | None:
    found = context.catalog.queues_of(caller).get(QueueName(name))
    return None if found is None else found.tags


async def _policy(context: BatchContext, name: str, _caller: Caller) -> StoredTags | None:
    found = context.catalog.policies.get(PolicyName(name))
    return None if found is None else found.tags


async def _consumable(context: BatchContext, name: str, _caller: Caller) -> StoredTags | None:
    found = context.catalog.consumables.get(ConsumableName(name))
    return None if found is None else found.tags


async def _definition(context: BatchContext, name: str, caller: Caller) -> StoredTags | None:
    found = await context.catalog.definitions.get_visible(_ref(name), caller=caller)
    return None if found is None else found.tags


async def _job(context: BatchContext, name: str, caller: Caller) -> StoredTags | None:
    found = await context.jobs.describe([JobId(name)], caller=caller)
    return found[0][0].tags if found else None


_TAGS: Mapping[ArnKind, Callable[[BatchContext, str, Caller], Awaitable[StoredTags | None]]] = {
    ArnKind.ENVIRONMENT: _environment,
    ArnKind.QUEUE: _queue,
    ArnKind.DEFINITION: _definition,
    ArnKind.JOB: _job,
    ArnKind.POLICY: _policy,
    ArnKind.CONSUMABLE: _consumable,
}


def _resource(request: BatchRequest) -> tuple[ArnKind, str]:
    found = request.arns.resource(request.arn)
    if found is None:
        raise _unknown(request.arn)
    kind, name = found
    if kind is ArnKind.JOB and is_member_id(name):
        raise Invalid("The children of array jobs and the nodes of multi-node parallel jobs have no tags of their own.")
    return found


def _changed(kind: ArnKind, caller: Caller) -> ArnKind:
    """Return `kind` if the caller may tag resources of it. Raises HttpRefusal (403).

    Resources other than jobs and job definitions require the permission to change them.
    """
    own = kind in {ArnKind.JOB, ArnKind.DEFINITION}
    require(caller, Permission.SELF if own else Permission.CATALOG, caller.operation)
    return kind


def _key(kind: ArnKind, name: str) -> str | DefinitionRef:
    return _ref(name) if kind is ArnKind.DEFINITION else name


def _ref(name: str) -> DefinitionRef:
    found, revision = revision_of(name) or (name, None)
    if revision is None:
        raise NotFound(f"JobDefinition {name} not found.")
    return DefinitionRef(name=found, revision=revision)


def _unknown(arn: str) -> NotFound:
    return NotFound(f"Resource {arn[:200]} not found.")
