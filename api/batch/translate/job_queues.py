"""Job queues: requests to the domain's values, and values to responses."""

import json
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.translate import scheduling_policies, time_limits, unsupported, validation
from batchq.api.batch.translate.compute_environments import on_fargate
from batchq.api.batch.wire.job_queues import ComputeEnvironmentOrder, CreateJobQueue, UpdateJobQueue
from batchq.domain.catalog import (
    ComputeEnvironment,
    EnvironmentName,
    JobQueue,
    PolicyName,
    State,
)
from batchq.domain.ids import QueueName
from batchq.errors import Invalid, NotFound

Known = Mapping[EnvironmentName, ComputeEnvironment]

MOST_ENVIRONMENTS = 3
UNSERVED_TYPES = {"EKS": unsupported.KUBERNETES, "SAGEMAKER_TRAINING": unsupported.SERVICE_JOBS}


def name_of(text: str, arns: BatchArns) -> QueueName:
    name = arns.named(ArnKind.QUEUE, validation.required(text, "jobQueue"))
    if name is None:
        raise NotFound(f"JobQueue {text} not found.")
    return QueueName(name)


def check_served(given: CreateJobQueue | UpdateJobQueue) -> None:
    kind = given.jobQueueType if isinstance(given, CreateJobQueue) else None
    unsupported.refuse({"serviceEnvironmentOrder": given.serviceEnvironmentOrder}, unsupported.SERVICE_ENVIRONMENTS)
    if kind in UNSERVED_TYPES:
        raise unsupported.refusal(f"jobQueueType {kind}", UNSERVED_TYPES[kind])


def environments(
    given: Sequence[ComputeEnvironmentOrder], arns: BatchArns, known: Known
) -> tuple[EnvironmentName, ...]:
    """The names of a queue's environments, in the order in which they are tried. Raises Invalid, and NotFound.

    AWS: either all environments of a queue are of a Fargate type, or none is.
    """
    if not 1 <= len(given) <= MOST_ENVIRONMENTS:
        raise Invalid(f"computeEnvironmentOrder must name 1 to {MOST_ENVIRONMENTS} compute environments.")
    validation.once((it.order for it in given), "An order of computeEnvironmentOrder")
    named = tuple(_environment(it.computeEnvironment, arns) for it in sorted(given, key=lambda it: it.order))
    validation.once(named, "A compute environment")
    if len({on_fargate(known[name]) for name in named if name in known}) > 1:
        raise Invalid("EC2 and Fargate compute environments cannot be mixed in a job queue.")
    return named


def policy(text: str | None, arns: BatchArns) -> PolicyName | None:
    """The name in the ARN of a scheduling policy; None if the ARN is omitted or empty."""
    return scheduling_policies.name_of(text, arns, said="schedulingPolicyArn") if text else None


def document(given: CreateJobQueue) -> str:
    told: dict[str, object] = {"jobQueueType": given.jobQueueType} if given.jobQueueType else {}
    return json.dumps(told | {"orders": _orders(given.computeEnvironmentOrder or ())})


def changed(before: JobQueue, given: UpdateJobQueue, arns: BatchArns, known: Known) -> JobQueue:
    """The queue after an update: omitted members stay unchanged. Empty jobStateTimeLimitActions remove all actions."""
    order = given.computeEnvironmentOrder
    actions = given.jobStateTimeLimitActions
    return replace(
        before,
        state=before.state if given.state is None else State(given.state),
        priority=before.priority if given.priority is None else given.priority,
        environments=environments(order, arns, known) if order else before.environments,
        policy=policy(given.schedulingPolicyArn, arns) or before.policy,
        time_limits=before.time_limits if actions is None else time_limits.limits(actions),
        document=json.dumps(json.loads(before.document) | {"orders": _orders(order)}) if order else before.document,
    )


def detail(queue: JobQueue, arns: BatchArns) -> dict[str, object]:
    """AWS: the status becomes VALID after a while. Here it always is VALID."""
    told = json.loads(queue.document)
    numbers = told.pop("orders", range(1, len(queue.environments) + 1))
    return {
        "jobQueueName": queue.name,
        "jobQueueArn": arns.queue(queue.name),
        "state": queue.state.value,
        "status": "VALID",
        "statusReason": "JobQueue Healthy",
        "priority": queue.priority,
        "computeEnvironmentOrder": [
            {"order": order, "computeEnvironment": arns.environment(name)}
            for order, name in zip(numbers, queue.environments, strict=True)
        ],
        "serviceEnvironmentOrder": [],
        "jobStateTimeLimitActions": time_limits.shown(queue.time_limits),
        **({} if queue.policy is None else {"schedulingPolicyArn": arns.policy(queue.policy)}),
        "tags": dict(queue.tags),
        **told,
    }


def _environment(text: str, arns: BatchArns) -> EnvironmentName:
    name = arns.named(ArnKind.ENVIRONMENT, text)
    if name is None:
        raise NotFound(f"ComputeEnvironment {text} not found.")
    return EnvironmentName(name)


def _orders(given: Sequence[ComputeEnvironmentOrder]) -> list[int]:
    return sorted(it.order for it in given)
