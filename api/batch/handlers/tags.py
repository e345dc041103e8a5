"""Tags of whatever an ARN names: lay on, take off, list."""

from collections.abc import Awaitable, Callable, Collection, Mapping

from batchq.api.authorization import must_have
from batchq.api.batch.arns import ArnKind, is_member_id, revision_of
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import validation
from batchq.api.batch.wire import tags as wire
from batchq.api.http import check
from batchq.api.operations import Operation, takes
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import EnvironmentName, PolicyName, Tags
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName
from batchq.errors import Invalid, NotFound

TAG: Mapping[ArnKind, Callable[[BatchContext, str, Tags, Caller], Awaitable[None]]] = {
    ArnKind.ENVIRONMENT: lambda desk, name, tags, caller: desk.catalog.tag_environment(
        EnvironmentName(name), tags, caller=caller
    ),
    ArnKind.QUEUE: lambda desk, name, tags, caller: desk.catalog.tag_queue(QueueName(name), tags, caller=caller),
    ArnKind.DEFINITION: lambda desk, name, tags, caller: desk.catalog.definitions.tag(_ref(name), tags, caller=caller),
    ArnKind.JOB: lambda desk, name, tags, caller: desk.jobs.tag(JobId(name), tags, caller=caller),
    ArnKind.POLICY: lambda desk, name, tags, caller: desk.catalog.scheduling_policies.tag(
        PolicyName(name), tags, caller=caller
    ),
    ArnKind.CONSUMABLE: lambda desk, name, tags, caller: desk.catalog.consumable_resources.tag(
        ConsumableName(name), tags, caller=caller
    ),
}
UNTAG: Mapping[ArnKind, Callable[[BatchContext, str, Collection[str], Caller], Awaitable[None]]] = {
    ArnKind.ENVIRONMENT: lambda desk, name, keys, caller: desk.catalog.untag_environment(
        EnvironmentName(name), keys, caller=caller
    ),
    ArnKind.QUEUE: lambda desk, name, keys, caller: desk.catalog.untag_queue(QueueName(name), keys, caller=caller),
    ArnKind.DEFINITION: lambda desk, name, keys, caller: desk.catalog.definitions.untag(
        _ref(name), keys, caller=caller
    ),
    ArnKind.JOB: lambda desk, name, keys, caller: desk.jobs.untag(JobId(name), keys, caller=caller),
    ArnKind.POLICY: lambda desk, name, keys, caller: desk.catalog.scheduling_policies.untag(
        PolicyName(name), keys, caller=caller
    ),
    ArnKind.CONSUMABLE: lambda desk, name, keys, caller: desk.catalog.consumable_resources.untag(
        ConsumableName(name), keys, caller=caller
    ),
}


@takes(wire.TagResource)
async def tag(desk: BatchContext, call: BatchRequest, given: wire.TagResource) -> Answer:
    kind, name = _resource(call)
    await TAG[_changed(kind, call.caller)](desk, name, validation.tags(given.tags), call.caller)
    return {}


async def _untag(desk: BatchContext, call: BatchRequest) -> Answer:
    given = check(wire.UntagResource, {"tagKeys": list(call.keys)})
    kind, name = _resource(call)
    await UNTAG[_changed(kind, call.caller)](desk, name, given.tagKeys, call.caller)
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
    """Whoever may change what jobs run on may tag it. Raises Refused."""
    own = kind in {ArnKind.JOB, ArnKind.DEFINITION}
    must_have(caller, Permission.OWN if own else Permission.GROUND, caller.operation)
    return kind


def _ref(name: str) -> DefinitionRef:
    found, revision = revision_of(name) or (name, None)
    if revision is None:
        raise NotFound(f"JobDefinition {name} not found.")
    return DefinitionRef(name=found, revision=revision)


def _unknown(arn: str) -> NotFound:
    return NotFound(f"Resource {arn[:200]} not found.")
