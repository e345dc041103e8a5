"""Compute environments: create, update, delete, describe."""

import json

from api.batch.arns import Kind
from api.batch.desk import Answer, Call, Desk
from api.batch.pages import page
from api.batch.translate import checks, environments
from api.batch.wire import environments as wire
from api.operations import takes
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, State


@takes(wire.CreateComputeEnvironment)
async def create(desk: Desk, call: Call, given: wire.CreateComputeEnvironment) -> Answer:
    document = environments.created(given)
    made = await desk.catalog.create_environment(
        name=EnvironmentName(checks.name(given.computeEnvironmentName, "computeEnvironmentName")),
        state=State(given.state or State.ENABLED),
        max_millicpus=environments.millicpus(document, desk.rules),
        document=json.dumps(document),
        tags=checks.tags(given.tags),
        caller=call.caller,
    )
    return _named(made, call)


@takes(wire.UpdateComputeEnvironment)
async def update(desk: Desk, call: Call, given: wire.UpdateComputeEnvironment) -> Answer:
    name = environments.name_of(given.computeEnvironment, call.arns)
    made = await desk.catalog.update_environment(
        name, lambda it: environments.changed(it, given, desk.rules), caller=call.caller
    )
    return _named(made, call)


@takes(wire.DeleteComputeEnvironment)
async def delete(desk: Desk, call: Call, given: wire.DeleteComputeEnvironment) -> Answer:
    await desk.catalog.delete_environment(environments.name_of(given.computeEnvironment, call.arns), caller=call.caller)
    return {}


@takes(wire.DescribeComputeEnvironments)
async def describe(desk: Desk, call: Call, given: wire.DescribeComputeEnvironments) -> Answer:
    names = call.arns.all_named(Kind.ENVIRONMENT, given.computeEnvironments or ())
    found = desk.catalog.describe_environments(names) if names or not given.computeEnvironments else ()
    query = ("DescribeComputeEnvironments", names)
    told, more = page({it.name: it for it in found}, given, query=query, tokens=desk.tokens)
    return {"computeEnvironments": [environments.detail(it, call.arns) for it in told], **more}


def _named(environment: ComputeEnvironment, call: Call) -> Answer:
    arn = call.arns.environment(environment.name)
    return {"computeEnvironmentName": environment.name, "computeEnvironmentArn": arn}
