"""Scheduling policies: create, update, delete, describe, list."""

from batchq.api.batch.arns import ArnKind
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import scheduling_policies, validation
from batchq.api.batch.wire import scheduling_policies as wire
from batchq.api.operations import takes
from batchq.api.page_tokens import page
from batchq.domain.catalog import PolicyName


@takes(wire.CreateSchedulingPolicy)
async def create(desk: BatchContext, call: BatchRequest, given: wire.CreateSchedulingPolicy) -> Answer:
    scheduling_policies.check_served(given)
    fair = given.fairsharePolicy
    made = await desk.catalog.scheduling_policies.create(
        name=PolicyName(validation.name(given.name, "name")),
        shares=scheduling_policies.shares(fair),
        decay=scheduling_policies.decay(fair),
        reservation=scheduling_policies.reservation(fair),
        document=scheduling_policies.document(fair),
        tags=validation.tags(given.tags),
        caller=call.caller,
    )
    return {"name": made.name, "arn": call.arns.policy(made.name)}


@takes(wire.UpdateSchedulingPolicy)
async def update(desk: BatchContext, call: BatchRequest, given: wire.UpdateSchedulingPolicy) -> Answer:
    scheduling_policies.check_served(given)
    name = scheduling_policies.name_of(given.arn, call.arns, said="arn")
    await desk.catalog.scheduling_policies.update(
        name, lambda it: scheduling_policies.changed(it, given.fairsharePolicy), caller=call.caller
    )
    return {}


@takes(wire.DeleteSchedulingPolicy)
async def delete(desk: BatchContext, call: BatchRequest, given: wire.DeleteSchedulingPolicy) -> Answer:
    await desk.catalog.scheduling_policies.delete(
        scheduling_policies.name_of(given.arn, call.arns, said="arn"), caller=call.caller
    )
    return {}


@takes(wire.DescribeSchedulingPolicies)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeSchedulingPolicies) -> Answer:
    found = desk.catalog.scheduling_policies.describe(call.arns.all_named(ArnKind.POLICY, given.arns))
    return {"schedulingPolicies": [scheduling_policies.detail(it, call.arns) for it in found]}


@takes(wire.ListSchedulingPolicies)
async def list_(desk: BatchContext, call: BatchRequest, given: wire.ListSchedulingPolicies) -> Answer:
    told, more = page(desk.catalog.policies, given, query=("ListSchedulingPolicies",), tokens=desk.tokens)
    return {"schedulingPolicies": [{"arn": call.arns.policy(it.name)} for it in told], **more}
