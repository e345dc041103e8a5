"""Compute environments: create, update, delete, describe."""

import json

from batchq.api.batch.arns import ArnKind
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import compute_environments, validation
from batchq.api.batch.wire import compute_environments as wire
from batchq.api.operations import takes
from batchq.api.page_tokens import page
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, State


@takes(wire.CreateComputeEnvironment)
async def create(desk: BatchContext, call: BatchRequest, given: wire.CreateComputeEnvironment) -> Answer:
    document = compute_environments.created(given)
    made = await desk.catalog.create_environment(
        name=EnvironmentName(validation.name(given.computeEnvironmentName, "computeEnvironmentName")),
        state=State(given.state or State.ENABLED),
        max_millicpus=compute_environments.millicpus(document, desk.rules),
        document=json.dumps(document),
        tags=validation.tags(given.tags),
        caller=call.caller,
    )
    return _named(made, call)


@takes(wire.UpdateComputeEnvironment)
async def update(desk: BatchContext, call: BatchRequest, given: wire.UpdateComputeEnvironment) -> Answer:
    name = compute_environments.name_of(given.computeEnvironment, call.arns)
    made = await desk.catalog.update_environment(
        name, lambda it: compute_environments.changed(it, given, desk.rules), caller=call.caller
    )
    return _named(made, call)


@takes(wire.DeleteComputeEnvironment)
async def delete(desk: BatchContext, call: BatchRequest, given: wire.DeleteComputeEnvironment) -> Answer:
    await desk.catalog.delete_environment(
        compute_environments.name_of(given.computeEnvironment, call.arns), caller=call.caller
    )
    return {}


@takes(wire.DescribeComputeEnvironments)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeComputeEnvironments) -> Answer:
    names = call.arns.all_named(ArnKind.ENVIRONMENT, given.computeEnvironments or ())
    found = desk.catalog.describe_environments(names) if names or not given.computeEnvironments else ()
    query = ("DescribeComputeEnvironments", names)
    told, more = page({it.name: it for it in found}, given, query=query, tokens=desk.tokens)
    return {"computeEnvironments": [compute_environments.detail(it, call.arns) for it in told], **more}


def _named(environment: ComputeEnvironment, call: BatchRequest) -> Answer:
    arn = call.arns.environment(environment.name)
    return {"computeEnvironmentName": environment.name, "computeEnvironmentArn": arn}
