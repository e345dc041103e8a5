"""Consumable resources: create, update, delete, describe, list, and list the jobs that require one."""

from msgspec.structs import replace

from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import consumable_resources, validation
from batchq.api.batch.wire import consumable_resources as wire
from batchq.api.operations import takes
from batchq.api.page_tokens import page
from batchq.domain.catalog import ConsumableResource
from batchq.domain.ids import ConsumableName


@takes(wire.CreateConsumableResource)
async def create(desk: BatchContext, call: BatchRequest, given: wire.CreateConsumableResource) -> Answer:
    made = await desk.catalog.consumable_resources.create(
        name=ConsumableName(validation.name(given.consumableResourceName, "consumableResourceName")),
        total=given.totalQuantity or 0,
        kind=consumable_resources.kind(given.resourceType),
        tags=validation.tags(given.tags),
        caller=call.caller,
    )
    return _named(made, call)


@takes(wire.UpdateConsumableResource)
async def update(desk: BatchContext, call: BatchRequest, given: wire.UpdateConsumableResource) -> Answer:
    name = consumable_resources.name_of(given.consumableResource, call.arns)
    operation, quantity = consumable_resources.operation(given)
    resources = desk.catalog.consumable_resources
    made = await resources.update(
        name, operation=operation, quantity=quantity, token=given.clientToken, caller=call.caller
    )
    return _named(made, call) | {"totalQuantity": resources.quantities(made).total}


@takes(wire.DeleteConsumableResource)
async def delete(desk: BatchContext, call: BatchRequest, given: wire.DeleteConsumableResource) -> Answer:
    await desk.catalog.consumable_resources.delete(
        consumable_resources.name_of(given.consumableResource, call.arns), caller=call.caller
    )
    return {}


@takes(wire.DescribeConsumableResource)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeConsumableResource) -> Answer:
    resources = desk.catalog.consumable_resources
    found = resources.get(consumable_resources.name_of(given.consumableResource, call.arns))
    return consumable_resources.detail(found, resources.quantities(found), call.arns)


@takes(wire.ListConsumableResources)
async def list_(desk: BatchContext, call: BatchRequest, given: wire.ListConsumableResources) -> Answer:
    wanted = consumable_resources.patterns(given.filters)
    resources = desk.catalog.consumable_resources
    found = {
        name: it for name, it in resources.known.items() if wanted is None or consumable_resources.matches(name, wanted)
    }
    told, more = page(found, given, query=("ListConsumableResources", wanted), tokens=desk.tokens)
    listed = [consumable_resources.summary(it, resources.quantities(it), call.arns) for it in told]
    return {"consumableResources": listed, **more}


@takes(wire.ListJobsByConsumableResource)
async def list_jobs(desk: BatchContext, call: BatchRequest, given: wire.ListJobsByConsumableResource) -> Answer:
    query = consumable_resources.need_query(given, call.arns)
    asked = ("ListJobsByConsumableResource", query.resource, query.status, query.name)
    if given.nextToken:
        query = replace(query, before=int(desk.tokens.read(asked, given.nextToken)))
    jobs = await desk.jobs.list_needing(replace(query, limit=query.limit + 1), caller=call.caller)
    told = jobs[: query.limit]
    answer: Answer = {"jobs": [consumable_resources.needing(it, query.resource, call.arns) for it in told]}
    return answer | ({"nextToken": desk.tokens.make(asked, str(told[-1].order))} if len(jobs) > len(told) else {})


def _named(resource: ConsumableResource, call: BatchRequest) -> Answer:
    arn = call.arns.consumable(resource.name)
    return {"consumableResourceName": resource.name, "consumableResourceArn": arn}
