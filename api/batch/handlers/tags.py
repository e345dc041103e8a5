"""Tags of all resources with an ARN: add, remove, list."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from batchq.api.authorization import require
from batchq.api.batch.arns import ArnKind, is_member_id, revision_of
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import validation
from batchq.api.batch.wire import tags as wire
from batchq.api.http import validate
from batchq.api.operations import Operation, takes
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import EnvironmentName, PolicyName, Tags
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName
from batchq.errors import Invalid, NotFound


class Taggable(Protocol):
    """The service of one kind of resources. `name` has the type of that kind's names."""

    async def tag(self, name: Any, tags: Tags, /, *, caller: Caller) -> None: ...  # noqa: ANN401 - see above

    async def untag(self, name: Any, keys: Collection[str], /, *, caller: Caller) -> None: ...  # noqa: ANN401 - see above


_SERVICES: Mapping[ArnKind, Callable[[BatchContext], Taggable]] = {
    ArnKind.ENVIRONMENT: lambda desk: desk.catalog.compute_environments,
    ArnKind.QUEUE: lambda desk: desk.catalog.job_queues,
    ArnKind.DEFINITION: lambda desk: desk.catalog.definitions,
    ArnKind.JOB: lambda desk: desk.jobs,
    ArnKind.POLICY: lambda desk: desk.catalog.scheduling_policies,
    ArnKind.CONSUMABLE: lambda desk: desk.catalog.consumable_resources,
}


@takes(wire.TagResource)
async def tag(desk: BatchContext, call: BatchRequest, given: wire.TagResource) -> Answer:
    kind, name = _resource(call)
    service = _SERVICES[_changed(kind, call.caller)](desk)
    await service.tag(_key(kind, name), validation.tags(given.tags), caller=call.caller)
    return {}


async def _untag(desk: BatchContext, call: BatchRequest) -> Answer:
    given = validate(wire.UntagResource, {"tagKeys": list(call.keys)})
    kind, name = _resource(call)
    service = _SERVICES[_changed(kind, call.caller)](desk)
    await service.untag(_key(kind, name), given.tagKeys, caller=call.caller)
    return {}


untag = Operation(_untag, query=wire.UntagResource)


@Operation
async def list_(desk: BatchContext, call: BatchRequest) -> Answer:
    kind, name = _resource(call)
    tags = await _TAGS[kind](desk, name, call.caller)
    if tags is None:
        raise _unknown(call.arn)
    return {"tags": dict(tags)}


async def _environment(desk: BatchContext, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.environments.get(EnvironmentName(name))
    return None if found is None else found.tags


async def _queue(desk: BatchContext, name: str, caller: Caller) -> Tags | None:
    found = desk.catalog.queues_of(caller).get(QueueName(name))
    return None if found is None else found.tags


async def _policy(desk: BatchContext, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.policies.get(PolicyName(name))
    return None if found is None else found.tags


async def _consumable(desk: BatchContext, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.consumables.get(ConsumableName(name))
    return None if found is None else found.tags


async def _definition(desk: BatchContext, name: str, caller: Caller) -> Tags | None:
    found = await desk.catalog.definitions.see(_ref(name), caller=caller)
    return None if found is None else found.tags


async def _job(desk: BatchContext, name: str, caller: Caller) -> Tags | None:
    found = await desk.jobs.describe([JobId(name)], caller=caller)
    return found[0][0].tags if found else None


_TAGS: Mapping[ArnKind, Callable[[BatchContext, str, Caller], Awaitable[Tags | None]]] = {
    ArnKind.ENVIRONMENT: _environment,
    ArnKind.QUEUE: _queue,
    ArnKind.DEFINITION: _definition,
    ArnKind.JOB: _job,
    ArnKind.POLICY: _policy,
    ArnKind.CONSUMABLE: _consumable,
}


def _resource(call: BatchRequest) -> tuple[ArnKind, str]:
    found = call.arns.resource(call.arn)
    if found is None:
        raise _unknown(call.arn)
    kind, name = found
    if kind is ArnKind.JOB and is_member_id(name):
        raise Invalid("The children of array jobs and the nodes of multi-node parallel jobs have no tags of their own.")
    return found


def _changed(kind: ArnKind, caller: Caller) -> ArnKind:
    """Return `kind` if the caller may tag resources of it. Raises HttpRefusal (403).

    Resources other than jobs and job definitions require the permission to change them.
    """
    own = kind in {ArnKind.JOB, ArnKind.DEFINITION}
    require(caller, Permission.OWN if own else Permission.GROUND, caller.operation)
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
