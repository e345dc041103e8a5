"""Job queues: create, update, delete, describe, and who is next."""

from api.batch.arns import Kind
from api.batch.desk import Answer, Call, Desk
from api.batch.pages import page
from api.batch.translate import checks, queues, snapshots, time_limits
from api.batch.wire import queues as wire
from api.operations import takes
from batchq.domain.catalog import JobQueue, State
from batchq.domain.names import QueueName


@takes(wire.CreateJobQueue)
async def create(desk: Desk, call: Call, given: wire.CreateJobQueue) -> Answer:
    queues.check_served(given)
    made = await desk.catalog.create_queue(
        name=QueueName(checks.name(given.jobQueueName, "jobQueueName")),
        state=State(given.state or State.ENABLED),
        priority=given.priority,
        environments=queues.environments(given.computeEnvironmentOrder or (), call.arns, desk.catalog.environments),
        policy=queues.policy(given.schedulingPolicyArn, call.arns),
        time_limits=time_limits.limits(given.jobStateTimeLimitActions or ()),
        document=queues.document(given),
        tags=checks.tags(given.tags),
        caller=call.caller,
    )
    return _named(made, call)


@takes(wire.UpdateJobQueue)
async def update(desk: Desk, call: Call, given: wire.UpdateJobQueue) -> Answer:
    queues.check_served(given)
    name = queues.name_of(given.jobQueue, call.arns)
    known = desk.catalog.environments
    made = await desk.catalog.update_queue(
        name, lambda it: queues.changed(it, given, call.arns, known), caller=call.caller
    )
    return _named(made, call)


@takes(wire.DeleteJobQueue)
async def delete(desk: Desk, call: Call, given: wire.DeleteJobQueue) -> Answer:
    await desk.catalog.delete_queue(queues.name_of(given.jobQueue, call.arns), caller=call.caller)
    return {}


@takes(wire.DescribeJobQueues)
async def describe(desk: Desk, call: Call, given: wire.DescribeJobQueues) -> Answer:
    names = call.arns.all_named(Kind.QUEUE, given.jobQueues or ())
    found = desk.catalog.describe_queues(names, caller=call.caller) if names or not given.jobQueues else ()
    query = ("DescribeJobQueues", names)
    told, more = page({it.name: it for it in found}, given, query=query, tokens=desk.tokens)
    return {"jobQueues": [queues.detail(it, call.arns) for it in told], **more}


@takes(wire.GetJobQueueSnapshot)
async def snapshot(desk: Desk, call: Call, given: wire.GetJobQueueSnapshot) -> Answer:
    name = queues.name_of(given.jobQueue, call.arns)
    queue = desk.catalog.queues.get(name)  # before the wait, in which it may be deleted
    found = await desk.jobs.snapshot(name, caller=call.caller)
    return snapshots.detail(found, call.arns, fair=queue is not None and queue.policy is not None)


def _named(queue: JobQueue, call: Call) -> Answer:
    return {"jobQueueName": queue.name, "jobQueueArn": call.arns.queue(queue.name)}
