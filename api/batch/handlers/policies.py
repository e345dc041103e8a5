"""Scheduling policies: create, update, delete, describe, list."""

from api.batch.arns import Kind
from api.batch.desk import Answer, Call, Desk
from api.batch.pages import page
from api.batch.translate import checks, policies
from api.batch.wire import policies as wire
from api.http import parse
from batchq.domain.catalog import PolicyName


async def create(desk: Desk, call: Call) -> Answer:
    given = parse(wire.CreateSchedulingPolicy, call.body)
    policies.check_served(given)
    fair = given.fairsharePolicy
    made = await desk.catalog.scheduling_policies.create(
        name=PolicyName(checks.name(given.name, "name")),
        shares=policies.shares(fair),
        decay=policies.decay(fair),
        reservation=policies.reservation(fair),
        document=policies.document(fair),
        tags=checks.tags(given.tags),
    )
    return {"name": made.name, "arn": call.arns.policy(made.name)}


async def update(desk: Desk, call: Call) -> Answer:
    given = parse(wire.UpdateSchedulingPolicy, call.body)
    policies.check_served(given)
    name = policies.name_of(given.arn, call.arns, said="arn")
    await desk.catalog.scheduling_policies.update(name, lambda it: policies.changed(it, given.fairsharePolicy))
    return {}


async def delete(desk: Desk, call: Call) -> Answer:
    given = parse(wire.DeleteSchedulingPolicy, call.body)
    await desk.catalog.scheduling_policies.delete(policies.name_of(given.arn, call.arns, said="arn"))
    return {}


async def describe(desk: Desk, call: Call) -> Answer:
    given = parse(wire.DescribeSchedulingPolicies, call.body)
    found = desk.catalog.scheduling_policies.describe(call.arns.all_named(Kind.POLICY, given.arns))
    return {"schedulingPolicies": [policies.detail(it, call.arns) for it in found]}


async def list_(desk: Desk, call: Call) -> Answer:
    given = parse(wire.ListSchedulingPolicies, call.body)
    told, more = page(desk.catalog.policies, given, query="ListSchedulingPolicies", tokens=desk.tokens)
    return {"schedulingPolicies": [{"arn": call.arns.policy(it.name)} for it in told], **more}
