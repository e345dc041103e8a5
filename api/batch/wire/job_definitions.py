"""Shapes of job definitions."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.consumable_requirements import ConsumableResourceProperties
from batchq.api.batch.wire.containers import ContainerProperties
from batchq.api.batch.wire.nodes import NodeProperties
from batchq.api.batch.wire.shape import (
    Integer,
    LeftOutIfEmpty,
    Named,
    Page,
    Tags,
    Text,
    Unserved,
    WireModel,
)
from batchq.api.batch.wire.tasks import EcsProperties


class EvaluateOnExit(WireModel):
    """AWS: the action is case-insensitive."""

    action: Text
    onStatusReason: Text | None = None
    onReason: Text | None = None
    onExitCode: Text | None = None


class RetryStrategy(WireModel):
    attempts: Integer | None = None
    evaluateOnExit: list[EvaluateOnExit] | None = None


class JobTimeout(WireModel):
    attemptDurationSeconds: Integer | None = None


class RegisterJobDefinition(WireModel):
    jobDefinitionName: Text
    type: Literal["container", "multinode"]
    parameters: dict[Text, Text] | None = None
    schedulingPriority: Annotated[int, Field(ge=0, le=9999)] | None = None
    containerProperties: Annotated[ContainerProperties | None, LeftOutIfEmpty] = None
    nodeProperties: Annotated[NodeProperties | None, LeftOutIfEmpty] = None
    retryStrategy: RetryStrategy | None = None
    propagateTags: bool | None = None
    timeout: JobTimeout | None = None
    tags: Tags | None = None
    platformCapabilities: list[Literal["EC2", "FARGATE", "MANAGED_INSTANCES"]] | None = None
    eksProperties: Unserved | None = None
    ecsProperties: Annotated[EcsProperties | None, LeftOutIfEmpty] = None
    consumableResourceProperties: ConsumableResourceProperties | None = None


class DeregisterJobDefinition(WireModel):
    jobDefinition: Text


class DescribeJobDefinitions(WireModel):
    jobDefinitions: Named | None = None
    maxResults: Page | None = None
    jobDefinitionName: Text | None = None
    status: Text | None = None
    nextToken: Text | None = None
