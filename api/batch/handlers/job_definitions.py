"""Job definitions: register, deregister, describe."""

from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import job_definitions
from batchq.api.batch.wire import job_definitions as wire
from batchq.api.operations import takes
from batchq.domain.catalog import JobDefinition
from batchq.errors import Invalid

MOST = 100


@takes(wire.RegisterJobDefinition, check=job_definitions.check_size)
async def register(desk: BatchContext, call: BatchRequest, given: wire.RegisterJobDefinition) -> Answer:
    asked = job_definitions.definition(given, arns=call.arns, rules=desk.rules, now=desk.clock.now())
    made = await desk.catalog.definitions.register(asked, caller=call.caller)
    arn = call.arns.definition(made.ref)
    return {"jobDefinitionName": made.ref.name, "jobDefinitionArn": arn, "revision": made.ref.revision}


@takes(wire.DeregisterJobDefinition)
async def deregister(desk: BatchContext, call: BatchRequest, given: wire.DeregisterJobDefinition) -> Answer:
    ref = job_definitions.ref_of(given.jobDefinition, call.arns)
    if ref is None:
        raise Invalid("jobDefinition must be name:revision or the ARN of a revision.")
    await desk.catalog.definitions.deregister(ref, caller=call.caller)
    return {}


@takes(wire.DescribeJobDefinitions)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeJobDefinitions) -> Answer:
    """AWS: the named revisions, or a page of all, optionally of one name or status."""
    job_definitions.check_selector(given)
    found, more = await (_named(desk, given, call) if given.jobDefinitions else _page(desk, given, call))
    return {"jobDefinitions": [job_definitions.detail(it, call.arns) for it in found], **more}


Page = tuple[list[JobDefinition], dict[str, str]]


async def _named(desk: BatchContext, given: wire.DescribeJobDefinitions, call: BatchRequest) -> Page:
    refs = dict.fromkeys(job_definitions.ref_of(text, call.arns) for text in given.jobDefinitions or ())
    return [
        it for ref in refs if ref and (it := await desk.catalog.definitions.see(ref, caller=call.caller)) is not None
    ], {}


async def _page(desk: BatchContext, given: wire.DescribeJobDefinitions, call: BatchRequest) -> Page:
    name, status, limit = given.jobDefinitionName or None, given.status or None, given.maxResults or MOST
    query = ("DescribeJobDefinitions", name, status)
    after = job_definitions.position(desk.tokens.read(query, given.nextToken)) if given.nextToken else None
    found = await desk.catalog.definitions.page(
        name=name, status=status, limit=limit + 1, after=after, caller=call.caller
    )
    told = list(found[:limit])
    return told, ({"nextToken": desk.tokens.make(query, str(told[-1].ref))} if len(found) > limit else {})
