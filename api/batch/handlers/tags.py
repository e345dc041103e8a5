"""Tags of whatever an ARN names: lay on, take off, list."""

from collections.abc import Awaitable, Callable, Collection, Mapping

from batchq.api.authorization import must_have
from batchq.api.batch.arns import Kind, is_member_id, revision_of
from batchq.api.batch.context import Answer, Call, Desk
from batchq.api.batch.translate import validation
from batchq.api.batch.wire import tags as wire
from batchq.api.http import check
from batchq.api.operations import Operation, takes
from batchq.domain.access.accounts import Caller, Right
from batchq.domain.catalog import EnvironmentName, PolicyName, Tags
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName
from batchq.errors import Invalid, NotFound

TAG: Mapping[Kind, Callable[[Desk, str, Tags, Caller], Awaitable[None]]] = {
    Kind.ENVIRONMENT: lambda desk, name, tags, caller: desk.catalog.tag_environment(
        EnvironmentName(name), tags, caller=caller
    ),
    Kind.QUEUE: lambda desk, name, tags, caller: desk.catalog.tag_queue(QueueName(name), tags, caller=caller),
    Kind.DEFINITION: lambda desk, name, tags, caller: desk.catalog.definitions.tag(_ref(name), tags, caller=caller),
    Kind.JOB: lambda desk, name, tags, caller: desk.jobs.tag(JobId(name), tags, caller=caller),
    Kind.POLICY: lambda desk, name, tags, caller: desk.catalog.scheduling_policies.tag(
        PolicyName(name), tags, caller=caller
    ),
    Kind.CONSUMABLE: lambda desk, name, tags, caller: desk.catalog.consumable_resources.tag(
        ConsumableName(name), tags, caller=caller
    ),
}
UNTAG: Mapping[Kind, Callable[[Desk, str, Collection[str], Caller], Awaitable[None]]] = {
    Kind.ENVIRONMENT: lambda desk, name, keys, caller: desk.catalog.untag_environment(
        EnvironmentName(name), keys, caller=caller
    ),
    Kind.QUEUE: lambda desk, name, keys, caller: desk.catalog.untag_queue(QueueName(name), keys, caller=caller),
    Kind.DEFINITION: lambda desk, name, keys, caller: desk.catalog.definitions.untag(_ref(name), keys, caller=caller),
    Kind.JOB: lambda desk, name, keys, caller: desk.jobs.untag(JobId(name), keys, caller=caller),
    Kind.POLICY: lambda desk, name, keys, caller: desk.catalog.scheduling_policies.untag(
        PolicyName(name), keys, caller=caller
    ),
    Kind.CONSUMABLE: lambda desk, name, keys, caller: desk.catalog.consumable_resources.untag(
        ConsumableName(name), keys, caller=caller
    ),
}


@takes(wire.TagResource)
async def tag(desk: Desk, call: Call, given: wire.TagResource) -> Answer:
    kind, name = _resource(call)
    await TAG[_changed(kind, call.caller)](desk, name, validation.tags(given.tags), call.caller)
    return {}


async def _untag(desk: Desk, call: Call) -> Answer:
    given = check(wire.UntagResource, {"tagKeys": list(call.keys)})
    kind, name = _resource(call)
    await UNTAG[_changed(kind, call.caller)](desk, name, given.tagKeys, call.caller)
    return {}


untag = Operation(_untag, query=wire.UntagResource)


@Operation
async def list_(desk: Desk, call: Call) -> Answer:
    kind, name = _resource(call)
    tags = await _TAGS[kind](desk, name, call.caller)
    if tags is None:
        raise _unknown(call.arn)
    return {"tags": dict(tags)}


async def _environment(desk: Desk, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.environments.get(EnvironmentName(name))
    return None if found is None else found.tags


async def _queue(desk: Desk, name: str, caller: Caller) -> Tags | None:
    found = desk.catalog.queues_of(caller).get(QueueName(name))
    return None if found is None else found.tags


async def _policy(desk: Desk, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.policies.get(PolicyName(name))
    return None if found is None else found.tags


async def _consumable(desk: Desk, name: str, _caller: Caller) -> Tags | None:
    found = desk.catalog.consumables.get(ConsumableName(name))
    return None if found is None else found.tags


async def _definition(desk: Desk, name: str, caller: Caller) -> Tags | None:
    found = await desk.catalog.definitions.see(_ref(name), caller=caller)
    return None if found is None else found.tags


async def _job(desk: Desk, name: str, caller: Caller) -> Tags | None:
    found = await desk.jobs.describe([JobId(name)], caller=caller)
    return found[0][0].tags if found else None


_TAGS: Mapping[Kind, Callable[[Desk, str, Caller], Awaitable[Tags | None]]] = {
    Kind.ENVIRONMENT: _environment,
    Kind.QUEUE: _queue,
    Kind.DEFINITION: _definition,
    Kind.JOB: _job,
    Kind.POLICY: _policy,
    Kind.CONSUMABLE: _consumable,
}


def _resource(call: Call) -> tuple[Kind, str]:
    found = call.arns.resource(call.arn)
    if found is None:
        raise _unknown(call.arn)
    kind, name = found
    if kind is Kind.JOB and is_member_id(name):
        raise Invalid("The children of array jobs and the nodes of multi-node parallel jobs have no tags of their own.")
    return found


def _changed(kind: Kind, caller: Caller) -> Kind:
    """Whoever may change what jobs run on may tag it. Raises Refused."""
    own = kind in {Kind.JOB, Kind.DEFINITION}
    must_have(caller, Right.OWN if own else Right.GROUND, caller.operation)
    return kind


def _ref(name: str) -> DefinitionRef:
    found, revision = revision_of(name) or (name, None)
    if revision is None:
        raise NotFound(f"JobDefinition {name} not found.")
    return DefinitionRef(name=found, revision=revision)


def _unknown(arn: str) -> NotFound:
    return NotFound(f"Resource {arn[:200]} not found.")
