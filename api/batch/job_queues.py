"""Job queues: create, update, delete, describe, and a snapshot of the first jobs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from msgspec.structs import replace

from batchq.api.batch import scheduling_policies, validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.compute_environments import is_fargate
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.validation import Integer, NameList, PageSize, StateName, Tags, Text, Unsupported, WireModel
from batchq.api.http.page_tokens import page_of_entries
from batchq.api.operations.parts import Parts
from batchq.domain import status_reasons
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, JobQueue, PolicyName, TimeLimit, require_unique
from batchq.domain.enums import State
from batchq.domain.ids import QueueName
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, NotFound, NotSupported
from batchq.ports.catalog import Snapshot

Environments = Mapping[EnvironmentName, ComputeEnvironment]
MAX_ENVIRONMENTS = 3
UNSUPPORTED_TYPES = {"EKS": validation.KUBERNETES, "SAGEMAKER_TRAINING": validation.SERVICE_JOBS}
MIN_TIME_LIMIT, MAX_TIME_LIMIT = 600, 86_400  # seconds
REASONS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
)
"""AWS: the reasons for which a time limit can be set. A job may be blocked for other reasons, too."""
Content = dict[str, object]

QueueType = Literal["EKS", "ECS", "ECS_FARGATE", "SAGEMAKER_TRAINING", "ECS_MANAGED_INSTANCES"]


class ComputeEnvironmentOrder(WireModel):
    order: Integer
    computeEnvironment: Text


class JobStateTimeLimitAction(WireModel):
    reason: Text
    state: Literal["RUNNABLE"]
    maxTimeSeconds: Integer
    action: Literal["CANCEL", "TERMINATE"]


class CreateJobQueue(WireModel):
    jobQueueName: Text
    priority: Integer
    state: StateName | None = None
    schedulingPolicyArn: Text | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unsupported] | None = None
    jobQueueType: QueueType | None = None
    tags: Tags | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class UpdateJobQueue(WireModel):
    jobQueue: Text
    state: StateName | None = None
    schedulingPolicyArn: Text | None = None
    priority: Integer | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unsupported] | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class DeleteJobQueue(WireModel):
    jobQueue: Text


class GetJobQueueSnapshot(WireModel):
    jobQueue: Text


class DescribeJobQueues(WireModel):
    jobQueues: NameList | None = None
    maxResults: PageSize | None = None
    nextToken: Text | None = None


async def create_job_queue(parts: Parts, request: BatchRequest, body: CreateJobQueue) -> Answer:
    """Creates a job queue."""
    check_queue_supported(body)
    queue = JobQueue(
        name=QueueName(validation.name(body.jobQueueName, "jobQueueName")),
        state=State(body.state or State.ENABLED),
        priority=body.priority,
        environments=environment_order(body.computeEnvironmentOrder or (), request.arns, parts.catalog.environments),
        policy=queue_policy_name(body.schedulingPolicyArn, request.arns),
        time_limits=to_time_limits(body.jobStateTimeLimitActions or ()),
        document=job_queue_document(body),
        tags=validation.validated_tags(body.tags),
        created_at=parts.clock.now(),
    )
    return _name_and_arn(await parts.catalog.job_queues.create(queue, caller=request.caller), request)


async def update_job_queue(parts: Parts, request: BatchRequest, body: UpdateJobQueue) -> Answer:
    """Changes a job queue: its state, priority, environments or scheduling policy."""
    check_queue_supported(body)
    name = request.arns.queue_named(body.jobQueue)
    known = parts.catalog.environments
    made = await parts.catalog.job_queues.update(
        name, lambda queue: updated_job_queue(queue, body, request.arns, known), caller=request.caller
    )
    return _name_and_arn(made, request)


async def delete_job_queue(parts: Parts, request: BatchRequest, body: DeleteJobQueue) -> None:
    """Deletes a DISABLED job queue without unfinished jobs."""
    await parts.catalog.job_queues.delete(request.arns.queue_named(body.jobQueue), caller=request.caller)


async def describe_job_queues(parts: Parts, request: BatchRequest, body: DescribeJobQueues) -> Answer:
    """Describes job queues."""
    names = request.arns.all_named(ArnKind.QUEUE, body.jobQueues or ())
    known = parts.catalog.queues_of(request.caller)
    found = {name: queue for name, queue in known.items() if name in names} if body.jobQueues else known
    query = ("DescribeJobQueues", names)
    entries, more = page_of_entries(found, body, query=query, tokens=parts.tokens)
    return {"jobQueues": [job_queue_detail(queue, request.arns) for queue in entries], **more}


async def get_job_queue_snapshot(parts: Parts, request: BatchRequest, body: GetJobQueueSnapshot) -> Answer:
    """Lists the first RUNNABLE jobs of a queue in the order in which they will start."""
    name = request.arns.queue_named(body.jobQueue)
    queue = parts.catalog.queues.get(name)  # before the await, during which it may be deleted
    found = await parts.jobs.snapshot(name, caller=request.caller)
    return job_queue_snapshot(found, request.arns, fair=queue is not None and queue.policy is not None)


def _name_and_arn(queue: JobQueue, request: BatchRequest) -> Answer:
    return {"jobQueueName": queue.name, "jobQueueArn": request.arns.queue(queue.name)}


def check_queue_supported(given: CreateJobQueue | UpdateJobQueue) -> None:
    kind = given.jobQueueType if isinstance(given, CreateJobQueue) else None
    validation.refuse_unsupported(
        {"serviceEnvironmentOrder": given.serviceEnvironmentOrder}, validation.SERVICE_ENVIRONMENTS
    )
    if kind in UNSUPPORTED_TYPES:
        raise validation.unsupported_error(f"jobQueueType {kind}", UNSUPPORTED_TYPES[kind])


def environment_order(
    given: Sequence[ComputeEnvironmentOrder], arns: BatchArns, known: Environments
) -> tuple[EnvironmentName, ...]:
    """The names of a queue's environments, in the order in which they are tried. Raises Invalid, and NotFound.

    AWS: either all environments of a queue are of a Fargate type, or none is.
    """
    if not 1 <= len(given) <= MAX_ENVIRONMENTS:
        raise Invalid(f"computeEnvironmentOrder must name 1 to {MAX_ENVIRONMENTS} compute environments.")
    require_unique((order.order for order in given), "An order of computeEnvironmentOrder")
    named = tuple(
        _environment(order.computeEnvironment, arns) for order in sorted(given, key=lambda order: order.order)
    )
    require_unique(named, "A compute environment")
    if len({is_fargate(known[name]) for name in named if name in known}) > 1:
        raise Invalid("EC2 and Fargate compute environments cannot be mixed in a job queue.")
    return named


def queue_policy_name(text: str | None, arns: BatchArns) -> PolicyName | None:
    """The name in the ARN of a scheduling policy; None if the ARN is omitted or empty."""
    return scheduling_policies.policy_name(text, arns, member="schedulingPolicyArn") if text else None


def job_queue_document(given: CreateJobQueue) -> str:
    members: dict[str, object] = {"jobQueueType": given.jobQueueType} if given.jobQueueType else {}
    return json.dumps(members | {"orders": _orders(given.computeEnvironmentOrder or ())})


def updated_job_queue(before: JobQueue, given: UpdateJobQueue, arns: BatchArns, known: Environments) -> JobQueue:
    """The queue after an update: omitted members stay unchanged. Empty jobStateTimeLimitActions remove all actions."""
    order = given.computeEnvironmentOrder
    actions = given.jobStateTimeLimitActions
    return replace(
        before,
        state=before.state if given.state is None else State(given.state),
        priority=before.priority if given.priority is None else given.priority,
        environments=environment_order(order, arns, known) if order else before.environments,
        policy=queue_policy_name(given.schedulingPolicyArn, arns) or before.policy,
        time_limits=before.time_limits if actions is None else to_time_limits(actions),
        document=json.dumps(json.loads(before.document) | {"orders": _orders(order)}) if order else before.document,
    )


def job_queue_detail(queue: JobQueue, arns: BatchArns) -> dict[str, object]:
    """AWS: the status becomes VALID after a while. Here it always is VALID."""
    members = json.loads(queue.document)
    numbers = members.pop("orders", range(1, len(queue.environments) + 1))
    return {
        "jobQueueName": queue.name,
        "jobQueueArn": arns.queue(queue.name),
        "state": queue.state.value,
        "status": "VALID",
        "statusReason": status_reasons.QUEUE_DRAINED if queue.drained else "JobQueue Healthy",
        "priority": queue.priority,
        "computeEnvironmentOrder": [
            {"order": order, "computeEnvironment": arns.environment(name)}
            for order, name in zip(numbers, queue.environments, strict=True)
        ],
        "serviceEnvironmentOrder": [],
        "jobStateTimeLimitActions": time_limits_to_wire(queue.time_limits),
        **({} if queue.policy is None else {"schedulingPolicyArn": arns.policy(queue.policy)}),
        "tags": dict(queue.tags),
        **members,
    }


def _environment(text: str, arns: BatchArns) -> EnvironmentName:
    name = arns.named(ArnKind.ENVIRONMENT, text)
    if name is None:
        raise NotFound(f"ComputeEnvironment {text} not found.")
    return EnvironmentName(name)


def _orders(given: Sequence[ComputeEnvironmentOrder]) -> list[int]:
    return sorted(order.order for order in given)


def to_time_limits(given: Sequence[JobStateTimeLimitAction]) -> tuple[TimeLimit, ...]:
    require_unique((action.reason for action in given), "A reason of jobStateTimeLimitActions")
    return tuple(_limit(action) for action in given)


def time_limits_to_wire(limits: Iterable[TimeLimit]) -> list[dict[str, object]]:
    return [
        {
            "reason": limit.reason,
            "state": "RUNNABLE",
            "maxTimeSeconds": int(limit.most.total_seconds()),
            "action": "CANCEL",
        }
        for limit in limits
    ]


def _limit(given: JobStateTimeLimitAction) -> TimeLimit:
    if given.reason not in REASONS:
        raise Invalid(f"The reason of jobStateTimeLimitActions must be one of {', '.join(REASONS)}.")
    if not MIN_TIME_LIMIT <= given.maxTimeSeconds <= MAX_TIME_LIMIT:
        raise Invalid(
            f"maxTimeSeconds of jobStateTimeLimitActions must be between {MIN_TIME_LIMIT} and {MAX_TIME_LIMIT}."
        )
    if given.action != "CANCEL":
        raise NotSupported(
            f"The action {given.action} of jobStateTimeLimitActions is for queues of SageMaker Training jobs: "
            "here it must be CANCEL."
        )
    return TimeLimit(reason=given.reason, most=timedelta(seconds=given.maxTimeSeconds))


def job_queue_snapshot(snapshot: Snapshot, arns: BatchArns, *, fair: bool) -> Content:
    """`fair`: the queue has a scheduling policy, so the response includes the usage of its shares."""
    updated = {"lastUpdatedAt": milliseconds(snapshot.updated_at)}
    shares = {"fairshareUtilization": _shares(snapshot)} if fair else {}
    front = [
        {"jobArn": arns.job(job_id), "earliestTimeAtPosition": milliseconds(since)} for job_id, since in snapshot.jobs
    ]
    return {
        "frontOfQueue": {"jobs": front, **updated},
        "queueUtilization": {"totalCapacityUsage": [_usage(snapshot.millicpus)], **shares, **updated},
    }


def _shares(snapshot: Snapshot) -> Content:
    return {
        "activeShareCount": snapshot.active_shares,
        "topCapacityUtilization": [
            {"shareIdentifier": share, "capacityUsage": [_usage(millicpus)]} for share, millicpus in snapshot.shares
        ],
    }


def _usage(millicpus: int) -> Content:
    return {"capacityUnit": "VCPU", "quantity": millicpus / 1000}  # AWS: of jobs that do not run on Kubernetes
