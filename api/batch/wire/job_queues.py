"""Shapes of job queues."""

from typing import Literal

from batchq.api.batch.wire.shape import Integer, Named, Page, Tags, Text, Unserved, WireModel

State = Literal["ENABLED", "DISABLED"]
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
    state: State | None = None
    schedulingPolicyArn: Text | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unserved] | None = None
    jobQueueType: QueueType | None = None
    tags: Tags | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class UpdateJobQueue(WireModel):
    jobQueue: Text
    state: State | None = None
    schedulingPolicyArn: Text | None = None
    priority: Integer | None = None
    computeEnvironmentOrder: list[ComputeEnvironmentOrder] | None = None
    serviceEnvironmentOrder: list[Unserved] | None = None
    jobStateTimeLimitActions: list[JobStateTimeLimitAction] | None = None


class DeleteJobQueue(WireModel):
    jobQueue: Text


class GetJobQueueSnapshot(WireModel):
    jobQueue: Text


class DescribeJobQueues(WireModel):
    jobQueues: Named | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None
