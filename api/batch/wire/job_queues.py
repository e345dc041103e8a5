"""Job queues."""

from typing import Literal

from batchq.api.batch.wire.shape import Integer, Named, Page, Shape, Tags, Text, Unserved

State = Literal["ENABLED", "DISABLED"]
QueueType = Literal["EKS", "ECS", "ECS_FARGATE", "SAGEMAKER_TRAINING", "ECS_MANAGED_INSTANCES"]


class ComputeEnvironmentOrder(Shape):
    order: Integer
    computeEnvironment: Text


class JobStateTimeLimitAction(Shape):
    reason: Text
    state: Literal["RUNNABLE"]
    maxTimeSeconds: Integer
    action: Literal["CANCEL", "TERMINATE"]


class CreateJobQueue(Shape):
    jobQueueName: Text
    priority: Integer
    state: State | None = None
    schedulingPolicyArn: Text | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unserved] | None = None
    jobQueueType: QueueType | None = None
    tags: Tags | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class UpdateJobQueue(Shape):
    jobQueue: Text
    state: State | None = None
    schedulingPolicyArn: Text | None = None
    priority: Integer | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unserved] | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class DeleteJobQueue(Shape):
    jobQueue: Text


class GetJobQueueSnapshot(Shape):
    jobQueue: Text


class DescribeJobQueues(Shape):
    jobQueues: Named | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None
