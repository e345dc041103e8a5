"""Job queues: create, update, delete, describe, and a snapshot of the first jobs."""

from batchq.api.batch.arns import ArnKind
from batchq.api.batch.context import Answer, BatchContext, BatchRequest
from batchq.api.batch.translate import job_queues, snapshots, time_limits, validation
from batchq.api.batch.wire import job_queues as wire
from batchq.api.operations import takes
from batchq.api.page_tokens import page
from batchq.domain.catalog import JobQueue, State
from batchq.domain.ids import QueueName


@takes(wire.CreateJobQueue)
async def create(desk: BatchContext, call: BatchRequest, given: wire.CreateJobQueue) -> Answer:
    job_queues.check_served(given)
    made = await desk.catalog.create_queue(
        name=QueueName(validation.name(given.jobQueueName, "jobQueueName")),
        state=State(given.state or State.ENABLED),
        priority=given.priority,
        environments=job_queues.environments(given.computeEnvironmentOrder or (), call.arns, desk.catalog.environments),
        policy=job_queues.policy(given.schedulingPolicyArn, call.arns),
        time_limits=time_limits.limits(given.jobStateTimeLimitActions or ()),
        document=job_queues.document(given),
        tags=validation.tags(given.tags),
        caller=call.caller,
    )
    return _named(made, call)


@takes(wire.UpdateJobQueue)
async def update(desk: BatchContext, call: BatchRequest, given: wire.UpdateJobQueue) -> Answer:
    job_queues.check_served(given)
    name = job_queues.name_of(given.jobQueue, call.arns)
    known = desk.catalog.environments
    made = await desk.catalog.update_queue(
        name, lambda it: job_queues.changed(it, given, call.arns, known), caller=call.caller
    )
    return _named(made, call)


@takes(wire.DeleteJobQueue)
async def delete(desk: BatchContext, call: BatchRequest, given: wire.DeleteJobQueue) -> Answer:
    await desk.catalog.delete_queue(job_queues.name_of(given.jobQueue, call.arns), caller=call.caller)
    return {}


@takes(wire.DescribeJobQueues)
async def describe(desk: BatchContext, call: BatchRequest, given: wire.DescribeJobQueues) -> Answer:
    names = call.arns.all_named(ArnKind.QUEUE, given.jobQueues or ())
    found = desk.catalog.describe_queues(names, caller=call.caller) if names or not given.jobQueues else ()
    query = ("DescribeJobQueues", names)
    told, more = page({it.name: it for it in found}, given, query=query, tokens=desk.tokens)
    return {"jobQueues": [job_queues.detail(it, call.arns) for it in told], **more}


@takes(wire.GetJobQueueSnapshot)
async def snapshot(desk: BatchContext, call: BatchRequest, given: wire.GetJobQueueSnapshot) -> Answer:
    name = job_queues.name_of(given.jobQueue, call.arns)
    queue = desk.catalog.queues.get(name)  # before the await, during which it may be deleted
    found = await desk.jobs.snapshot(name, caller=call.caller)
    return snapshots.detail(found, call.arns, fair=queue is not None and queue.policy is not None)


def _named(queue: JobQueue, call: BatchRequest) -> Answer:
    return {"jobQueueName": queue.name, "jobQueueArn": call.arns.queue(queue.name)}
