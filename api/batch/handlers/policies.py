"""Scheduling policies: create, update, delete, describe, list."""

from api.batch.arns import Kind
from api.batch.desk import Answer, Call, Desk
from api.batch.pages import page
from api.batch.translate import checks, policies
from api.batch.wire import policies as wire
from api.operations import takes
from batchq.domain.catalog import PolicyName


@takes(wire.CreateSchedulingPolicy)
async def create(desk: Desk, call: Call, given: wire.CreateSchedulingPolicy) -> Answer:
    policies.check_served(given)
    fair = given.fairsharePolicy
    made = await desk.catalog.scheduling_policies.create(
        name=PolicyName(checks.name(given.name, "name")),
        shares=policies.shares(fair),
        decay=policies.decay(fair),
        reservation=policies.reservation(fair),
        document=policies.document(fair),
        tags=checks.tags(given.tags),
        caller=call.caller,
    )
    return {"name": made.name, "arn": call.arns.policy(made.name)}


@takes(wire.UpdateSchedulingPolicy)
async def update(desk: Desk, call: Call, given: wire.UpdateSchedulingPolicy) -> Answer:
    policies.check_served(given)
    name = policies.name_of(given.arn, call.arns, said="arn")
    await desk.catalog.scheduling_policies.update(
        name, lambda it: policies.changed(it, given.fairsharePolicy), caller=call.caller
    )
    return {}


@takes(wire.DeleteSchedulingPolicy)
async def delete(desk: Desk, call: Call, given: wire.DeleteSchedulingPolicy) -> Answer:
    await desk.catalog.scheduling_policies.delete(
        policies.name_of(given.arn, call.arns, said="arn"), caller=call.caller
    )
    return {}


@takes(wire.DescribeSchedulingPolicies)
async def describe(desk: Desk, call: Call, given: wire.DescribeSchedulingPolicies) -> Answer:
    found = desk.catalog.scheduling_policies.describe(call.arns.all_named(Kind.POLICY, given.arns))
    return {"schedulingPolicies": [policies.detail(it, call.arns) for it in found]}


@takes(wire.ListSchedulingPolicies)
async def list_(desk: Desk, call: Call, given: wire.ListSchedulingPolicies) -> Answer:
    told, more = page(desk.catalog.policies, given, query=("ListSchedulingPolicies",), tokens=desk.tokens)
    return {"schedulingPolicies": [{"arn": call.arns.policy(it.name)} for it in told], **more}
